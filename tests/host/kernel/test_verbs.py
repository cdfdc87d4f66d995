"""The violation counters in what ibv_devinfo prints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.host.kernel import sysfs
from ibkeys.host.kernel.verbs import NOT_READ, Violations, read_violations, violations_in
from ibkeys.host.kernel.view import read_host
from tests.host.kernel import trees

DEVINFO = """hca_id:\tmlx5_0
\ttransport:\t\t\tInfiniBand (0)
\tdevice_cap_flags:\t\t0x1425321c36
\t\t\t\t\tBAD_PKEY_CNTR
\t\t\t\t\tBAD_QKEY_CNTR
\t\t\t\t\tCHANGE_PHY_PORT
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_ACTIVE (4)
\t\t\tbad_pkey_cntr:\t\t0x2a
\t\t\tqkey_viol_cntr:\t\t0x0
\t\t\tpkey_tbl_len:\t\t128
"""
"""SYNTHETIC: as rdma-core's devinfo.c prints it."""


def test_the_counters_of_a_device_that_counts() -> None:
    assert violations_in(DEVINFO) == Violations(42, 0)


def test_a_zero_of_a_device_that_does_not_count_is_no_zero() -> None:
    assert violations_in(DEVINFO.replace("BAD_PKEY_CNTR", "")) == Violations(None, 0)
    assert violations_in(DEVINFO.replace("BAD_QKEY_CNTR", "")) == Violations(42, None)


@pytest.mark.parametrize("text", ["", "No IB devices found\n", "bad_pkey_cntr: 0x", "BAD_PKEY_CNTR\nbad_pkey_cntr: 7"])
def test_without_them_they_are_not_known(text: str) -> None:
    assert violations_in(text) == NOT_READ


@given(st.text(max_size=200))
def test_any_text_is_read(text: str) -> None:
    assert violations_in(text + "\n" + DEVINFO).q_key in (0, None)


def test_it_is_asked_for_one_port_and_never_with_a_name_that_is_an_option() -> None:
    asked: list[Sequence[str]] = []

    def run(command: Sequence[str]) -> str:
        asked.append(command)
        return DEVINFO

    assert read_violations(run, "mlx5_0", 2) == Violations(42, 0)
    assert read_violations(run, "--help", 1) == NOT_READ
    assert asked == [["ibv_devinfo", "-v", "-d", "mlx5_0", "-i", "2"]]


def test_of_a_copy_of_another_host_nobody_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = trees.connectx(tmp_path)

    def never(command: Sequence[str]) -> str:
        raise AssertionError(command)

    (port,) = read_host(sysfs.Sysfs(tree.root), never).ports
    assert port.violations == NOT_READ
    monkeypatch.setattr(sysfs, "SYSFS", tree.root)
    (port,) = read_host(sysfs.Sysfs(), lambda command: DEVINFO).ports
    assert port.violations == Violations(42, 0)

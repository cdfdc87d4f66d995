"""A change of keys signals OpenSM, which reads its policy and all its options then: an edit that waits unread is not
brought into force."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.corpus import DATA
from tests.integration.crashes import run_to_a_point
from tests.integration.hosted import Hosted
from tests.integration.hosted import opensm as opensm_of
from tests.integration.keyed_opensm import CLOSED, CONF, POLICY, KeyedOpensm, keyed
from tests.integration.tenants import TENANTS
from tests.sample import in_soak, sampled

CHANGES = {
    "mkey-deploy": ("mkey-deploy", *CLOSED),
    "smkey-rotate": ("smkey-rotate",),
    "harden": ("harden", "--policy", "partitions.conf"),
}
FAULTY = POLICY + "Gr een=zz : foo=full ;\n"
EDITED = POLICY + "Red=0x10 : ALL=full ;\n"


@pytest.fixture
def opensm() -> Iterator[KeyedOpensm]:
    with keyed(DATA / "fabrics" / "two-switch.net") as running:
        yield running


def edit(policy: Path, text: str) -> None:
    """Write a policy that is newer than any sweep, however close that was."""
    policy.write_text(text)
    os.utime(policy, (time.time() + 60,) * 2)


@pytest.mark.parametrize("change", sampled(CHANGES, ["mkey-deploy"]))
def test_a_policy_that_opensm_would_refuse_is_not_read(opensm: KeyedOpensm, change: str) -> None:
    words, wire, conf = CHANGES[change], opensm.served.wire(), opensm.conf.read_bytes()
    (opensm.served.folder / "wanted.conf").write_text(POLICY)
    words = tuple(word.replace("partitions.conf", "wanted.conf") for word in words)
    edit(opensm.running.policy, FAULTY)
    sweeps = opensm.running.heavy_sweeps
    code, said = opensm.ibkeys(*words, "--override", "stale")
    assert code == 4, said
    assert f"{opensm.running.policy}:2:8: error: 'zz' is not a P_Key" in said
    assert "SIGHUP" not in said.partition("error: OpenSM")[2]
    assert (opensm.served.wire(), opensm.conf.read_bytes(), opensm.running.heavy_sweeps) == (wire, conf, sweeps)


@pytest.mark.parametrize("change", sampled(CHANGES, ["smkey-rotate"]))
def test_a_policy_that_was_removed_since_the_last_sweep_is_an_interlock(opensm: KeyedOpensm, change: str) -> None:
    """Without one OpenSM makes every port a full member of the default partition."""
    words, conf = CHANGES[change], opensm.conf.read_bytes()
    (opensm.served.folder / "wanted.conf").write_text(TENANTS)
    words = tuple(word.replace("partitions.conf", "wanted.conf") for word in words)
    opensm.running.give(TENANTS.encode())
    wire = opensm.served.wire()
    opensm.running.policy.unlink()
    sweeps = opensm.running.heavy_sweeps
    code, said = opensm.ibkeys(*words)
    assert code == 4, said
    assert f"stale: {opensm.running.policy}, the policy, is missing, and 'node" in said
    assert (opensm.served.wire(), opensm.conf.read_bytes(), opensm.running.heavy_sweeps) == (wire, conf, sweeps)


def test_where_there_never_was_a_policy_keys_are_changed() -> None:
    with ExitStack() as stack:
        served = stack.enter_context(Hosted(DATA / "fabrics" / "two-switch.net"))
        keyed = KeyedOpensm(served, stack.enter_context(opensm_of(served, None, CONF)))
        for words in (("mkey-deploy", *CLOSED), ("mkey-rotate",), ("smkey-rotate",)):
            code, said = keyed.ibkeys(*words)
            assert code == 0, said


@pytest.mark.parametrize("change", ["mkey-deploy", in_soak("smkey-rotate")])
def test_an_edit_that_nobody_has_read_is_an_interlock(opensm: KeyedOpensm, change: str) -> None:
    wire = opensm.served.wire()
    edit(opensm.running.policy, EDITED)
    code, said = opensm.ibkeys(*CHANGES[change])
    assert code == 4, said
    assert f"stale: {opensm.running.policy}: changed after the last heavy sweep" in said
    assert opensm.served.wire() == wire
    code, said = opensm.ibkeys(*CHANGES[change], "--override", "stale")
    assert code == 0, said
    assert opensm.served.wire() != wire


@pytest.mark.parametrize("change", sampled(CHANGES, ["harden"]))
def test_an_edit_of_other_options_that_nobody_has_read_is_an_interlock(opensm: KeyedOpensm, change: str) -> None:
    (opensm.served.folder / "wanted.conf").write_text(POLICY)
    words = tuple(word.replace("partitions.conf", "wanted.conf") for word in CHANGES[change])
    edit(opensm.conf, opensm.conf.read_text() + "max_op_vls 4\n")
    wire, conf, sweeps = opensm.served.wire(), opensm.conf.read_bytes(), opensm.running.heavy_sweeps
    code, said = opensm.ibkeys(*words)
    assert code == 4, said
    assert f"stale: {opensm.conf}: changed after the last heavy sweep" in said
    assert (opensm.served.wire(), opensm.conf.read_bytes(), opensm.running.heavy_sweeps) == (wire, conf, sweeps)


@pytest.mark.parametrize("way", ["resume", in_soak("undo")])
def test_killed_between_file_and_signal_a_run_goes_on_and_back(opensm: KeyedOpensm, preloaded: str, way: str) -> None:
    """OpenSM has not read the step that it wrote itself."""
    stores = opensm.served.folder / "stores"
    words = ("mkey-deploy", *CLOSED, "--via", "opensm", "--yes")
    done, _ = run_to_a_point(opensm.served, preloaded, stores, words, "kill", "before the first signal")
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert "m_key_protection_level" in opensm.conf.read_text()
    code, said = opensm.ibkeys(way)
    assert code == 0, said
    opensm.assert_nothing_was_lost()

"""Ports with a key that a run over all ports does not find: it names them, and says what becomes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli, between_commands
from tests.cli.rolling import LEVEL_2, lines

QUICK = ("--yes", "-t", 50, "--retries", 0)
SILENT = "node02 mlx4_0"
NAMED = f"{SILENT} (ca 0x0002c903000a1020) port 1, LID ?: "


@pytest.fixture(autouse=True)
def protected(cli: Cli) -> None:
    """Every port has a key, level 2 and a lease."""
    assert cli("mkey-deploy", "--per-port", *LEVEL_2, "--yes").code == 0


def silence(folder: Path, *names: str, silent: bool = True) -> None:
    with between_commands(folder) as net:
        for name in names:
            net.silence(name, silent)


def m_keys(folder: Path) -> dict[str, int]:
    with between_commands(folder) as net:
        return {node.description: port.m_key for node in net.nodes for port in node.end_ports if port.m_key}


@pytest.mark.parametrize(
    ("run", "way_on"),
    [
        (("mkey-rotate", "--per-port"), "when it answers, `ibkeys resume` gives it the new one; "),
        (("mkey-rotate", "--same"), "when it answers, `ibkeys resume` gives it the new one; "),
        (("mkey-rotate", "--per-port", "--first", 3), "when it answers, `ibkeys resume` gives it the new one; "),
        (("mkey-remove", "--leave-open"), "when it answers, `ibkeys resume` removes it; "),
    ],
)
def test_a_host_that_was_silent_before_the_run_is_named_and_gets_its_turn_when_it_answers(
    cli: Cli, tmp_path: Path, run: tuple[Any, ...], way_on: str
) -> None:
    before = m_keys(tmp_path)
    silence(tmp_path, SILENT)
    result = cli(*run, *QUICK)
    assert result.code == 3
    assert f"left alone: {NAMED}not read, so it keeps its former M_Key: {way_on}" in result.out
    assert "at the switch port before it: nothing answers behind it (route 0,1,2): " in result.out
    assert result.out.count("left alone: ") == 1, "the switch port in front of it is not a second one"
    assert m_keys(tmp_path)[SILENT] == before[SILENT]
    silence(tmp_path, SILENT, silent=False)
    assert cli("resume", "--yes").code == 0
    now = m_keys(tmp_path)
    assert not set(now.values()) & set(before.values())
    assert len(now) == (0 if run[0] == "mkey-remove" else 8)


def test_resume_names_a_host_that_is_still_silent_and_was_never_begun(cli: Cli, tmp_path: Path) -> None:
    silence(tmp_path, SILENT)
    assert cli("mkey-rotate", "--per-port", *QUICK).code == 3
    result = cli("resume", *QUICK)
    assert result.code == 3
    assert f"nothing to change\nleft alone: {NAMED}" in result.out
    assert "it keeps the setting that it had before the run, until `ibkeys resume` finds it" in result.out


def test_a_first_key_is_not_for_a_port_that_has_one_but_it_is_named(cli: Cli, tmp_path: Path) -> None:
    silence(tmp_path, SILENT)
    result = cli("mkey-deploy", "--per-port", *LEVEL_2, *QUICK)
    assert result.code == 3
    assert f"left alone: {NAMED}not read, and it has an M_Key already" in result.out


def test_ports_that_are_off_for_one_reason_are_one_line_until_they_are_settled(cli: Cli, tmp_path: Path) -> None:
    with between_commands(tmp_path) as net:
        for name in ("node02 mlx4_0", "node03 mlx4_0"):
            net.unplug(name, 1)
    result = cli("mkey-rotate", "--per-port", *QUICK)
    assert result.code == 3
    (line,) = (line for line in result.out.splitlines() if line.startswith("left alone: "))
    assert line.startswith("left alone: 2 ports: not read, so it keeps its former M_Key: ")
    assert line.endswith(": node[02-03] mlx4_0")
    assert cli("keystore", "list", "--settle", "--yes").code == 0
    assert cli("mkey-rotate", "--per-port", *QUICK).code == 0


def test_settle_as_json_has_ports_that_are_gone_and_places_with_nobody_known(cli: Cli, tmp_path: Path) -> None:
    far = "Infiniscale-IV Mellanox Technologies"
    with between_commands(tmp_path) as net:
        for name in (SILENT, "node05 mlx4_0"):
            net.unplug(name, 1)
        net.plug(SILENT, 1, far, 2)
        net.plug("node05 mlx4_0", 1, far, 6)
        net.reset("node05 mlx4_0")
    result = cli("keystore", "list", "--settle", "--yes", "-f", "json")
    assert result.code == 3
    assert result.json["vanished"] == ["0x0002c903000a1021", "0x0002c903000a1051"]
    known = [(each["behind"]["port"], each["known"]) for each in result.json["unidentified"]]
    assert known == [(2, {"guid": "0x0002c903000a1051", "port": 1}), (6, None)]
    assert result.json["settled"]


def test_json_has_a_line_for_the_port_that_was_not_read(cli: Cli, tmp_path: Path) -> None:
    silence(tmp_path, SILENT)
    ports, last = lines(cli("mkey-rotate", "--per-port", *QUICK, "-f", "json"))
    (skipped,) = (port for port in ports if port["result"] == "skipped")
    assert skipped.pop("reason").startswith("not read, so it keeps its former M_Key")
    assert skipped == {
        "node_guid": "0x0002c903000a1020",
        "port_guid": "0x0002c903000a1021",
        "node_desc": SILENT,
        "node_type": "ca",
        "port": 1,
        "lid": None,
        "result": "skipped",
    }
    assert (last["summary"]["skipped"], last["summary"]["unread"]) == (1, 1)

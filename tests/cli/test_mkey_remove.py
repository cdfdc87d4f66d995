"""mkey-remove on the command line: what it says and asks, and its exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import TWO_SWITCH, Cli, run
from tests.cli.rolling import LEVEL_2, keys_in, lines, shown

WARNING = (
    "8 ports lose their M_Keys: afterwards every host of the fabric may change their P_Key tables, LIDs and routes, or "
    "set a key that is not known here"
)


@pytest.fixture(autouse=True)
def protected(cli: Cli) -> None:
    """Every port has a key, level 2 and a lease."""
    assert cli("mkey-deploy", "--per-port", *LEVEL_2, "--yes").code == 0


def test_as_a_person_sees_it(cli: Cli) -> None:
    result = cli("mkey-remove", "--yes")
    assert result.code == 0
    assert result.out == (
        "8 ports to change, at most 64 at once\n"
        "    node[01-06] mlx4_0\n"
        "    Infiniscale-IV Mellanox Technologies port 0\n"
        "    MF0;switch-a:IS5023/U1 port 0\n"
        "  M_Key: set -> zero on 8 ports\n"
        "  M_KeyProtectBits: 2 -> 0 on 8 ports\n"
        "  M_KeyLeasePeriod: 60 -> 0 on 8 ports\n"
        "  last of all, the local port: node01 mlx4_0 (ca 0x0002c903000a1010) port 1, LID 1\n"
        "operation 2: 8 ports done, 0 failed, 0 left alone, 0 waiting\n"
    )
    assert f"ibkeys: note: {WARNING}; --leave-open confirms that this is intended\n" in result.err
    assert shown(cli) == {("zero", 0, 0)}
    again = cli("mkey-remove", "--yes")
    assert (again.code, again.out) == (
        0,
        "nothing to change\nleft alone: 8 ports: no M_Key, no level and no lease\n",
    )


@pytest.mark.parametrize("removal", [("mkey-remove",), ("undo", 1)])
def test_the_journal_has_a_removed_key_as_zero(cli: Cli, removal: tuple[str, ...]) -> None:
    def keys(operation: int) -> set[str]:
        changes = cli("journal", operation, "-f", "json").json["changes"]
        return {each["after"] for each in changes if each["kind"] == "m_key"}

    assert cli(*removal, "--yes", "--leave-open").code == 0
    assert shown(cli) == {("zero", 0, 0)}
    assert (keys(1), keys(2)) == ({"set"}, {"zero"})
    assert "  m_key: - -> zero\n" in cli("journal", 2).out
    if removal == ("mkey-remove",):
        assert cli("undo", 2, "--yes").code == 0
        assert keys(3) == {"set"}


def test_json_has_a_line_for_each_port_and_the_summary(cli: Cli) -> None:
    ports, last = lines(cli("mkey-remove", "--yes", "-f", "json"))
    assert [port["result"] for port in ports] == ["done"] * 8
    assert (last["schema"], last["summary"]["done"]) == ("ibkeys.mkey-remove/2", 8)


@pytest.mark.parametrize("format", ["table", "json", "csv"])
def test_without_yes_and_terminal_the_consequences_are_named_and_nothing_is_changed(cli: Cli, format: str) -> None:
    result = cli("mkey-remove", "-f", format)
    assert result.code == 4
    assert f"{WARNING}: --leave-open confirms that this is intended" in result.err.splitlines()[-1]
    assert shown(cli) == {("set", 2, 60)}


def test_a_dry_run_says_what_would_be_asked(cli: Cli) -> None:
    result = cli("mkey-remove", "--dry-run", "-f", "json")
    assert result.code == 1
    assert f"ibkeys: would be asked: {WARNING}; " in result.err
    ports, last = lines(result)
    assert ports[0]["changes"][0] == {"kind": "m_key", "index": None, "before": "set", "after": "zero"}
    assert (last["dry_run"], last["interlocks"]) == (True, [])
    assert shown(cli) == {("set", 2, 60)}


@pytest.mark.parametrize(
    ("options", "answers", "code", "asks"),
    [
        ((), "y\ny\n", 0, 1),
        ((), "n\n", 4, 1),
        ((), "y\nn\n", 4, 1),
        (("--leave-open",), "y\n", 0, 0),
        (("--leave-open",), "n\n", 4, 0),
    ],
)
def test_on_a_terminal_the_open_fabric_is_a_question_of_its_own(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], answers: str, code: int, asks: int
) -> None:
    monkeypatch.setattr("ibkeys.cli.changing.is_a_terminal", lambda: True)
    result = cli("mkey-remove", *options, stdin=answers)
    assert result.code == code
    assert result.err.count("Is this intended? [y/N] ") == asks
    assert shown(cli) == {("set", 2, 60) if code else ("zero", 0, 0)}


def test_the_first_then_the_others_then_back(cli: Cli) -> None:
    result = cli("mkey-remove", "--first", 2, "--yes")
    assert result.code == 0
    assert "next: check the ports, then `ibkeys resume` for the others, or" in result.out
    assert cli("mkey-remove", "--yes").code == 4
    assert cli("resume", "--yes").code == 0
    assert shown(cli) == {("zero", 0, 0)}
    result = cli("undo", 2, "--yes")
    assert result.code == 0
    assert "M_Key: zero -> set on 8 ports" in result.out
    assert "lose their M_Keys" not in result.err
    assert shown(cli) == {("set", 2, 60)}


@pytest.mark.parametrize(
    "options",
    [
        ("--same",),
        ("--per-port",),
        ("--new-m-key", "-"),
        ("--protect", 0),
        ("--lease", 0),
        ("--opensm-conf", "opensm.conf"),
        ("--continue",),
        ("--resume", "--first", 2),
        ("--abort", "--order", "nearest"),
        ("--first", 0),
    ],
)
def test_wrong_usage_is_one_line(cli: Cli, options: tuple[Any, ...]) -> None:
    result = cli("mkey-remove", *options, "--yes")
    assert result.code == 2
    assert result.error
    assert shown(cli) == {("set", 2, 60)}


def test_under_a_subnet_manager_it_says_how_opensm_does_it(key_file: Path, tmp_path: Path) -> None:
    backend = ("--backend", f"{TWO_SWITCH},sm=node03 mlx4_0,state={tmp_path / 'other'}")
    given = ("--same", "--new-m-key", f"@{key_file}", *LEVEL_2, "--override", "mkey-under-sm")
    assert run("mkey-deploy", *given, "--yes", *backend).code == 0
    result = run("mkey-remove", "--yes", *backend)
    assert result.code == 4
    said = [line for line in result.err.splitlines() if line.startswith("ibkeys: under a subnet manager: ")]
    assert [line.split(": ")[2].split(" ")[0] for line in said] == ["runs", "if", "if"]
    assert "`ibkeys mkey-remove --via opensm`" in said[1]
    assert result.err.splitlines()[-1].startswith("ibkeys: error: refused by interlock mkey-under-sm: ")


def test_no_key_is_in_what_is_said(cli: Cli, tmp_path: Path) -> None:
    said = ""
    for command in (("mkey-remove", "--yes", "-d", "-K", "-f", "json"), ("undo", 2, "--yes", "-d")):
        result = cli(*command)
        assert result.code == 0
        said += result.out + result.err
    keys = {key for key in keys_in(tmp_path) if not key.is_zero}
    assert len(keys) == 8
    for key in keys:
        assert key.hex()[2:] not in said
        assert str(key.reveal()) not in said

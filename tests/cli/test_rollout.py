"""mkey-deploy and mkey-rotate on the command line: what they say, and their exit codes."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import KEY, TWO_SWITCH, Cli, Terminal, between_commands, on_terminal, run
from tests.cli.rolling import LEVEL_2, keys_in, lines, shown


def test_deploy_as_a_person_sees_it(cli: Cli) -> None:
    result = cli("mkey-deploy", "--per-port", *LEVEL_2, "--yes")
    assert result.code == 0
    assert result.out == (
        "8 ports to change, at most 64 at once\n"
        "    node[01-06] mlx4_0\n"
        "    Infiniscale-IV Mellanox Technologies port 0\n"
        "    MF0;switch-a:IS5023/U1 port 0\n"
        "  M_Key, each its own: zero -> set on 8 ports\n"
        "  M_KeyProtectBits: 0 -> 2 on 8 ports\n"
        "  M_KeyLeasePeriod: 0 -> 60 on 8 ports\n"
        "  last of all, the local port: node01 mlx4_0 (ca 0x0002c903000a1010) port 1, LID 1\n"
        "operation 1: 8 ports done, 0 failed, 0 left alone, 0 waiting\n"
        "save the keys: `ibkeys keystore backup FILE`, and keep a copy on another host\n"
    )
    assert all(line.startswith("ibkeys: note: ") for line in result.err.splitlines())
    assert shown(cli) == {("set", 2, 60)}


def test_the_first_ports_are_named_before_the_question(cli: Cli) -> None:
    result = cli("mkey-deploy", "--per-port", *LEVEL_2, "--first", 3, "--dry-run")
    ports, _ = lines(cli("mkey-deploy", "--per-port", *LEVEL_2, "--first", 3, "--dry-run", "-f", "json"))
    shown = result.out.splitlines()
    assert shown[0] == "3 ports to change, at most 64 at once"
    assert [port["node_desc"] for port in ports if port["result"] == "planned"] == [
        f"node0{number} mlx4_0" for number in (4, 5, 6)
    ]
    assert shown[1] == "    node[04-06] mlx4_0"
    assert "  5 ports wait for `ibkeys resume`" in shown


def test_one_port_alone_waits_for_continue(cli: Cli) -> None:
    assert "\n  1 port waits for `ibkeys resume`\n" in cli("mkey-deploy", "--per-port", "--first", 7, "--dry-run").out


def test_json_has_a_line_for_each_port_and_the_summary(cli: Cli) -> None:
    cli("mkey-deploy", "--per-port", *LEVEL_2, "--yes")
    ports, last = lines(cli("mkey-rotate", "--per-port", "--yes", "-f", "json"))
    assert len(ports) == 8
    assert ports[0] == {
        "node_guid": "0x0002c903000a1040",
        "port_guid": "0x0002c903000a1041",
        "node_desc": "node04 mlx4_0",
        "node_type": "ca",
        "port": 1,
        "lid": 4,
        "result": "done",
        "reason": None,
    }
    assert last == {
        "schema": "ibkeys.mkey-rotate/2",
        "dry_run": False,
        "summary": {
            "unreached": 0,
            "via": "direct",
            "operation": 2,
            "done": 8,
            "skipped": 0,
            "failed": 0,
            "waiting": 0,
            "unread": 0,
            "overtaken": 0,
            "unresolved": 0,
            "replies_lost": 0,
            "sets_lost": 0,
            "violations": 0,
            "stopped": None,
            "gone_back": False,
        },
        "interlocks": [],
    }


def test_csv(cli: Cli) -> None:
    rows = list(csv.DictReader(io.StringIO(cli("mkey-deploy", "--per-port", *LEVEL_2, "--yes", "-f", "csv").out)))
    assert [row["result"] for row in rows] == ["done"] * 8
    assert rows[-1]["node_desc"] == "node01 mlx4_0"


@pytest.mark.parametrize("format", ["table", "json", "csv"])
def test_dry_run_tells_each_port_in_order_and_makes_nothing(cli: Cli, tmp_path: Path, format: str) -> None:
    result = cli("mkey-deploy", "--per-port", "--protect", 2, "--dry-run", "-f", format)
    assert result.code == 4
    assert "would be refused: by interlock lease-0" in result.err
    assert shown(cli) == {("zero", 0, 0)}
    assert not list(tmp_path.glob("fabric.keys*"))
    if format == "json":
        ports, last = lines(result)
        assert [port["result"] for port in ports] == ["planned"] * 8
        assert ports[0]["changes"][0] == {"kind": "m_key", "index": None, "before": "zero", "after": "set"}
        assert (last["dry_run"], last["interlocks"], last["summary"]["waiting"]) == (True, ["lease-0"], 8)
    elif format == "table":
        assert "node04 mlx4_0 (ca 0x0002c903000a1040) port 1, LID 4: m_key zero -> set, M_KeyProtectBits 0 -> 2\n" in (
            result.out.replace("M_Key zero", "m_key zero")
        )
        assert result.out.endswith("dry run: nothing was changed\n")


def test_the_first_then_the_others_then_back(cli: Cli) -> None:
    result = cli("mkey-deploy", "--per-port", *LEVEL_2, "--first", 2, "--yes")
    assert result.code == 0
    assert "  6 ports wait for `ibkeys resume`\n" in result.out
    assert "operation 1: 2 ports done, 0 failed, 0 left alone, 6 waiting\nnext: check the ports" in result.out
    refused = cli("mkey-rotate", "--per-port", "--yes")
    assert refused.code == 4
    assert "is not finished" in refused.error
    assert cli("resume", "--yes").code == 0
    assert shown(cli) == {("set", 2, 60)}
    assert cli("undo", 1, "--dry-run", "--leave-open").code == 1
    result = cli("undo", 1, "--yes", "--leave-open")
    assert result.code == 0
    assert "M_Key: set -> zero on 8 ports" in result.out
    assert shown(cli) == {("zero", 0, 0)}


def test_a_finished_deployment_is_not_taken_back_without_a_word_that_ports_may_be_open(cli: Cli) -> None:
    cli("mkey-deploy", "--per-port", *LEVEL_2, "--yes")
    refused = cli("undo", 1, "--yes")
    assert (refused.code, "--leave-open" in refused.error) == (4, True)
    dry = cli("undo", 1, "--dry-run")
    assert (dry.code, "would be refused: 8 ports" in dry.err, "M_Key: set -> zero on 8 ports" in dry.out) == (
        4,
        True,
        True,
    )
    assert shown(cli) == {("set", 2, 60)}
    assert cli("pkey-add", 2, "0x8010", "--yes").code == 0
    refused = cli("undo", 2, "--yes", "--leave-open")
    assert (refused.code, "has no use for --leave-open: omit it" in refused.error) == (2, True)


def test_of_a_finished_rotation_it_is_said_before_the_question_that_former_keys_return(cli: Cli) -> None:
    cli("mkey-deploy", "--per-port", *LEVEL_2, "--yes")
    cli("mkey-rotate", "--per-port", "--yes")
    asked = on_terminal("undo", 2, stdin=Terminal("n\n"))
    said = " ".join(asked.err.split())
    assert asked.code == 4
    assert 0 <= said.index("the former M_Keys return") < said.index("Make this change?")


def test_only_the_last_run_goes_back(cli: Cli, tmp_path: Path) -> None:
    def on_the_ports() -> list[int]:
        with between_commands(tmp_path) as net:
            return [port.m_key for node in net.nodes for port in node.ports]

    assert cli("mkey-deploy", "--per-port", *LEVEL_2, "--yes").code == 0
    assert cli("mkey-rotate", "--per-port", "--yes").code == 0
    before = on_the_ports()
    refused = cli("undo", "--yes")
    named = "the last one is operation 2 (mkey-rotate), and `ibkeys undo 2` rolls it back"
    assert (refused.code, named in refused.error) == (2, True)
    refused = cli("undo", 1, "--yes")
    assert refused.code == 2
    assert "operation 1 (mkey-deploy) is not the last run of M_Keys" in refused.error
    assert on_the_ports() == before


def test_nothing_to_do(cli: Cli) -> None:
    result = cli("mkey-rotate", "--per-port", "--yes")
    assert result.code == 0
    assert result.out == ("nothing to change\nleft alone: 8 ports: no M_Key: mkey-deploy gives the first one\n")


def test_under_a_subnet_manager_it_says_what_to_do_instead(key_file: Path, tmp_path: Path) -> None:
    backend = ("--backend", f"{TWO_SWITCH},sm=node03 mlx4_0,state={tmp_path / 'fabric'}")
    result = run("mkey-deploy", "--same", "--new-m-key", f"@{key_file}", *LEVEL_2, "--yes", *backend)
    assert result.code == 4
    said = [line for line in result.err.splitlines() if line.startswith("ibkeys: under a subnet manager: ")]
    assert [line.split(": ")[2].split(" ")[0] for line in said] == ["runs", "if", "if", "a"]
    assert f"--via opensm --protect 2 --lease 60 --new-m-key @{key_file}" in result.err
    assert result.err.splitlines()[-1].startswith("ibkeys: error: refused by interlock mkey-under-sm: ")
    assert f"{KEY:x}" not in result.err + result.out


@pytest.mark.parametrize(
    "options",
    [
        ("--same", "--wait", 5),
        ("--same", "--open-while-rotating"),
        ("--same", "--sm-host", "other"),
        ("--new-m-key", "@nowhere"),
        (),
        ("--protect", 2),
        ("--same", "--per-port"),
        ("--per-port", "--opensm-conf", "nowhere.conf", "--protect", 2, "--lease", 60),
        ("--first", 0),
        ("--max-failures", 0),
        ("--at-once", 0),
        ("--order", "random"),
    ],
)
def test_wrong_usage_is_one_line(cli: Cli, options: tuple[Any, ...]) -> None:
    result = cli("mkey-rotate", *options, "--yes")
    assert result.code == 2
    assert result.error


@pytest.mark.parametrize(
    ("option", "by"),
    [("--continue", "resume"), ("--resume", "resume"), ("--abort", "undo ID"), ("--overtaken", "resume --overtaken")],
)
def test_a_former_option_names_the_command(cli: Cli, option: str, by: str) -> None:
    result = cli("mkey-rotate", option, "--yes")
    assert (result.code, result.error) == (2, f"{option} is gone: use `ibkeys {by}`")


@pytest.mark.parametrize("command", ["mkey-deploy", "mkey-rotate", "mkey-remove", "apply"])
@pytest.mark.parametrize("rest", [(), ("--yes",), ("1", "--yes"), ("--override", "nonsense", "--yes")], ids=" ".join)
def test_a_former_option_that_took_an_operation_names_the_command_without_one_too(
    cli: Cli, command: str, rest: tuple[str, ...]
) -> None:
    for option, by in {"--confirm": "confirm", "--unconfirmed": "undo"}.items():
        if (command, option) != ("apply", "--unconfirmed"):  # it never had that
            result = cli(command, option, *rest)
            assert (result.code, result.error) == (2, f"{option} is gone: use `ibkeys {by} ID`")


@pytest.mark.parametrize("command", ["mkey-deploy", "mkey-rotate"])
def test_a_first_run_says_whether_each_port_gets_its_own_key(cli: Cli, command: str) -> None:
    result = cli(command, *LEVEL_2, "--yes")
    assert result.code == 2
    assert "add --same for one key on all ports (stock OpenSM can keep it), or --per-port for" in result.error
    assert "--per-port lasts only where no SM runs" in cli(command, *LEVEL_2, "--yes", "-v").err
    assert shown(cli) == {("zero", 0, 0)}


def test_a_configuration_without_the_key_is_refused_and_one_with_it_is_not(
    cli: Cli, key_file: Path, tmp_path: Path
) -> None:
    conf = tmp_path / "opensm.conf"
    conf.write_text("# no key\n")
    given = ("mkey-deploy", "--same", "--new-m-key", f"@{key_file}", *LEVEL_2, "--opensm-conf", conf, "--first", 2)
    result = cli(*given, "--yes")
    assert result.code == 4
    assert result.err.splitlines()[-1].startswith("ibkeys: error: refused by interlock sm-wipes-keys: ")
    assert result.err.splitlines()[-1].endswith("to do it anyway: --override sm-wipes-keys; -v says more")
    assert shown(cli) == {("zero", 0, 0)}
    result = cli("mkey-deploy", "--per-port", *LEVEL_2, "--opensm-conf", conf, "--dry-run", "-f", "json")
    assert (result.code, lines(result)[1]["interlocks"]) == (4, ["sm-wipes-keys"])
    conf.write_text(f"m_key {KEY:#x}\n")
    assert cli(*given, "--yes").code == 0
    conf.write_text("")
    assert cli("resume", "--opensm-conf", conf, "--yes").code == 4
    assert cli("resume", "--yes").code == 0


@pytest.mark.parametrize("format", ["table", "json", "csv"])
def test_a_first_key_that_everybody_can_read_is_asked_about(cli: Cli, format: str) -> None:
    for more in (("--lease", 60), ()):
        result = cli("mkey-deploy", "--per-port", "-f", format, *more)
        assert result.code == 4
        assert "8 ports get their first M_Keys at level 0: everyone who reads the port sees the new M_Key" in result.err
        assert "--protect 0" in result.err.splitlines()[-1]
    assert shown(cli) == {("zero", 0, 0)}
    result = cli("mkey-deploy", "--per-port", "--dry-run")
    assert result.code == 1
    assert "ibkeys: would be asked: 8 ports get their first M_Keys at level 0" in result.err
    result = cli("mkey-deploy", "--per-port", "--yes")
    assert result.code == 0
    assert "--protect 0 confirms that this is intended" in result.err
    assert shown(cli) == {("set", 0, 0)}


@pytest.mark.parametrize(("answers", "code"), [("y\ny\n", 0), ("n\n", 4), ("y\nn\n", 4), ("", 4)])
def test_on_a_terminal_level_0_is_a_question_of_its_own(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, answers: str, code: int
) -> None:
    monkeypatch.setattr("ibkeys.cli.changing.is_a_terminal", lambda: True)
    result = cli("mkey-deploy", "--per-port", stdin=answers)
    assert result.code == code
    assert "Is this intended? [y/N] " in result.err
    assert ("Make this change? [y/N] " in result.err) == answers.startswith("y")
    assert shown(cli) == {("set", 0, 0) if code == 0 else ("zero", 0, 0)}


def test_without_yes_and_terminal_nothing_is_changed(cli: Cli) -> None:
    result = cli("mkey-deploy", "--per-port", *LEVEL_2, stdin="y\n")
    assert result.code == 4
    assert shown(cli) == {("zero", 0, 0)}


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 4)])
def test_a_terminal_is_asked(cli: Cli, monkeypatch: pytest.MonkeyPatch, answer: str, code: int) -> None:
    monkeypatch.setattr("ibkeys.cli.changing.is_a_terminal", lambda: True)
    result = cli("mkey-deploy", "--per-port", *LEVEL_2, "-f", "json", stdin=answer)
    assert result.code == code
    assert "M_Key, each its own: zero -> set on 8 ports\n" in result.err
    assert "Make this change? [y/N] " in result.err


def test_no_key_is_in_what_is_said(cli: Cli, tmp_path: Path) -> None:
    said = ""
    for command in (
        ("mkey-deploy", "--per-port", *LEVEL_2, "--yes", "-d"),
        ("mkey-rotate", "--per-port", "--yes", "-d", "-K", "-f", "json"),
        ("undo", 2, "--yes", "-d", "-f", "csv"),
    ):
        result = cli(*command)
        assert result.code == 0
        said += result.out + result.err
    keys = keys_in(tmp_path)
    assert len(set(keys)) == 16
    for key in keys:
        assert key.hex()[2:] not in said
        assert str(key.reveal()) not in said

"""``doctor --report``: the lines, the document, the archive and the exit codes."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import re
from pathlib import Path

import pytest

from ibkeys import files
from ibkeys.errors import AccessDenied, NoReply
from ibkeys.hardware.catalogue import CHECKS
from ibkeys.hardware.check import differs
from ibkeys.hardware.checks import left_out
from ibkeys.hardware.loopback.putting_back import restore_all
from ibkeys.sim.subnet import Subnet
from tests.cli.conftest import DUAL_HOME, KEY, TWO_SWITCH, Cli, between_commands, on_terminal
from tests.fabricsim import change_each_subnet
from tests.hardware.looking import held, unpacked

FAST = ("-t", 100, "--retries", 0)
LOOPBACK = ("--write-loopback", "sim0/1,sim0/2")


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return tmp_path / "report.tar.gz"


@pytest.fixture
def two_ports(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """A host with two ports, whose fabric lasts for the test."""
    monkeypatch.setenv("IBKEYS_BACKEND", f"{DUAL_HOME},state={tmp_path / 'dual'}")
    return cli


def outcomes(document: dict[str, object]) -> dict[str, str]:
    report = document["report"]
    assert isinstance(report, dict)
    return {row["id"]: row["outcome"] for row in report["findings"]}


def test_one_line_for_each_check_and_where_the_archive_is(cli: Cli, archive: Path) -> None:
    result = cli("doctor", "--report", archive, *FAST)
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[-2].endswith(" not checked")
    assert lines[-1] == f"All of it is in {archive}: look through it before you send it."
    assert sum(line.startswith(("same  ", "seen  ", "not checked  ", "DIFFERS  ")) for line in lines) == len(CHECKS)
    in_file = unpacked(archive)["report.txt"].decode().splitlines()
    assert set(in_file) <= set(lines)


def test_on_a_terminal_a_check_is_one_line_that_fits(archive: Path) -> None:
    words = ("doctor", "--backend", TWO_SWITCH, "--report", archive, *FAST)
    lines = on_terminal(*words).out.splitlines()
    start = next(at for at, line in enumerate(lines) if "host.system" in line)
    end = start + len(CHECKS) - len(left_out.CHECKS)
    assert all(line.startswith(("same  ", "seen  ", "not checked  ")) for line in lines[start:end])
    assert (lines[end], lines[-1]) == ("", "14 assumptions that no reading can show have their lines there too.")
    assert max(len(line) for line in lines[start:end]) <= 80
    assert any(line.endswith("...") for line in lines[start:])
    assert not any(line.endswith("...") for line in on_terminal(*words, "-v").out.splitlines()[start:])


def test_where_no_port_is_opened_one_line_says_why(cli: Cli, archive: Path, tmp_path: Path) -> None:
    words = ("doctor", "--backend", f"sim:{tmp_path / 'absent.net'}", "--report", archive)
    result = cli(*words)
    lines = result.out.splitlines()[-3:]
    assert result.code == 1
    assert lines[0].startswith(f"none of the {len(CHECKS)} checks was made: the local port was not opened: ")
    assert lines[1] == f"No fabric was read: {archive} has what is said above, and what this host is."
    assert lines[2] == "Look through it before you send it."
    assert sum(line.startswith("not checked") for line in cli(*words, "-v").out.splitlines()) == len(CHECKS)


def test_what_differs_is_whole_and_says_what_was_assumed(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def odd(net: Subnet) -> None:
        net.silence("node03 mlx4_0")

    change_each_subnet(monkeypatch, odd)
    out = on_terminal("doctor", "--backend", TWO_SWITCH, "--report", archive, *FAST).out
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in out.splitlines()]
    at = next(at for at, line in enumerate(lines) if line.startswith("DIFFERS      nodes.all-answer"))
    told = " ".join(" ".join(lines[at : at + 4]).split())
    assert "7 nodes; not read: 1 x NodeInfo silent" in told
    assert "assumed: every node that a cable leads to answers everything that a sweep asks" in told
    assert max(map(len, lines)) <= 80
    assert "Lines that end in ... are whole in report.txt there, and with -v." in lines
    assert "assumed: every node that a cable leads to" in unpacked(archive)["report.txt"].decode()


def test_json_and_csv_have_the_findings(cli: Cli, archive: Path) -> None:
    document = cli("doctor", "-f", "json", "--report", archive, *FAST).json
    assert list(document) == ["schema", "checks", "problems", "settings", "report"]
    assert list(document["report"]) == ["file", "summary", "findings"]
    assert all(
        list(row) == ["id", "basis", "assumed", "outcome", "said", "values"] for row in document["report"]["findings"]
    )
    assert document["report"]["findings"][1:] == json.loads(unpacked(archive)["report.json"])["findings"][1:]
    assert cli("doctor", "-f", "json").json["report"] is None
    rows = list(csv.DictReader(io.StringIO(cli("doctor", "-f", "csv", "--report", archive, *FAST).out)))
    assert {row["name"] for row in rows} >= {"local port", "nodes.kinds", "traps.reports"}


def test_the_key_that_was_given_is_neither_shown_nor_written(cli: Cli, archive: Path, key_file: Path) -> None:
    assert cli("mkey-set", 2, "--new-m-key", f"@{key_file}", "--protect", 1, "--yes").code == 0
    result = cli("doctor", "--report", archive, "-f", "json", *FAST)
    assert held({**unpacked(archive), "out": result.out.encode(), "err": result.err.encode()}, [KEY]) == []


def test_a_local_port_that_does_not_answer_is_asked_once(cli: Cli, archive: Path, tmp_path: Path) -> None:
    """It may have an M_Key at level 2 that is not known here, and count each question."""
    with between_commands(tmp_path) as net:
        own = net.port("node01 mlx4_0", 1)
        own.m_key, own.protect_bits, own.lease_period = KEY, 2, 60
    result = cli("doctor", "--report", archive, "-f", "json", "-t", 100)
    assert (result.code, outcomes(result.json)["nodes.kinds"]) == (1, "not-checked")
    with between_commands(tmp_path) as net:
        assert net.port("node01 mlx4_0", 1).m_key_violations == 1


@pytest.mark.parametrize(("id", "code"), [("smpquery.pkeys", 1), ("perfquery.counters", 1), ("nodes.index-0", 0)])
def test_only_what_another_program_reads_otherwise_is_a_problem(
    cli: Cli, archive: Path, monkeypatch: pytest.MonkeyPatch, id: str, code: int
) -> None:
    [each] = [each for each in CHECKS if each.id == id]
    monkeypatch.setattr("ibkeys.hardware.catalogue.all_findings", lambda _: [each.finding(differs("otherwise"))])
    result = cli("doctor", "--report", archive, *FAST)
    assert result.code == code
    assert "none of the" not in result.out


def test_hashes_are_shown_as_they_are_written(cli: Cli, archive: Path) -> None:
    result = cli("doctor", "--report", archive, "--hash-guids", "-f", "json", *FAST)
    assert json.loads(unpacked(archive)["report.json"])["hashed"] is True
    text = json.dumps(result.json["report"]["findings"])
    assert "node0" not in text
    assert "0x0002c9030" not in text


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--hash-guids",), "give --report FILE"),
        (LOOPBACK, "give --report FILE"),
        (("--report", "r.tar.gz", "--yes"), "belong to --write-loopback"),
        (("--force",), "belong to --write-loopback"),
        (("--report", "-"), "name a file"),
        (("--report", ""), "name a file"),
        (("--report", "r.tar.gz", "--write-loopback", "sim0/1,sim0/7", "--yes"), "this host has no port 'sim0/7'"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(
    two_ports: Cli, words: tuple[str, ...], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = two_ports("doctor", *words, *FAST)
    assert (result.code, why in result.error) == (2, True)
    assert not (tmp_path / "r.tar.gz").exists()


def test_without_a_port_that_opens_the_report_says_why_nothing_was_checked(
    cli: Cli, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(*_: object) -> None:
        raise AccessDenied("/dev/infiniband/umad0: permission denied", errno.EACCES)

    monkeypatch.setattr("ibkeys.umad.simulated.open_simulated", closed)
    result = cli("doctor", "--report", archive, "-f", "json", *FAST)
    assert result.code == 1
    assert set(outcomes(result.json).values()) == {"not-checked"}
    report = json.loads(unpacked(archive)["report.json"])
    assert all("permission denied" in row["said"] for row in report["findings"])
    assert json.loads(unpacked(archive)["host.json"])["checks"][0]["name"] == "local port"


@pytest.mark.parametrize(
    ("code", "why"), [(errno.EROFS, "Read-only file system"), (errno.ENOSPC, "No space left"), (errno.EACCES, "denied")]
)
def test_a_place_that_cannot_be_written_ends_it_before_the_fabric_is_asked(
    cli: Cli, archive: Path, monkeypatch: pytest.MonkeyPatch, code: int, why: str
) -> None:
    def refused(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(files, "create_beside", refused)
    monkeypatch.setattr("ibkeys.hardware.catalogue.all_findings", refused)
    result = cli("doctor", "--report", archive, *FAST)
    assert (result.code, why in result.error, str(archive) in result.error) == (3, True, True)


def test_each_write_is_made_and_restored(two_ports: Cli, archive: Path) -> None:
    result = two_ports("doctor", "--report", archive, *LOOPBACK, "--yes", "-f", "json", *FAST)
    assert (result.code, result.err) == (0, "")
    found = outcomes(result.json)
    assert {id: found[id] for id in found if id.startswith("write.")} == {
        "write.p-key": "same",
        "write.m-key": "same",
        "write.counters": "not-checked",
    }
    assert two_ports("mkey-show", "-P", 2, "-f", "json").json["ports"][0]["m_key_state"] == "zero"
    journal = two_ports("journal", "-f", "json").json["operations"]
    assert [(each["command"], each["state"]) for each in journal if each["undoes"] is None] == [
        ("doctor", "undone")
    ] * 2


def test_nothing_is_written_without_a_yes(two_ports: Cli, archive: Path) -> None:
    result = two_ports("doctor", "--report", archive, *LOOPBACK, *FAST)
    assert (result.code, archive.exists()) == (4, False)
    assert "no terminal for it" in result.error
    dry = two_ports("doctor", "--report", archive, *LOOPBACK, "--dry-run", "-f", "json", *FAST)
    assert (dry.code, outcomes(dry.json)["write.all"]) == (0, "not-checked")
    assert two_ports("journal", "-f", "json").json["operations"] == []


def test_a_write_that_an_interlock_refuses_is_named_and_the_rest_is_reported(
    two_ports: Cli, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IBKEYS_BACKEND", f"{DUAL_HOME},state={tmp_path / 'dual'},sm=login01 mlx5_0")
    result = two_ports("doctor", "--report", archive, *LOOPBACK, "--yes", "-f", "json", *FAST)
    assert result.code == 4
    [row] = [row for row in result.json["report"]["findings"] if row["id"] == "write.p-key"]
    assert (row["outcome"], "--force" in row["said"]) == ("not-checked", True)
    assert archive.exists()


def test_a_write_that_cannot_be_put_back_is_said_and_put_back_by_the_next_run(
    two_ports: Cli, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("doctor", "--report", archive, *LOOPBACK, "--yes", "-f", "json", *FAST)
    with monkeypatch.context() as patch:
        patch.setattr("ibkeys.hardware.loopback.writes.restore_all", _only_the_first_time())
        result = two_ports(*words)
    assert result.code == 3
    assert "run the same command again" in result.err
    left = two_ports("doctor")
    assert (left.code, "of the journal was not put back" in left.out) == (1, True)
    result = two_ports(*words)
    assert (result.code, outcomes(result.json)["write.earlier"]) == (1, "same")  # it began with that problem
    assert two_ports("doctor").code == 0


def _only_the_first_time() -> object:
    """Return what puts back what an earlier run left, and then no more."""
    calls: list[int] = []

    def once(*args: object) -> list[int]:
        calls.append(1)
        if len(calls) > 1:
            raise NoReply("the port does not answer any more")
        return restore_all(*args)  # type: ignore[arg-type]

    return once


def test_a_node_that_calls_itself_by_escapes_does_not_reach_the_terminal(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hostile(net: object) -> None:
        for node in net.nodes:  # type: ignore[attr-defined]
            node.description_bytes = b"\x1b]0;owned\x07" + f"{KEY:x}".encode()

    change_each_subnet(monkeypatch, hostile)
    result = on_terminal("doctor", "--backend", TWO_SWITCH, "--report", archive, "-v", *FAST)
    assert "\x1b]" not in result.out + result.err
    assert b"\x1b" not in b"".join(unpacked(archive).values())

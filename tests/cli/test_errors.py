"""Every bad input ends in one line and its exit code; so does every exception."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from ibkeys import errors, opening
from ibkeys.cli import exits
from tests.cli.conftest import DUAL_HOME, TWO_SWITCH, Cli, run

HOPS_64 = ",".join(["0", *["1"] * 64])
HOPS_70 = ",".join(["0", *["1"] * 70])
FAST = ("-t", 10, "--retries", 0)


@pytest.mark.parametrize(
    ("args", "code", "hint"),
    [
        pytest.param(["apply", "a\0b"], 2, "argument 2 contains a NUL", id="NUL in a file name"),
        pytest.param(["keystore", "import", "a\0b"], 2, "argument 3 contains a NUL", id="NUL after two words"),
        pytest.param(["pkey-show", 99, *FAST], 3, "LID 99: no reply after 1 attempt of 10 ms", id="unknown LID"),
        pytest.param(["pkey-show", 0], 2, "no LID was assigned", id="LID 0"),
        pytest.param(["pkey-show", "0xffff"], 2, "permissive", id="LID 0xffff"),
        pytest.param(["pkey-show", "0xc000"], 2, "multicast", id="multicast LID"),
        pytest.param(["pkey-show", "-D", HOPS_64], 2, "64 hops; 63", id="64 hops"),
        pytest.param(["pkey-show", "-D", HOPS_70], 2, "70 hops; 63", id="70 hops"),
        pytest.param(["pkey-show", "-D", "1,2"], 2, "begin with 0", id="route without 0"),
        pytest.param(["pkey-show", "-D", "0,1,6", *FAST], 3, "route 0,1,6: no reply", id="through a dead port"),
        pytest.param(["pkey-show", 7, 9], 2, "no port 9, the node has 8 ports", id="port past the switch"),
        pytest.param(["pkey-show", 2, 2], 2, "no port 2, the node has 1 port", id="port past the CA"),
        pytest.param(["pkey-show", 7, 256], 2, "8 bits", id="port of 9 bits"),
        pytest.param(["pkey-show", "010"], 2, "write 10 or 0x10", id="leading zero in LID"),
        pytest.param(["pkey-show", 7, "010"], 2, "leading zero", id="leading zero in PORTNUM"),
        pytest.param(["pkey-show", "-t", "010"], 2, "leading zero", id="leading zero in an option"),
        pytest.param(["pkey-show", "--all", "--p-key", "8001"], 2, "write 0x8001 or 0x1f41", id="P_Key without 0x"),
        pytest.param(["pkey-explain", "0x10000"], 2, "16 bits", id="P_Key of 17 bits"),
        pytest.param(["qkey-explain", "0x100000000"], 2, "0..4294967295", id="Q_Key of 33 bits"),
        pytest.param(["pkey-show", "-y", "0x10000000000000000"], 2, "64 bits", id="M_Key of 65 bits"),
        pytest.param(["pkey-show", "-y", "010"], 2, "leading zero", id="leading zero in M_Key"),
        pytest.param(["decode", "00" * 100], 2, "100 bytes", id="truncated MAD"),
        pytest.param(["pkey-show", "-D", "-G", 1], 2, "-D and -G", id="two kinds"),
        pytest.param(["pkey-show", "-L", "-D", "-G", "-N", 1], 2, "exclude", id="four kinds"),
        pytest.param(["pkey-show", "-D"], 2, "no ADDR is given", id="kind without ADDR"),
        pytest.param(["pkey-show", "--all", 2], 2, "--all", id="all and ADDR"),
        pytest.param(["pkey-show", "--all", "-D"], 2, "--all", id="all and kind"),
        pytest.param(["pkey-show", 1, 2, 3], 2, "3 words", id="third word"),
        pytest.param(["pkey-show", "0,1"], 2, "-D", id="route without its option"),
        pytest.param(["pkey-show", "node02"], 2, "-N", id="name without its option"),
        pytest.param(["pkey-show", "0x0002c903000a1020"], 2, "-G", id="GUID without its option"),
        pytest.param(["pkey-show", "-N", "nobody"], 3, "no port on this subnet", id="unknown name"),
        pytest.param(["pkey-show", "--backend", "sim:/nonexistent"], 2, "/nonexistent", id="no net file"),
        pytest.param(["pkey-show", "--backend", "ofed"], 2, "'ofed' is not known", id="unknown backend"),
        pytest.param(["pkey-show", "--at", "nobody"], 2, "nobody", id="unknown place"),
        pytest.param(["pkey-show", "--backend", "umad", "--at", "x"], 2, "simulated", id="place on a real subnet"),
        pytest.param(["pkey-show", "--pcap", "/nonexistent/x"], 3, "/nonexistent/x", id="capture that cannot be made"),
        pytest.param(["pkey-show", "-z", "/nonexistent"], 2, "/nonexistent", id="no configuration"),
        pytest.param(["pkey-show", "--security-keys", "/nonexistent"], 2, "/nonexistent", id="no security keys"),
        pytest.param(["pkey"], 2, "No such command", id="unknown command"),
        pytest.param(["pkey-show", "--al"], 2, "No such option", id="unknown option"),
        pytest.param(["pkey-show", "--from"], 2, "see ibkeys pkey-show --help", id="option without its value"),
        pytest.param(["pkey-show", "-f", "xml"], 2, "xml", id="unknown format"),
        pytest.param(["pkey-check", "0x1"], 2, "Missing argument", id="missing argument"),
        pytest.param(["pkey-check", 1, 2], 2, "write 0x1", id="decimal P_Key"),
        pytest.param(["completion", "csh"], 2, "csh", id="unknown shell"),
    ],
)
def test_bad_input(cli: Cli, args: list[object], code: int, hint: str) -> None:
    result = cli(*args)
    assert (result.code, result.out) == (code, "")
    assert hint in result.error


def test_net_file_with_a_mistake_is_named_with_line_and_column(tmp_path: Path) -> None:
    net = tmp_path / "bad.net"
    net.write_text('Switch 8 "S-1"\n[1] "H-1"[\n')
    result = run("discover", "--backend", f"sim:{net}")
    assert result.code == 2
    assert result.error.startswith(f"{net}:2:")


TWINS = """
Switch 8 "S-0000000000000100" # "switch" base port 0 lid 1 lmc 0
[1] "H-0000000000000200"[1]
[2] "H-0000000000000300"[1]

caguid=0x200
Ca 1 "H-0000000000000200" # "twin"
[1](201) "S-0000000000000100"[1] # lid 2 lmc 0

caguid=0x300
Ca 1 "H-0000000000000300" # "twin"
[1](301) "S-0000000000000100"[2] # lid 3 lmc 0
"""


def test_name_of_several_nodes_lists_them(tmp_path: Path) -> None:
    net = tmp_path / "twins.net"
    net.write_text(TWINS)
    result = run("pkey-show", "--backend", f"sim:{net}", "-N", "twin")
    assert (result.code, result.out) == (2, "")
    assert "0x0000000000000200" in result.error
    assert "0x0000000000000300" in result.error


def test_both_ports_of_an_hca_have_one_name() -> None:
    assert run("pkey-show", "--backend", DUAL_HOME, "-N", "db01 mlx5_0").code == 0


def test_lost_replies_end_in_the_whole_result_or_in_exit_3() -> None:
    whole = run("pkey-show", "--all", "--backend", TWO_SWITCH, "-f", "json").json
    for seed in range(5):
        faulty = f"{TWO_SWITCH},drop=30,duplicate=30,delay=30,seed={seed}"
        result = run("pkey-show", "--all", "--backend", faulty, "-f", "json", "-t", 50)
        if result.code == 3 and not result.out:
            continue  # the local port did not answer
        document = result.json
        assert result.code == (3 if document["errors"] else 0)
        for port in document["ports"]:
            assert port["pkeys"] is None or port["pkeys"] == [
                {"index": 0, "pkey": "0xffff", "partition": "0x7fff", "membership": "full"}
            ]
        if not document["errors"]:
            assert document["ports"] == whole["ports"]


def test_no_permission(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise errors.AccessDenied("mlx5_0 port 1: permission denied; run as root", 13)

    monkeypatch.setattr(opening, "open_port", refuse)
    result = cli("pkey-show")
    assert (result.code, result.error) == (3, "mlx5_0 port 1: permission denied; run as root")


EXIT_CODES = {
    errors.AddressError: 2,
    errors.UsageError: 2,
    errors.EncodeError: 2,
    errors.FileFormatError: 2,
    errors.MalformedMad: 2,
    click.UsageError: 2,
    errors.NoReply: 3,
    errors.SendRefused: 3,
    errors.Unreachable: 3,
    errors.MKeyNeeded: 3,
    errors.NoRoom: 3,
    errors.NotStored: 3,
    errors.StoreError: 3,
    errors.StoreLocked: 3,
    errors.TransportError: 3,
    errors.DeviceGone: 3,
    errors.ClosedError: 3,
    KeyboardInterrupt: 130,
    RuntimeError: 3,
}


@pytest.mark.parametrize("kind", EXIT_CODES)
def test_exit_code_of_an_exception(kind: type[BaseException], capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> int:
        raise kind("what happened")

    assert exits.run(command) == EXIT_CODES[kind]
    assert capsys.readouterr().err.count("\n") == 1


def test_exit_code_of_exceptions_with_more_to_say() -> None:
    assert exits.exit_code(errors.Refused("no", "index-0")) == 4
    assert exits.exit_code(errors.MadStatusError("status", 0x0C)) == 3


def test_device_that_vanishes_is_no_broken_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> int:
        raise errors.DeviceGone("mlx5_0 port 1: gone", 32)

    assert exits.run(command) == 3
    assert capsys.readouterr().err == "ibkeys: error: mlx5_0 port 1: gone\n"


def test_unexpected_error_shows_neither_its_text_nor_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> int:
        raise ValueError("0x1a2b3c4d5e6f7081")

    assert exits.run(command) == 3
    quiet = capsys.readouterr().err
    exits.show_frames()
    assert exits.run(command) == 3
    loud = capsys.readouterr().err
    assert quiet.startswith("ibkeys: error: internal error (ValueError at test_errors.py:")
    assert quiet.count("\n") == 1
    assert "test_errors.py" in loud.splitlines()[-1]
    assert "5e6f7081" not in quiet + loud


@pytest.mark.parametrize("text", ["a\nb", "a\x1b[2Jb", "a\x00b"])
def test_an_error_is_one_line_of_printable_text(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    exits.warn(text)
    assert capsys.readouterr().err.rstrip("\n").isprintable()


# --- what this host knows where ports do not answer -------------------------------------------------------------------


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Let the simulated subnet pass for a real one, on a host where OpenSM runs; returns its key directory."""
    cache = tmp_path / "osm"
    process = tmp_path / "proc" / "10"
    for folder in (cache, process):
        folder.mkdir(parents=True)
    (cache / "guid2mkey").write_text("0x0000000000000011 0x00000000000000a1\n\n")
    (process / "cmdline").write_text("opensm\0")
    (process / "environ").write_text(f"OSM_CACHE_DIR={cache}\0")
    monkeypatch.setattr("ibkeys.managers.opensm.process.PROC", tmp_path / "proc")
    monkeypatch.delenv("IBSIM_SOCKNAME", raising=False)
    opened = opening.fabric_at

    def as_real(*arguments: Any) -> Any:
        fabric = opened(*arguments)
        fabric.is_simulated = False
        return fabric

    monkeypatch.setattr(opening, "fabric_at", as_real)
    return cache


@pytest.mark.parametrize("own", [True, False])
def test_locked_out_the_opensm_of_this_host_is_named(
    cli: Cli, key_file: Path, tmp_path: Path, real: Path, own: bool
) -> None:
    where = () if own else ("3",)
    protect = ("--new-m-key", f"@{key_file}", "--protect", 2, "--lease", 60, "--yes", "--override", "sm-wipes-keys")
    assert cli("mkey-set", *where, *protect).code == 0
    stranger = ("--keystore", tmp_path / "none.db", "-t", 50)
    for command in (("pkey-show", "--all"), ("mkey-show", *where)):
        result = cli(*command, *stranger)
        assert result.code == 3
        notes = [line for line in result.err.splitlines() if f": give --security-keys {real}" in line]
        assert len(notes) == 1
        assert notes[0].startswith("ibkeys: note: OpenSM runs on this host (process 10)")
        assert result.err.splitlines()[-1].startswith("ibkeys: error: ")
    used = cli("pkey-show", "--all", *stranger, "--security-keys", real)
    assert "they were used" in used.err


def test_nothing_is_said_of_it_where_nobody_is_locked_out(cli: Cli, real: Path, tmp_path: Path) -> None:
    for command, code in (
        (("pkey-show", "--all"), 0),
        (("pkey-show", 77), 3),
        (("pkey-set", 2, "0=", "--yes"), 4),
        (("pkey-show", "-N", "nobody"), 3),
    ):
        result = cli(*command, "-t", 50)
        assert result.code == code, result.err
        assert ("OpenSM runs" in result.err) == (command == ("pkey-show", 77))  # silence may mean a key


WORD = "f" * 100_000


@pytest.mark.parametrize(
    ("name", "text", "command"),
    [
        ("fabric.net", f"vendid=0x{WORD}\n", ["discover", "--backend", "sim:{}"]),
        ("policy.conf", f"a=0x10 : 0x{WORD}x ;\n", ["policy-diff", "{}", "{}", "--backend", TWO_SWITCH]),
        ("policy.conf", f"a=g{WORD} : ALL ;\n", ["plan", "--policy", "{}", "--backend", TWO_SWITCH]),
        ("guids", f"{'(' * 100_000}\n", ["audit", "--inventory", "{}", "--backend", TWO_SWITCH]),
    ],
)
def test_an_endless_word_of_a_file_makes_no_endless_message(
    tmp_path: Path, name: str, text: str, command: list[str]
) -> None:
    path = tmp_path / name
    path.write_text(text)
    result = run(*(word.replace("{}", str(path)) for word in command))
    assert (result.code, len(result.err) < 1000, "..." in result.err) == (2, True, True)
    assert str(path) in result.err


def test_a_group_without_a_command_shows_its_help_and_exits_2(cli: Cli) -> None:
    """click 8.1 exits with 0 here; 8.2 and later raise an error whose message is the whole help."""
    result = cli("sim")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("Usage: ibkeys sim [OPTIONS] COMMAND [ARGS]...\n")
    assert "\n  serve  Serve a simulated subnet" in result.err

"""Standard output and standard error that cannot be written: a program of its own, and the streams alone."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ibkeys.cli import streams
from tests.cli.conftest import TWO_SWITCH, Cli
from tests.corpus import DATA
from tests.sample import in_soak

ROOT = DATA.parent.parent
MAD = "01810101" + "00" * 252


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    own = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", re.sub(r"(?<!\S)ibkeys(?=\s)", f"{sys.executable} -m ibkeys", command)],
        cwd=ROOT,
        env={**own, "IBKEYS_BACKEND": TWO_SWITCH, **environment},
        text=True,
        capture_output=True,
        timeout=60,
    )


@pytest.mark.parametrize("buffered", ["", "1"])
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("ibkeys discover -f json | true", 0),
        ("ibkeys pkey-show --all | head -1 >/dev/null", 0),
        ("ibkeys --help | true", 0),
        ("ibkeys --version | true", 0),
        ("ibkeys completion bash | true", 0),
        ("ibkeys pkey-check 0x1 0x2 | true", 1),
        ("ibkeys pkey-set 2 3=0x8010 --dry-run | true", 1),
        ("ibkeys pkey-show 99 -t 10 --retries 0 2>/dev/null | true", 3),
        ("ibkeys pkey-set 2 3=0x8010 2>/dev/null | true", 4),
    ],
)
def test_a_reader_that_had_enough_changes_nothing(command: str, code: int, buffered: str) -> None:
    done = shell(command, PYTHONUNBUFFERED=buffered)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


LONG = f"--backend sim:{DATA / 'fabrics' / 'ft648.net'}"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("pkey-show --all -f json", 0),
        in_soak("pkey-show --all -f csv", 0),
        in_soak("matrix -f html", 0),
        ("audit -f sarif", 1),
        in_soak("audit --color always", 1),
        in_soak("policy-from 2>/dev/null", 0),
        in_soak("export", 0),
        ("watch --for 1 -f json 2>/dev/null", 0),
        ("keystore generate -n 20000", 0),
    ],
)
def test_one_line_is_enough_of_what_is_long(command: str, code: int) -> None:
    backend = "" if command.startswith("keystore generate") else LONG
    done = shell(f"ibkeys {command} {backend} | head -1 >/dev/null")
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


@pytest.mark.soak
def test_one_line_is_enough_of_all_pairs() -> None:
    fabric = DATA / "fabrics" / "dualport64.net"  # 10,000 pairs are far more than a pipe holds
    done = shell(f"ibkeys matrix --pairs -f csv --backend sim:{fabric} | head -1 >/dev/null")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_reader_that_had_enough_ends_what_has_no_end() -> None:
    done = shell(f"yes {MAD} | (trap '' PIPE; exec ibkeys decode -) | head -1 | wc -l; echo ${{PIPESTATUS[1]}}")
    assert (done.stdout, done.stderr) == ("1\n0\n", "")


def test_a_change_whose_reader_has_gone_is_made(cli: Cli, tmp_path: Path) -> None:
    done = shell("ibkeys pkey-set 2 3=0x8010 --yes | true", IBKEYS_BACKEND=f"{TWO_SWITCH},state={tmp_path / 'fabric'}")
    assert (done.returncode, done.stderr) == (0, "")
    assert 3 in {entry["index"] for entry in cli("pkey-show", 2, "-f", "json").json["ports"][0]["pkeys"]}
    assert [each["state"] for each in cli("journal", "-f", "json").json["operations"]] == ["done"]


def test_stdout_that_is_closed() -> None:
    done = shell("ibkeys pkey-show >&-")
    assert (done.returncode, done.stderr) == (3, "ibkeys: error: standard output is closed\n")


@pytest.mark.parametrize(
    "command", ["pkey-show", "--help", "pkey-check 0x1 0x2", "discover -f json", "keystore generate -n 2000"]
)
def test_stdout_that_is_full(command: str) -> None:
    done = shell(f"ibkeys {command} >/dev/full")
    assert done.returncode == 3
    assert done.stderr == "ibkeys: error: standard output cannot be written: [Errno 28] No space left on device\n"


def test_a_change_that_cannot_be_shown_for_a_full_disk_is_not_made(cli: Cli, tmp_path: Path) -> None:
    backend = f"{TWO_SWITCH},state={tmp_path / 'fabric'}"
    done = shell("ibkeys pkey-set 2 3=0x8010 --yes >/dev/full", IBKEYS_BACKEND=backend)
    assert done.returncode == 3
    assert 3 not in {entry["index"] for entry in cli("pkey-show", 2, "-f", "json").json["ports"][0]["pkeys"]}


@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full", "2> >(true)"])
@pytest.mark.parametrize(
    ("command", "code"), [("ibkeys pkey-show 0", 2), ("ibkeys pkey-show -v", 0), ("ibkeys pkey-show -d", 0)]
)
def test_stderr_that_cannot_be_written_changes_no_exit_code(command: str, code: int, stderr: str) -> None:
    done = shell(f"{command} {stderr}")
    assert done.returncode == code
    assert "ibkeys: " not in done.stdout


def test_stdin_that_is_closed_is_no_terminal() -> None:
    done = shell("ibkeys pkey-set 2 3=0x8010 <&-")
    assert done.returncode == 4
    assert "there is no terminal for it" in done.stderr


# --- the streams alone ------------------------------------------------------------------------------------------------


def test_what_comes_after_a_failure_is_thrown_away() -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb") as file, io.TextIOWrapper(io.BufferedWriter(streams.OutlastingFile(writer))) as stream:
        print("heard", file=stream, flush=True)
        assert os.read(reader, 100) == b"heard\n"
        assert streams.failure_of(stream) is None
        os.close(reader)
        print("unheard", file=stream, flush=True)
        print("unheard", file=stream, flush=True)
        assert isinstance(streams.failure_of(stream), BrokenPipeError)
        assert streams.reader_is_gone(stream)
        assert not file.closed


def test_a_full_disk_is_no_reader_that_has_gone() -> None:
    with (
        open("/dev/full", "wb") as file,
        io.TextIOWrapper(io.BufferedWriter(streams.OutlastingFile(file.fileno()))) as full,
    ):
        print("x", file=full, flush=True)
        assert not streams.reader_is_gone(full)


def test_a_terminal_that_was_closed_is_a_reader_that_has_gone() -> None:
    terminal, own = os.openpty()
    with (
        os.fdopen(own, "wb") as file,
        io.TextIOWrapper(io.BufferedWriter(streams.OutlastingFile(file.fileno()))) as stream,
    ):
        os.close(terminal)
        print("x", file=stream, flush=True)
        assert streams.reader_is_gone(stream)


def test_a_pipe_that_would_block_is_waited_for() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    text = "x" * 1_000_000
    heard: list[bytes] = []

    def read() -> None:
        with os.fdopen(reader, "rb") as file:
            heard.append(file.read())

    listening = threading.Thread(target=read)
    listening.start()
    with os.fdopen(writer, "wb"), io.TextIOWrapper(io.BufferedWriter(streams.OutlastingFile(writer))) as stream:
        stream.write(text)
        stream.flush()
    listening.join()
    assert heard == [text.encode()]


def test_streams_of_others_are_left_alone() -> None:
    before = sys.stdout, sys.stderr
    sys.stdout = mine = io.StringIO()
    try:
        with streams.outlasting_readers():
            assert sys.stdout is mine
    finally:
        sys.stdout = before[0]
    assert (sys.stdout, sys.stderr) == before

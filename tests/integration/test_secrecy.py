"""No M_Key of a run is found afterwards where it has no business: output, capture, journal, arguments, environment."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ibkeys.store.keystore.keystore import KeyStore
from tests.corpus import DATA
from tests.integration.ibsim import RUN_TIMEOUT, Ibsim, ibkeys, ibkeys_environment
from tests.integration.leaking import KEYS, TALK, WATCHED, allow_cores, leaks
from tests.sample import sampled

NET = DATA / "fabrics" / "dual-home.net"
CA = ("-D", "0,1,3")
SWITCH = ("-D", "0,1")


@pytest.fixture(autouse=True)
def key_files(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    for name, key in KEYS.items():
        file = tmp_path / "secret" / name
        file.touch(0o600)
        file.write_text(f"{key:#018x}\n")


class Story:
    """Runs of ibkeys on one simulated subnet with a state file; everything they said is kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.backend = ("--backend", f"sim:{NET},state={folder / 'state'}")
        self.said: list[bytes] = []
        self.captures = 0
        self.runs = 0

    def run(self, code: int, *arguments: Any, **options: Any) -> str:
        self.captures += 1
        capture = self.folder / f"{self.captures}.pcap"
        done = self.watched(*arguments, *self.backend, *TALK, "--pcap", capture, **options)
        assert done.returncode == code, done.stderr
        assert "> Get(" in done.stderr  # -d said something
        assert capture.stat().st_size > 256
        return done.stdout

    def run_on_store(self, code: int, *arguments: Any) -> None:
        """Run a command that talks to no fabric."""
        done = self.watched(*arguments)
        assert done.returncode == code, done.stderr

    def watched(self, *arguments: Any, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run ibkeys; keep what it said, and in a file what could be seen of its process."""
        self.runs += 1
        seen = self.folder / f"{self.runs}.seen"
        done = subprocess.run(
            [sys.executable, "-c", WATCHED, str(seen), *map(str, arguments)],
            cwd=self.folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=RUN_TIMEOUT,
            env=ibkeys_environment(),
            preexec_fn=allow_cores,
            **({} if "input" in options else {"stdin": subprocess.DEVNULL}),
            **options,
        )
        about = seen.read_bytes()
        assert str(arguments[0]).encode() in about
        assert b"core 0\n" in about
        assert b" started (" not in about  # no other process
        self.said += [done.stdout.encode(), done.stderr.encode()]
        return done

    def files(self) -> Iterator[Path]:
        """Yield what the runs left behind, without the user's key files, the key store, and the simulated hardware."""
        for file in self.folder.iterdir():
            if file.is_file() and file.name != "state" and not file.name.startswith("state.keys"):
                yield file


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


FORMATS = ("table", "json", "csv")


@pytest.mark.parametrize("format", sampled(FORMATS, ["table"]))
def test_a_whole_story(story: Story, format: str) -> None:
    shape = ("-f", format)
    story.run(0, "mkey-set", *CA, "--new-m-key", "@secret/first", "--protect", 2, "--lease", 600, "--yes", *shape)
    assert "set" in story.run(0, "mkey-show", *CA, *shape)
    story.run(0, "mkey-set", *CA, "--new-m-key", "-", "--yes", *shape, input=f"{KEYS['second']}\n")
    story.run(0, "mkey-set", *SWITCH, "--new-m-key", "@secret/switch", "--protect", 1, "--lease", 600, "--yes", *shape)
    story.run(0, "enforce-set", *SWITCH, 3, "--inbound", "on", "--yes", *shape)
    story.run(0, "pkey-add", *CA, 1, "0x8010", "--yes", *shape)
    story.run(0, "pkey-set", *SWITCH, 3, "4=0x8010", "--yes", *shape)
    story.run(4, "mkey-set", *CA, "--new-m-key", "@secret/refused", "--lease", 0, "--yes", *shape)
    story.run(1, "mkey-set", *CA, "--new-m-key", "@secret/dry", "--dry-run", *shape)
    story.run(3, "mkey-show", *CA, "-y", "@secret/wrong", *shape)
    story.run(3, "mkey-set", *CA, "-y", "@secret/wrong", "--lease", 60, "--yes", *shape)
    story.run(0, "counters-clear", *CA, "--yes", *shape)
    story.run(0, "mkey-show", "--all", *shape)
    story.run(0, "pkey-show", "--all", *shape)
    story.run(0, "discover", *shape)
    assert [leaks(text) for text in story.said] == [set()] * len(story.said)
    left = list(story.files())
    assert {file.suffix for file in left} >= {".pcap", ".journal"}
    assert {file.name: leaks(file.read_bytes()) for file in left} == {file.name: set() for file in left}
    # the search finds what is there: the key store, and the simulated hardware
    stored: set[str] = set()
    for file in story.folder.glob("state.keys*"):
        stored |= leaks(file.read_bytes())
        assert file.stat().st_mode & 0o077 == 0
    assert stored == {"first", "second", "switch"}
    # a key that the hardware had before may stay there until the file is written anew
    assert leaks((story.folder / "state").read_bytes()) >= {"second", "switch"}


@pytest.mark.parametrize("format", sampled(FORMATS, ["json"]))
def test_keys_over_a_fabric(story: Story, format: str) -> None:
    """Given and generated ones: what the key store has in the end is nowhere else."""
    shape = ("-f", format)
    given = ("--same", "--new-m-key", "@secret/first", "--protect", 2, "--lease", 600)
    story.run(1, "mkey-deploy", *given, "--dry-run", *shape)
    story.run(0, "mkey-deploy", *given, "--first", 2, "--yes", *shape)
    story.run(0, "resume", "--yes", *shape)
    story.run(0, "mkey-rotate", "--per-port", "--yes", "-K", *shape)
    story.run(0, "undo", 2, "--yes", *shape)
    story.run(4, "mkey-rotate", "--per-port", "--lease", 0, "--yes", *shape)
    story.run(0, "mkey-remove", "--yes", *shape)
    story.run(0, "undo", 4, "--yes", *shape)
    with KeyStore(story.folder / "state.keys", create=False) as store:
        keys = {str(row.ref): row.m_key.reveal() for row in store.rows() if not row.m_key.is_zero}
    assert len(set(keys.values())) > 10
    assert KEYS["first"] in keys.values()
    for text in story.said:
        assert leaks(text, keys) == set()
    shown_when_asked = story.folder / "4.pcap"
    assert leaks(shown_when_asked.read_bytes(), keys) != set()
    for file in story.files():
        assert file == shown_when_asked or leaks(file.read_bytes(), keys) == set(), file.name


@pytest.mark.parametrize("format", sampled(FORMATS, ["csv"]))
def test_lost_and_found_and_through_files(story: Story, format: str) -> None:
    """Recover, import, export, list, audit, snapshot and diff of keys of which each port has its own."""
    shape = ("-f", format)
    story.run(0, "mkey-deploy", "--per-port", "--protect", 2, "--lease", 15, "--yes", *shape)
    story.run_on_store(0, "keystore", "export", "files", *story.backend, *shape)
    story.run_on_store(0, "keystore", "list", *story.backend, *shape)
    story.run(0, "sm-repair", "--cache-dir", "files", "--override", "mkey-under-sm", "--yes", *shape)
    story.run(0, "snapshot", "before.snapshot")
    story.run(1, "audit", *shape)
    lost = ("--keystore", story.folder / "other.db")
    story.run(0, "mkey-show", "--all", "--security-keys", "files", *lost, *shape)
    tried = ("--try-keys", "secret/wrong", "--topology", "before.snapshot", "--override", "mkey-under-sm")
    story.run(0, "mkey-recover", *lost, *tried, "--yes", *shape)
    story.run_on_store(0, "keystore", "import", "files", *lost, *story.backend, *shape)
    story.run_on_store(0, "keystore", "list", *lost, *story.backend, *shape)
    story.run(0, "snapshot", "after.snapshot")
    story.run_on_store(1, "diff", "before.snapshot", "after.snapshot", *shape)
    keys = {"wrong": KEYS["wrong"]}
    for path in (story.folder / "state.keys", story.folder / "other.db"):
        with KeyStore(path, create=False) as store:
            keys |= {f"{path.name} {row.ref}": row.m_key.reveal() for row in store.rows()}
    assert len(set(keys.values())) > 5
    assert [leaks(text, keys) for text in story.said] == [set()] * len(story.said)
    files = [file for file in story.files() if not file.name.startswith("other.db")]
    assert {file.suffix for file in files} >= {".pcap", ".snapshot", ".seen"}
    assert {file.name: leaks(file.read_bytes(), keys) for file in files} == {file.name: set() for file in files}
    assert leaks((story.folder / "files" / "guid2mkey").read_bytes(), keys) != set()


def test_a_crash_leaves_no_core(story: Story) -> None:
    """The process dies with keys in its memory, where cores were allowed."""
    story.run(0, "mkey-deploy", "--per-port", "--protect", 1, "--lease", 600, "--yes")
    dying = "import atexit, os\natexit.register(os.abort)\nfrom ibkeys.cli import main\nmain()\n"
    process = subprocess.Popen(
        [sys.executable, "-c", dying, "mkey-show", "--all", *story.backend],
        cwd=story.folder,
        env=ibkeys_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        preexec_fn=allow_cores,
    )
    _, status = os.waitpid(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert os.WTERMSIG(status) == signal.SIGABRT
    assert not os.WCOREDUMP(status)


def test_a_key_on_the_command_line_stays_there(story: Story) -> None:
    text = f"{KEYS['literal']:#x}"
    for key in (text, str(KEYS["literal"])):
        story.run(0, "mkey-show", *CA, "-y", key)
    done = ibkeys("mkey-show", *CA, *story.backend, "-y", text)
    assert "process list" in done.stderr
    for wrong in (f"{text}0", f"{text}x", f"0{KEYS['literal']}"):
        done = ibkeys("mkey-show", *CA, *story.backend, "-y", wrong, stdin=subprocess.DEVNULL)
        assert done.returncode == 2
        story.said += [done.stdout.encode(), done.stderr.encode()]
    assert [leaks(text) for text in story.said] == [set()] * len(story.said)


def test_only_when_asked_for(story: Story) -> None:
    """With -K the key is shown, and is in the capture: the test above would see it."""
    story.run(0, "mkey-set", *CA, "--new-m-key", "@secret/first", "--protect", 1, "--lease", 600, "--yes")
    masked = story.run(0, "mkey-show", *CA, "-f", "json")
    shown = story.run(0, "mkey-show", *CA, "-f", "json", "-K")
    assert (leaks(masked.encode()), leaks(shown.encode())) == (set(), {"first"})
    assert leaks((story.folder / "2.pcap").read_bytes()) == set()
    assert leaks((story.folder / "3.pcap").read_bytes()) == {"first"}
    assert leaks(story.said[-1]) == set()  # the trace masks always


def test_neither_arguments_nor_environment_of_the_process(story: Story) -> None:
    """The key comes by standard input; the process cannot end while its standard output is full, and is looked at."""
    reading, writing = os.pipe()
    size = fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writing, b"." * size)
    command = [
        sys.executable,
        "-m",
        "ibkeys",
        "mkey-set",
        *CA,
        "--new-m-key",
        "-",
        "--protect",
        "0",
        "--yes",
        "-f",
        "json",
        *story.backend,
    ]
    command += TALK
    process = subprocess.Popen(
        command,
        cwd=story.folder,
        env=ibkeys_environment(),
        stdin=subprocess.PIPE,
        stdout=writing,
        stderr=subprocess.PIPE,
    )
    os.close(writing)
    deadline = threading.Timer(RUN_TIMEOUT, process.kill)
    deadline.start()
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(f"{KEYS['piped']:#x}\n".encode())
    process.stdin.close()
    said = b""
    for line in process.stderr:
        said += line
        if b"> Set(" in line:
            break
    assert b"> Set(" in said
    for name in ("cmdline", "environ"):
        seen = Path(f"/proc/{process.pid}/{name}").read_bytes()
        assert b"ibkeys" in seen or b"PYTHONPATH" in seen
        assert leaks(seen) == set()
    output = b""
    while part := os.read(reading, 4096):
        output += part
    os.close(reading)
    said += process.stderr.read()
    process.stderr.close()
    assert process.wait(RUN_TIMEOUT) == 0
    deadline.cancel()
    assert b'"applied": true' in output
    assert leaks(output) == leaks(said) == set()
    assert leaks((story.folder / "state").read_bytes()) == {"piped"}


def test_on_ibsim(ibsim: Callable[..., Ibsim], tmp_path: Path) -> None:
    """A key that ibsim accepts and does not store is in the key store, and nowhere else."""
    fabric = ibsim(NET)
    fabric.opensm()
    capture = fabric.folder / "out.pcap"
    key = tmp_path / "secret" / "first"
    for line in (("mkey-set", *SWITCH, "--new-m-key", f"@{key}", "--protect", 0, "--yes"), ("mkey-show", *SWITCH)):
        done = fabric.ibkeys(*line, *TALK, "--pcap", capture)
        assert done.returncode == (3 if line[0] == "mkey-set" else 0)
        assert leaks((done.stdout + done.stderr).encode()) == set()
        assert leaks(capture.read_bytes()) == set()
        capture.unlink()
    found = {file.name: leaks(file.read_bytes()) for file in (fabric.folder / "stores").iterdir()}
    assert found.pop("keys.db") | found.pop("keys.db-wal", set()) == {"first"}
    assert set().union(*found.values()) == set()
    assert "journal.db" in found

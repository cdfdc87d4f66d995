"""No M_Key of a run through OpenSM is found where others could read it: arguments, environment, output, capture,
journal, traceback, and the files of OpenSM itself."""

from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from ibkeys.store.keys.keystore import KeyStore
from tests.corpus import DATA
from tests.integration.hosted import Hosted
from tests.integration.keyed_opensm import CONF, heard_by_nobody
from tests.integration.test_secrecy import TALK, WATCHED, allow_cores, leaks

NET = DATA / "fabrics" / "two-switch.net"
SA_KEY = b"5e11a7c0ffee"
"""That of the options file; every way to write it down has this in it."""

_BROKEN = """
from ibkeys.mkeys.opensm.wire import KeyWatch
def look(self, wanted, key, guids):
    raise ZeroDivisionError("in the middle")
KeyWatch.look = look
"""
"""Makes a run end in a traceback when the first file is written."""


class Site:
    """A served subnet whose OpenSM has a log, and a folder for its key files, that others can read."""

    def __init__(self, served: Hosted, stack: ExitStack) -> None:
        self.served, self.folder = served, served.folder
        self.cache = self.folder / "cache"
        self.cache.mkdir()
        self.cache.chmod(0o755)
        self.log = self.folder / "opensm.log"
        self.log.touch(0o644)
        stack.enter_context(heard_by_nobody(served, CONF + "force_log_flush TRUE\n", subprocess.DEVNULL, self.cache))
        self.said: list[bytes] = []
        self.runs = 0

    def run(self, code: int, *words: str, before: str = "") -> None:
        """Run ibkeys, and keep what it said and what could be seen of its process."""
        self.runs += 1
        seen, capture = self.folder / f"{self.runs}.seen", self.folder / f"{self.runs}.pcap"
        stores = ("--keystore", self.folder / "stores" / "keys.db", "--journal", self.folder / "stores" / "journal.db")
        program = WATCHED.replace("from ibkeys.cli import main\n", f"from ibkeys.cli import main\n{before}")
        command = [sys.executable, "-c", program, seen, *words, "--via", "opensm", "--yes", *TALK, "--pcap", capture]
        done = self.served.run([*map(str, command), *map(str, stores)], timeout=300, preexec_fn=allow_cores)
        assert done.returncode == code, done.stdout + done.stderr
        assert "> Get(" in done.stderr
        assert capture.stat().st_size > 256
        about = seen.read_bytes()
        assert words[0].encode() in about
        assert b"core 0\n" in about
        assert b" started (" not in about  # no other process
        self.said += [done.stdout.encode(), done.stderr.encode()]

    def keys(self) -> Mapping[str, int]:
        """Return every key that the key store has."""
        with KeyStore(self.folder / "stores" / "keys.db", create=False) as store:
            keys = {row.m_key for row in store.rows()} | set(store.subnet_keys())
        return {str(number): key.reveal() for number, key in enumerate(keys) if not key.is_zero}

    def files(self) -> Iterator[Path]:
        return (path for path in self.folder.rglob("*") if path.is_file())

    def others_can_read(self, path: Path) -> bool:
        """Whether the rights below the folder of the test let others read a file."""
        folders = [each for each in path.parents if each.is_relative_to(self.folder) and each != self.folder]
        opens = all(each.stat().st_mode & (stat.S_IXGRP | stat.S_IXOTH) for each in folders)
        return opens and bool(path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH))


@pytest.fixture
def site() -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(stack.enter_context(Hosted(NET)), stack)


_FILE_HEADER, _RECORD_HEADER = 24, 16
_AFTER_MAD, _NOT_RECEIVED = 12, 32


def contents(path: Path) -> bytes:
    """Return the bytes of a file, of a capture those that went over the wire.

    libumad2sim hands out the last 32 bytes of each received MAD from behind its own buffer: what the heap of its
    process holds there, which can be a key that went that way before. On devices the kernel fills them.
    """
    data = bytearray(path.read_bytes())
    if path.suffix != ".pcap":
        return bytes(data)
    at = _FILE_HEADER
    while at < len(data):
        end = at + _RECORD_HEADER + int.from_bytes(data[at + 8 : at + 12], "little") - _AFTER_MAD
        data[end - _NOT_RECEIVED : end] = bytes(_NOT_RECEIVED)
        at = end + _AFTER_MAD
    return bytes(data)


def assert_secret(site: Site, number: int) -> None:
    keys = site.keys()
    assert len(keys) == number
    assert [leaks(text, keys) for text in site.said] == [set()] * len(site.said)
    assert not [text for text in site.said if SA_KEY in text]
    found = {path.relative_to(site.folder): path for path in site.files() if leaks(contents(path), keys)}
    assert {str(name) for name in found} >= {"cache/guid2mkey", "opensm.conf", "stores/keys.db"}  # they can be found
    assert {str(name) for name, path in found.items() if site.others_can_read(path)} == set()
    ours = {path.suffix for path in site.files() if not site.others_can_read(path)}
    assert ".db" in ours
    assert [name for name in found if name.suffix in (".pcap", ".seen") or name.name.startswith("journal")] == []


@pytest.mark.parametrize("format", ["table", "json", "csv"])
def test_there_and_back(site: Site, format: str) -> None:
    shape = ("-f", format)
    site.run(0, "mkey-deploy", "--protect", "2", "--lease", "60", *shape)
    site.run(0, "mkey-rotate", *shape)
    site.run(0, "mkey-rotate", "--abort", *shape)
    site.run(0, "mkey-rotate", "--open-while-rotating", *shape)
    assert_secret(site, 3)
    site.run(0, "mkey-remove", "--leave-open", *shape)
    assert stat.S_IMODE(site.log.stat().st_mode) == 0o600
    assert stat.S_IMODE(site.cache.stat().st_mode) == 0o700
    assert [leaks(text, site.keys()) for text in site.said] == [set()] * len(site.said)


def test_a_traceback_in_the_middle(site: Site) -> None:
    site.run(0, "mkey-deploy", "--protect", "2", "--lease", "60")
    site.run(3, "mkey-rotate", before=_BROKEN)
    assert b"ZeroDivisionError" in site.said[-1]
    assert_secret(site, 2)
    site.run(0, "mkey-rotate", "--resume")
    assert_secret(site, 2)

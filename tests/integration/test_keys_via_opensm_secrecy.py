"""No key of a run through OpenSM is found where others could read it: arguments, environment, output, capture,
journal, traceback, and the files of OpenSM itself; nor anything of the process that lowers the level."""

from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from ibkeys.sim.server.outbox import PassedMad
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.keystore.sm_keys import SmKeys
from tests.corpus import DATA
from tests.integration.hosted import Hosted
from tests.integration.ibsim import NO_LAYERS
from tests.integration.keyed_opensm import CLOSED, CONF, heard_by_nobody
from tests.integration.leaking import TALK, WATCHED, allow_cores, leaks
from tests.integration.waiting import Waiting, by_method
from tests.sample import sampled

NET = DATA / "fabrics" / "two-switch.net"
SA_KEY = b"5e11a7c0ffee"
"""That of the options file; every way to write it down has this in it."""
OPEN = "sweep_interval 3\npart_enforce off\n"
"""Options of a site that was never hardened."""

_BROKEN = """
from ibkeys.mkeys.opensm.key_proof import KeyProof
def look(self):
    raise ZeroDivisionError("in the middle")
KeyProof.look = look
"""
"""Makes a run end in a traceback when the first file is written."""


class Site:
    """A served subnet whose OpenSM has a log, and a folder for its key files, that others can read."""

    def __init__(self, served: Hosted, stack: ExitStack, conf: str = CONF) -> None:
        self.served, self.folder = served, served.folder
        self.cache = self.folder / "cache"
        self.cache.mkdir()
        self.cache.chmod(0o755)
        self.log = self.folder / "opensm.log"
        self.log.touch(0o644)
        stack.enter_context(heard_by_nobody(served, conf + "force_log_flush TRUE\n", subprocess.DEVNULL, self.cache))
        self.said: list[bytes] = []
        self.runs = 0
        self.processes: dict[int, bytes] = {}
        """Arguments and environment, as /proc shows them, of all that sent a MAD and of their children."""
        served.watchers.append(self._watch)

    def _watch(self, seen: PassedMad) -> None:
        pid = seen.client.ident
        if pid not in self.processes:
            for each in (pid, *_children(pid)):
                self.processes[each] = _shown_of(each)

    def run(self, code: int, *words: str, before: str = "", children: int = 0) -> None:
        """Run ibkeys, and keep what it said and what could be seen of its process. *children*: how many it starts."""
        self.runs += 1
        seen, capture = self.folder / f"{self.runs}.seen", self.folder / f"{self.runs}.pcap"
        stores = ("--keystore", self.folder / "stores" / "keys.db", "--journal", self.folder / "stores" / "journal.db")
        program = WATCHED.replace("from ibkeys.cli import main\n", f"from ibkeys.cli import main\n{NO_LAYERS}{before}")
        command = [sys.executable, "-c", program, seen, *by_method(words), "--yes", *TALK, "--pcap", capture]
        done = self.served.run([*map(str, command), *map(str, stores)], timeout=300, preexec_fn=allow_cores)
        assert done.returncode == code, done.stdout + done.stderr
        assert "> Get(" in done.stderr
        assert capture.stat().st_size > 256
        about = seen.read_bytes()
        assert words[0].encode() in about
        assert b"core 0\n" in about
        assert about.count(b" started (") == children
        self.said += [done.stdout.encode(), done.stderr.encode()]

    def keys(self) -> Mapping[str, int]:
        """Return every key that the key store has."""
        with KeyStore(self.folder / "stores" / "keys.db", create=False) as store:
            of_managers = {row.sm_key.reveal() for row in SmKeys(store).rows()}
        return self.m_keys() | {f"SM {number}": key for number, key in enumerate(of_managers)}

    def m_keys(self) -> dict[str, int]:
        """Return every M_Key that the key store has."""
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


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _shown_of(pid: int) -> bytes:
    return b"".join(Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ"))


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
    """*number*: how many M_Keys there have been."""
    keys = site.keys()
    assert len(site.m_keys()) == number
    assert [leaks(text, keys) for text in site.said] == [set()] * len(site.said)
    assert [leaks(text, keys) for text in site.processes.values()] == [set()] * len(site.processes)
    assert not [text for text in site.said if SA_KEY in text]
    found = {path.relative_to(site.folder): path for path in site.files() if leaks(contents(path), keys)}
    assert {str(name) for name in found} >= {"cache/guid2mkey", "opensm.conf", "stores/keys.db"}  # they can be found
    assert {str(name) for name, path in found.items() if site.others_can_read(path)} == set()
    ours = {path.suffix for path in site.files() if not site.others_can_read(path)}
    assert ".db" in ours
    assert [name for name in found if name.suffix in (".pcap", ".seen") or name.name.startswith("journal")] == []


@pytest.mark.parametrize("format", sampled(["table", "json", "csv"], ["table"]))
def test_there_and_back(site: Site, format: str) -> None:
    shape = ("-f", format)
    site.run(0, "mkey-deploy", "--protect", "2", "--lease", "60", *shape)
    site.run(0, "mkey-rotate", *shape)
    site.run(0, "undo", "2", *shape)
    site.run(0, "mkey-rotate", "--open-while-rotating", *shape)
    assert_secret(site, 3)
    site.run(0, "mkey-remove", "--leave-open", *shape)
    assert stat.S_IMODE(site.log.stat().st_mode) == 0o600
    assert stat.S_IMODE(site.cache.stat().st_mode) == 0o700
    assert [leaks(text, site.keys()) for text in site.said] == [set()] * len(site.said)


@pytest.mark.soak
def test_a_traceback_in_the_middle(site: Site) -> None:
    site.run(0, "mkey-deploy", "--protect", "2", "--lease", "60")
    site.run(3, "mkey-rotate", before=_BROKEN)
    assert b"ZeroDivisionError" in site.said[-1]
    assert_secret(site, 2)
    site.run(0, "resume")
    assert_secret(site, 2)


@pytest.mark.parametrize("format", sampled(["table", "json"], ["json"]))
def test_nobody_confirms(site: Site, format: str) -> None:
    """This process lowers the level, and so does the child of one that was killed, which has the key that was typed."""
    shape = ("-f", format)
    site.run(3, "mkey-deploy", *CLOSED, "--confirm-within", "1", *shape, children=1)
    [key] = site.m_keys().values()
    talk = (*TALK, "--pcap", site.folder / "killed.pcap", *shape)
    typed = ("--m_key", "-")
    waiting = Waiting(site.served, "resume", "--confirm-within", "1", *typed, *talk, typed=f"{key:#x}")
    waiting.hear()
    waiting.process.kill()
    waiting.wait()
    site.said.append(waiting.said.encode())
    assert "> Get(" in waiting.said
    [lowering] = [text for text in site.processes.values() if b"--unconfirmed" in text]
    assert b"--m_key=@/proc/self/fd/" in lowering
    assert {port.protect_bits for node in site.served.net.nodes for port in node.end_ports} == {1}
    assert_secret(site, 1)
    site.run(0, "resume", *shape)
    assert_secret(site, 1)


@pytest.mark.soak
@pytest.mark.parametrize("format", sampled(["table", "json"], ["table"]))
def test_harden(format: str) -> None:
    """An SM_Key, an SA_Key and an M_Key, all of them new."""
    with ExitStack() as stack:
        site = Site(stack.enter_context(Hosted(NET)), stack, OPEN)
        site.run(3, "harden", "-f", format, children=2)  # `rdma system show`, for each audit
        assert_secret(site, 1)
        assert len(site.keys()) == 3

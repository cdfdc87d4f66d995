"""A fabric whose M_Key goes through OpenSM, and an ibkeys that dies: what must hold then, and how it goes on."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ibkeys.store.keys.keystore import KeyStore
from ibkeys.store.keys.runs import Run, Runs
from tests.integration.crashes import run_to_a_point
from tests.integration.hosted import left_over
from tests.integration.keyed_opensm import KeyedOpensm

CLOSED = ("--protect", "2", "--lease", "60")
COMMANDS = {
    "deploy": ("mkey-deploy", *CLOSED),
    "rotate": ("mkey-rotate",),
    "remove": ("mkey-remove", "--leave-open"),
}
_NONE = (0, 0, 0)
_MAY_HOLD_KEYS = re.compile(r"(\.?opensm\.conf|guid2mkey|keys\.db).*")


class KeyedScene:
    """The subnet, its OpenSM, and an ibkeys that can be made to die; journal and key store stay from run to run."""

    def __init__(self, opensm: KeyedOpensm, preloaded: str) -> None:
        self.opensm, self.preloaded = opensm, preloaded
        self.stores = opensm.served.folder / "stores"

    def run(
        self, words: Sequence[str], mode: str = "off", point: int = 0
    ) -> tuple[subprocess.CompletedProcess[str], int]:
        """Run a command through OpenSM that says yes; returns how it ended and how many points it passed."""
        words = [*words, "--via", "opensm", "--yes"]
        return run_to_a_point(self.opensm.served, self.preloaded, self.stores, words, mode, point)

    def must(self, *words: str) -> str:
        """Run a command that succeeds, and return what it said."""
        done, _ = self.run(words)
        said = done.stdout + done.stderr
        assert done.returncode == 0, f"{words}: {said}"
        return said

    # --- what is there -----------------------------------------------------------------------------------------------

    def last_run(self) -> Run | None:
        with KeyStore(self.stores / "keys.db") as store:
            return Runs(store).last()

    def stored_keys(self) -> set[int]:
        with KeyStore(self.stores / "keys.db") as store:
            rows = {row.m_key.reveal() for row in store.rows()}
            return rows | {key.reveal() for key in store.subnet_key_refs()}

    def key(self) -> tuple[int, int, int]:
        """Return the M_Key, level and lease that all ports have."""
        [found] = self.opensm.keys()
        return found

    def said_in_conf(self) -> tuple[int, ...]:
        """Return the M_Key, level and lease that the options file says in lines of its own."""
        text = self.opensm.conf.read_text()
        lines = [re.findall(rf"^{name} (\S+)$", text, re.MULTILINE) for name in _LINES]
        return tuple(int(found, 0) for [found] in lines)

    # --- from one state to another -----------------------------------------------------------------------------------

    def begin(self, what: str) -> None:
        """Bring the subnet to where a command begins."""
        has_none = self.opensm.keys() == {_NONE}
        if what == "deploy" and not has_none:
            self.must(*COMMANDS["remove"])
        elif what != "deploy" and has_none:
            self.must(*COMMANDS["deploy"])

    def count(self, what: str) -> int:
        """Return how many points a command has."""
        self.begin(what)
        done, points = self.run(COMMANDS[what], "count")
        assert done.returncode == 0, done.stdout + done.stderr
        return points

    def cut_off(self, what: str, point: int, way_on: str) -> None:
        """Let a command die at a point; look at all that must hold then, and finish it, or go back."""
        self.begin(what)
        former, earlier = self.key(), self.last_run()
        done, _ = self.run(COMMANDS[what], "kill", point)
        assert done.returncode in (-signal.SIGKILL, 0), done.stdout + done.stderr
        self.assert_no_key_is_lost()
        last = self.last_run()
        if last is None or (earlier is not None and last.id == earlier.id):
            assert self.key() == former
        elif way_on == "--resume" or not self._goes_back(what, former):
            self.finish(what, former)
        self.assert_no_key_is_lost()
        self.assert_nothing_beside()
        self.opensm.assert_nothing_was_lost()

    def _goes_back(self, what: str, former: tuple[int, int, int]) -> bool:
        done, _ = self.run([COMMANDS[what][0], "--abort"])
        if "mixed-keys" in done.stderr:
            return False
        assert done.returncode == 0, done.stdout + done.stderr
        assert (self.key(), self.said_in_conf()) == (former, former)
        last = self.last_run()
        assert last is not None
        assert last.state == "undone"
        return True

    def finish(self, what: str, former: tuple[int, int, int]) -> None:
        """Finish the last run, and look at what it leaves."""
        last = self.last_run()
        assert last is not None
        if last.state == "open":
            self.must(COMMANDS[what][0], "--resume")
        key, level, lease = self.key()
        assert self.said_in_conf() == (key, level, lease)
        assert key != former[0]
        assert (bool(key), level, lease) == ((False, 0, 0) if what == "remove" else (True, 2, 60))
        last = self.last_run()
        assert last is not None
        assert last.state == "ended"

    # --- what must hold ----------------------------------------------------------------------------------------------

    def assert_no_key_is_lost(self) -> None:
        """Every key on a port or in a file is in the key store, and none in a file that is not made for keys."""
        stored = {*self.stored_keys(), 0}
        on_ports = self.opensm.keys()
        assert {key for key, _, _ in on_ports} <= stored
        for path in self.files():
            data = path.read_bytes()
            if _MAY_HOLD_KEYS.fullmatch(path.name):
                found = re.findall(rb"^m_key (\S+)$", data, re.MULTILINE)
                assert {int(each, 0) for each in found} <= stored, path
            else:
                assert [key for key in stored - {0} if _has_key(data, key)] == [], path

    def assert_nothing_beside(self) -> None:
        assert left_over(self.opensm.conf) == []

    def files(self) -> Iterable[Path]:
        """Return all files of the subnet's folder, journal and key store among them."""
        return _files(self.opensm.served.folder)


_LINES = ("m_key", "m_key_protection_level", "m_key_lease_period")


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def _has_key(data: bytes, key: int) -> bool:
    texts = (f"{key:x}".encode(), str(key).encode())
    return any(text in data.lower() for text in texts) or key.to_bytes(8) in data or key.to_bytes(8, "little") in data

"""A fabric whose M_Key goes through OpenSM, and an ibkeys that dies: what must hold then, and how it goes on."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from ibkeys.store.journal import Journal
from ibkeys.store.journal.runs import MKeyRun, Runs
from tests.integration.crashes import points_passed, run_to_a_point
from tests.integration.hosted import Hosted, left_over
from tests.integration.keyed_opensm import CLOSED, stored_keys
from tests.integration.waiting import by_method

COMMANDS = {
    "deploy": ("mkey-deploy", *CLOSED),
    "rotate": ("mkey-rotate",),
    "remove": ("mkey-remove", "--leave-open"),
}
REFUSED = 4
Setting = tuple[int, int, int]
"""M_Key, level and lease."""
_NONE = (0, 0, 0)
_MAY_HOLD_KEYS = re.compile(r"(\.?opensm\.conf|\.?guid2mkey|keys\.db).*")


class KeyedScene:
    """The subnet, its OpenSM, and an ibkeys that can be made to die; journal and key store stay from run to run."""

    def __init__(self, served: Hosted, confs: Sequence[Path], preloaded: str, check: Callable[[], None]) -> None:
        """*confs*: the options files; *check*: raises when anything was lost."""
        self.served, self.confs, self.preloaded, self.check = served, confs, preloaded, check
        self.stores = served.folder / "stores"
        self.words: Sequence[str | Path] = ()
        """What each command has beside."""

    def run(self, words: Sequence[str], mode: str = "off", point: int = 0) -> tuple[int, str]:
        """Run a command through OpenSM that says yes; returns its exit code and all that it said."""
        done, _ = run_to_a_point(self.served, self.preloaded, self.stores, [*by_method(words), "--yes"], mode, point)
        return done.returncode, done.stdout + done.stderr

    def must(self, *words: str) -> str:
        """Run a command that succeeds, and return what it said."""
        code, said = self.run(words)
        assert code == 0, f"{words}: {said}"
        return said

    def answer(self, line: str) -> None:
        """Do what ibkeys asks for in a line: with one OpenSM that is nothing."""

    # --- what is there -----------------------------------------------------------------------------------------------

    def last_run(self) -> MKeyRun | None:
        with Journal.read(self.stores / "journal.db") as journal:
            return Runs(journal).last()

    def stored_keys(self) -> set[int]:
        return stored_keys(self.stores)

    def keys(self) -> set[Setting]:
        """Return what the end ports have."""
        ports = [port for node in self.served.net.nodes for port in node.end_ports]
        return {(port.m_key, port.protect_bits, port.lease_period) for port in ports}

    def key(self) -> Setting:
        """Return the M_Key, level and lease that all ports have."""
        [found] = self.keys()
        return found

    def said_in_confs(self) -> set[tuple[int, ...]]:
        """Return the M_Key, level and lease that the options files say in lines of their own."""
        return {tuple(_line(conf.read_text(), name) for name in _LINES) for conf in self.confs}

    # --- from one state to another -----------------------------------------------------------------------------------

    def begin(self, what: str) -> None:
        """Bring the subnet to where a command begins."""
        has_none = self.keys() == {_NONE}
        if what == "deploy" and not has_none:
            self.must(*COMMANDS["remove"])
        elif what != "deploy" and has_none:
            self.must(*COMMANDS["deploy"])

    def points(self, what: str) -> int:
        """Return how many points a command has."""
        self.begin(what)
        return self.points_of(COMMANDS[what])

    def points_going_back(self) -> int:
        """Return how many points the way back of a rotation has."""
        self.rotated()
        return self.points_of(self.way_back())

    def points_of(self, words: Sequence[str]) -> int:
        """Return how many points a command has where it begins now."""
        code, said = self.run(words, "count")
        assert code == 0, said
        return points_passed(self.served)

    def way_back(self) -> list[str]:
        """Return the command that rolls the last run back."""
        last = self.last_run()
        assert last is not None
        return ["undo", str(last.id), *(["--leave-open"] if last.command == "mkey-deploy" else [])]

    def kill(self, words: Sequence[str], point: int) -> None:
        """Let a command die at a point, and look at where keys are then."""
        code, said = self.run(words, "kill", point)
        assert code in (-signal.SIGKILL, 0), said
        self.assert_no_key_is_lost()

    def cut_off(self, what: str, point: int, way_on: str) -> None:
        """Let a command die at a point; look at all that must hold then, and finish it, or go back."""
        self.begin(what)
        former, earlier = self.key(), self.last_run()
        self.kill(COMMANDS[what], point)
        last = self.last_run()
        said = ""
        if last is None or (earlier is not None and last.id == earlier.id):
            assert self.key() == former
        elif way_on == "resume" or not (said := self._goes_back(what, former)):
            said = self.finish(what, former)
        self.assert_no_key_is_lost()
        self.assert_nothing_beside(said)
        self.check()

    def cut_off_going_back(self, point: int) -> None:
        """Let a rotation's way back die at a point, and finish it."""
        former = self.rotated()
        back = self.way_back()
        self.kill(back, point)
        last = self.last_run()
        assert last is not None
        said = "" if last.operation.state == "undone" else self.must(*back)  # it may have come to its end
        assert (self.key(), self.said_in_confs()) == (former, {former})
        self.assert_no_key_is_lost()
        self.assert_nothing_beside(said)
        self.check()

    def rotated(self) -> Setting:
        """Make a rotation, and return what all ports had before."""
        self.begin("rotate")
        former = self.key()
        self.must(*COMMANDS["rotate"])
        return former

    def _goes_back(self, what: str, former: Setting) -> str:
        """Go back, and return what ibkeys said; "" where keys are mixed, and that was refused."""
        code, said = self.run(self.way_back())
        if code == REFUSED and "can only be finished" in said:
            return ""
        assert code == 0, said
        assert (self.key(), self.said_in_confs()) == (former, {former})
        last = self.last_run()
        assert last is not None
        assert last.operation.state == "undone"
        return said

    def finish(self, what: str, former: Setting) -> str:
        """Finish the last run, look at what it leaves, and return what ibkeys said."""
        last = self.last_run()
        assert last is not None
        said = self.must("resume") if last.is_open else ""
        key, level, lease = self.key()
        assert self.said_in_confs() == {(key, level, lease)}
        assert key != former[0]
        assert (bool(key), level, lease) == ((False, 0, 0) if what == "remove" else (True, 2, 60))
        last = self.last_run()
        assert last is not None
        assert last.operation.state == "done"
        return said

    # --- what must hold ----------------------------------------------------------------------------------------------

    def assert_no_key_is_lost(self) -> None:
        """Every key on a port or in a file is in the key store, and none in a file that is not made for keys."""
        stored = {*self.stored_keys(), 0}
        on_ports = self.keys()
        assert {key for key, _, _ in on_ports} <= stored
        for path in self.files():
            data = path.read_bytes()
            if _MAY_HOLD_KEYS.fullmatch(path.name):
                found = re.findall(rb"^m_key (\S+)$", data, re.MULTILINE)
                assert {int(each, 0) for each in found} <= stored, path
            else:
                assert [key for key in stored - {0} if _has_key(data, key)] == [], path

    def assert_nothing_beside(self, said: str) -> None:
        """Nothing is left beside a file; but for a copy of key files, of which the journal has no bytes: it is named,
        and then removed as *said*; and the lock of the command that was killed, where none went through OpenSM since.
        """
        left = [conf.with_name(name) for conf in self.confs for name in left_over(conf)]
        if not said:
            left = [path for path in left if ".ibkeys-lock" not in path.name]
        for path in left:
            assert path.name.startswith((".guid2mkey.", ".neighbors.")), path
            assert str(path) in said
            path.unlink()

    def files(self) -> Iterable[Path]:
        """Return all files of the subnet's folder, journal and key store among them, but for the sysfs folders that
        libumad2sim makes for each process and leaves behind one that is killed."""
        return (
            file for path in self.served.folder.iterdir() if not path.name.startswith("sys-") for file in _files(path)
        )


_LINES = ("m_key", "m_key_protection_level", "m_key_lease_period")


def _line(text: str, name: str) -> int:
    [found] = re.findall(rf"^{name} (\S+)$", text, re.MULTILINE)
    return int(found, 0)


def _files(path: Path) -> Iterator[Path]:
    return (each for each in [path, *path.rglob("*")] if each.is_file())


def _has_key(data: bytes, key: int) -> bool:
    texts = (f"{key:x}".encode(), str(key).encode())
    return any(text in data.lower() for text in texts) or key.to_bytes(8) in data or key.to_bytes(8, "little") in data

"""Run by test_mkeys.py: an operation on M_Keys by own Sets is killed, somebody else does something, and it goes on.

    mkeys_driver.py DIRECTORY CELL...

A cell is OPERATION/MOMENT/SINCE/WAY (see the tables below).
"""

from __future__ import annotations

import itertools
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from ibkeys.mad.const import PortState
from tests.fabricsim import swap_cables
from tests.matrix.dying import DyingSite, main
from tests.matrix.ways_out import until_done, way_out
from tests.mkeys.two_admins_driver import NOTHING, Admin, Operation

OPERATIONS: Final[dict[str, tuple[str, ...]]] = {
    "deploy": ("mkey-deploy", "--per-port", "--protect", "1", "--lease", "60"),
    "rotate": ("mkey-rotate", "--per-port"),
    "remove": ("mkey-remove", "--leave-open"),
}
LAST: Final = -1
MOMENTS: Final = {"before the first Set": 0, "between Sets": 3, "after the last Set": LAST}
"""How many Sets have left when ibkeys dies."""
WAYS: Final = {"on": ("resume",), "back": ("undo",), "new": ()}
"""Each of them is a dry run first."""
AWAY: Final = ("node05 mlx4_0", "node06 mlx4_0")
SHORT: Final = ("-t", "50", "--retries", "0")
REFUSED: Final = 4
LEASE_ENDS: Final = 61
"""Seconds after which a port whose lease was started shows its key."""
INCOMPLETE: Final = 3
UNKNOWN: Final = (3, 4)
USAGE: Final = 2


class Cell(DyingSite):
    """A subnet, an operation of Anna that dies, and Bert."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder)
        self.operation, self.moment, self.since, self.way = name.split("/")
        self.anna, self.bert = self.admins
        self.words = OPERATIONS[self.operation]
        self.is_away = False

    def type(self, admin: Admin, *words: str) -> tuple[int, str]:
        """Run a command of *admin* that is not killed; no key may be lost by it, and "nothing to change" is true."""
        before = self.facts()
        code, text = self.run(admin, *words, *SHORT, "-v", may_die=False)
        self.check(before, text)
        return code, text

    def must(self, admin: Admin, *words: str) -> None:
        code, text = self.type(admin, *words, "--yes")
        assert code == 0, f"{words} ended with {code}: {text}"

    def check_that_no_key_is_lost(self) -> None:
        if self.since != "key store lost":
            super().check_that_no_key_is_lost()

    # --- the cell -----------------------------------------------------------------------------------------------------

    def prove(self) -> None:
        """Make the cell, and look at all that must hold."""
        if self.operation != "deploy":
            self.must(self.anna, *OPERATIONS["deploy"])
        if self.since == "ports back":
            self.be_away(True)
        operation = self.interrupted()
        SINCE[self.since](self)
        self.go(operation)
        self.be_whole()

    def interrupted(self) -> Operation:
        """Let the operation die at its moment; return what it found and wrote."""
        before = self.facts()
        self.dies_at, self.dies_before = MOMENTS[self.moment] or 1, not MOMENTS[self.moment]
        if self.dies_at == LAST:
            self.dies_at = sum(1 for key in before if key[0] == "m_key" and not self._is_away(key[1]))
        code, text = self.run(self.anna, *self.words, "--yes", may_die=False)
        assert code == -signal.SIGKILL, f"{self.words} ended with {code}: {text}"
        self.dies_at = None
        operation = Operation(before)
        operation.note(before, self.facts())
        if self.operation == "remove":
            for fact in before:
                operation.wrote.setdefault(fact, set()).add((0, 0, 0))
        return operation

    def _is_away(self, name: str) -> bool:
        return self.since == "ports back" and name.removesuffix(" port 1") in AWAY

    def go(self, operation: Operation) -> None:  # type: ignore[override]
        """Take the way: a dry run, and then in earnest."""
        command = WAYS[self.way] or self.words
        before = self.facts()
        _, said = self.type(self.anna, *command, "--dry-run")
        assert self.facts() == before, f"a dry run changed ports: {said}"
        code, text = self.type(self.anna, *command, "--yes")
        after = self.facts()
        self.check_ours(operation, before, after, text)
        operation.note(before, after)
        changed = before != after
        assert not (NOTHING in said and changed), f"the dry run said {NOTHING!r}: {text}"
        if code == REFUSED:
            assert not changed, f"refused with a change: {text}"
        if self.since == "journal lost" and WAYS[self.way]:  # a new run, which is made next, finds what the ports have
            assert (code, "no operation is open" in text or "nothing to undo" in text) == (INCOMPLETE, True), text
            assert not changed, text
        elif code == USAGE and self.since == "key store lost":
            code, text = self.follow(self.anna, way_out(text, []))
            assert code == 0, text
        elif code in UNKNOWN:
            until_done(lambda words: self.follow(self.anna, words), list(command))
        else:
            assert code == 0, f"{command} ended with {code}: {text}"

    def follow(self, admin: Admin, words: list[str]) -> tuple[int, str]:
        """Type what a message names; the files that an import wants are a copy of the keys of the other."""
        if words == ["mkey-rotate"]:
            words = list(OPERATIONS["rotate"])
        if words[0] == "mkey-recover":
            self.type(admin, *words, "--yes")
            self.net.advance(LEASE_ENDS)
        if words[:2] == ["keystore", "import"]:
            source = self.bert if admin is self.anna else self.anna
            return self.import_from(source, admin)
        code, text = self.type(admin, *words, *(() if "--yes" in words else ("--yes",)))
        if code == INCOMPLETE and self.since == "ports gone" and self.is_away:
            self.be_away(False)
            return self.follow(admin, words)
        if words == ["undo"] and ("nothing to undo" in text or "has to be named" in text):
            return 0, text  # the undo before has left what others changed, and has ended
        return code, text

    def import_from(self, source: Admin, target: Admin) -> tuple[int, str]:
        folder = target.folder / "files"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        code, text = self.run(source, "keystore", "export", str(folder), may_die=False)
        return self.run(target, "keystore", "import", str(folder), may_die=False) if code == 0 else (code, text)

    def be_whole(self) -> None:
        """No run is open, and a new operation is possible on all ports that are there."""
        self.be_away(False)
        for command in ("mkey-rotate", "--per-port"), ("mkey-remove", "--leave-open"), OPERATIONS["deploy"]:
            if command[0] == "mkey-rotate" and not any(port.m_key for port in self.end_ports()):
                continue
            until_done(lambda words: self.follow(self.anna, words), list(command))
        super().check_that_no_key_is_lost()
        missing = [str(port) for port in self.end_ports() if not port.m_key]
        assert not missing, f"no M_Key after mkey-deploy: {missing}"

    # --- what somebody else did -------------------------------------------------------------------------------------

    def be_away(self, on: bool) -> None:
        self.is_away = on
        for host in AWAY:
            self.net.silence(host, on)

    def bert_works(self, *words: str) -> None:
        """Bert takes the keys of Anna, and has an operation of his own."""
        self.copy_keys(self.anna, self.bert)
        code, text = self.type(self.bert, *words, "--yes")
        assert code in (0, 3), f"{words} ended with {code}: {text}"  # 3: the copy has one key for each port

    def bert_sets_levels(self) -> None:
        """Bert takes the keys of Anna, and sets another level and lease on two ports that have one."""
        self.copy_keys(self.anna, self.bert)
        for port in (self.net.port(name, 1) for name in ("node03 mlx4_0", "node04 mlx4_0")):
            if port.m_key:
                words = ("mkey-set", "-G", f"{port.guid:#x}", "--protect", "2", "--lease", "500", "--yes")
                code, text = self.type(self.bert, *words)
                assert code in (0, 3), f"{words} ended with {code}: {text}"  # 3: the copy has the former key

    def move(self) -> None:
        """Let two hosts change their places at the switches, and an SM bring their links up."""
        first, second = (self.net.port(name, 1) for name in ("node03 mlx4_0", "node06 mlx4_0"))
        swap_cables(first, second, self.net)
        for port in (first, second):
            for end in filter(None, (port, port.peer)):
                end.info[32] = end.info[32] & 0xF0 | PortState.ACTIVE

    def back_up(self) -> None:
        """Keep a copy of Anna's keys with Bert, and lose her key store."""
        self.copy_keys(self.anna, self.bert)
        self.anna.store.rename(self.anna.folder / "lost.db")

    def lose_journal(self) -> None:
        (self.anna.folder / "journal.db").rename(self.anna.folder / "lost-journal.db")


SINCE: Final[dict[str, Callable[[Cell], None]]] = {
    "nothing": lambda cell: None,
    "another deploys": lambda cell: cell.bert_works("mkey-deploy", "--per-port", "--protect", "0"),
    "another rotates": lambda cell: cell.bert_works("mkey-rotate", "--per-port"),
    "another sets a level": lambda cell: cell.bert_sets_levels(),
    "another removes": lambda cell: cell.bert_works("mkey-remove", "--leave-open"),
    "ports gone": lambda cell: cell.be_away(True),
    "ports back": lambda cell: cell.be_away(False),
    "ports moved": lambda cell: cell.move(),
    "key store lost": lambda cell: cell.back_up(),
    "journal lost": lambda cell: cell.lose_journal(),
}


LEFT_OUT: Final = ("deploy/before the first Set/ports moved/back",)
"""Two hosts that were swapped while neither had a key, and then got one: `keystore list --settle` records the place of
only one of the two."""


def cells() -> Iterator[str]:
    """Return the names of all cells."""
    for each in itertools.product(OPERATIONS, MOMENTS, SINCE, WAYS):
        if (name := "/".join(each)) not in LEFT_OUT:
            yield name


if __name__ == "__main__":
    main(Cell, *sys.argv[1:])

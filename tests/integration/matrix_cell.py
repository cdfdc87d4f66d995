"""A cell of the matrix: an operation dies, something happens since, and a way out of it is taken to its end."""

from __future__ import annotations

import itertools
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ibkeys.change.next_commands import next_commands_of
from ibkeys.store.journal import Journal
from tests.integration.hosted import plan_for
from tests.integration.matrix_kinds import APPLY, BETWEEN, DEPLOY, KINDS, MOMENTS, OF_MANAGERS, ROTATE
from tests.integration.matrix_site import (
    FAULTY,
    HAND,
    INCOMPLETE,
    LINES,
    NOTHING,
    OTHER,
    REFUSED,
    USAGE,
    Facts,
    MatrixSite,
)
from tests.integration.strangers import NODES
from tests.matrix.ways_out import until_done, way_out


class Cell(MatrixSite):
    """An operation of a kind that dies at a moment, what happens since, and the way that is taken then."""

    def prove(self) -> None:
        """Make the cell, and look at all that must hold."""
        if self.kind.is_of_policy:
            plan_for(self.served, self.green)
        if self.kind.before:
            self.must(self.anna, *self.kind.before)
        ours = [self.facts()]
        lines = rf"^(?:{'|'.join(LINES)}) .*\n"
        self.former_options = "".join(re.findall(lines, self.opensm.conf.read_text(), re.MULTILINE))
        self.former_policy = self.opensm.running.policy.read_text()
        if self.since == "manager returned":
            self.see_another()
        if self.since == "ports back":
            self.be_away(True)
            ours.append(self.facts())
        code, _ = self.type(self.anna, *self.kind.words, "--yes", mode="kill", point=self.moment)
        assert code == -signal.SIGKILL, self.told()
        ours.append(self.facts())
        with self.user.stack:
            with self.stack:
                SINCE[self.since](self)
                if self.since not in OF_OTHERS:
                    ours.append(self.facts())
                self.go(ours)
            self.be_whole()

    def go(self, ours: list[Facts]) -> None:
        """Take the way: a dry run, and then in earnest. *ours*: all states that the operation found or made."""
        words = {"on": self.kind.on, "back": self.kind.back, "new": self.kind.words}[self.way]
        assert words is not None
        if self.since == "journal lost" and words[0] in ("resume", "undo") and not self.kind.is_of_policy:
            self.find_nothing_open(words)
            return
        before, sweeps = self.facts(), self.opensm.running.heavy_sweeps
        _, said = self.type(self.anna, *words, "--dry-run")
        assert self.facts() == before, f"a dry run changed something\n{self.told()}"
        code, text = self.yes(self.anna, *words)
        self.assert_ours(ours, before)
        assert not self.is_faulty() or self.opensm.running.heavy_sweeps == sweeps, f"it was read\n{self.told()}"
        changed = self.facts() != before
        assert not (NOTHING in said and changed), self.told()
        assert not (code == REFUSED and changed), f"refused with a change\n{self.told()}"
        if code == USAGE and self.since in LOST:
            code, text = self.yes(self.anna, *way_out(text, []))
            assert code == 0, self.told()
        elif code != 0:
            if self.other is not None:
                assert code in (INCOMPLETE, REFUSED), self.told()
                master = (f"OpenSM (process {self.other.process.pid})", self.other.cache.name, f"{NODES[OTHER]:#018x}")
                is_of_a_run = "is not finished" in text  # before anybody looks who is master
                assert is_of_a_run or any(each in text for each in master), f"does not name the master\n{self.told()}"
            self.until_done(list(words))
        if self.other is not None:
            is_kept = (HAND in self.other.policy.read_text()) == (HAND in self.others_policy)
            assert is_kept, f"the master lost a partition of its own\n{self.told()}"

    def assert_ours(self, ours: list[Facts], before: Facts) -> None:
        """Only what held a value that the operation found or wrote has changed."""
        settings = {value for each in ours for fact, value in each.items() if fact[0] == "key"} | {
            tuple(int(each["conf", name][0], 0) for name in LINES[:3]) for each in ours if each["conf", "m_key"]
        }
        for fact, value in self.facts().items():
            if value == before[fact]:
                continue
            of_first = (str(fact[0]).removesuffix(" of the other"), *fact[1:])
            known = settings if fact[0] == "key" else {each[of_first] for each in ours if of_first in each}
            if fact[0] == "enforced":
                known |= {0}  # as the file of the operation says: anybody's signal brings it into force
            assert before[fact] in known, f"{fact} was overwritten, which was {before[fact]}\n{self.told()}"

    def find_nothing_open(self, words: Sequence[str]) -> None:
        """The journal that had the run is lost: a new run, which is made next, finds what the ports have."""
        before = self.facts()
        code, text = self.type(self.anna, *words, "--yes", "-v")
        assert (code, "begins a new run" in text) == (INCOMPLETE, True), self.told()
        assert self.facts() == before, self.told()

    def until_done(self, words: list[str]) -> None:
        try:
            until_done(lambda each: self.yes(self.anna, *each), words)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.told()}") from None

    def be_whole(self) -> None:
        """Nothing is open, and a new operation is possible."""
        self.be_away(False)
        self.opensm.running.sweep()
        # harden found nothing left to do for an interrupted mkey-deploy, or for an undo of part_enforce that ended with
        # the options of another manager; an apply may have been replaced by another.
        if self.kind_name in ("harden", "undo of harden") or self.kind.is_of_policy:
            self.end_what_is_open()
        self.assert_nothing_is_open(is_new_run_made=False)
        if self.kind.is_of_policy:
            is_green = b"Green" in self.opensm.running.policy.read_bytes()
            plan_for(self.served, self.tenants if is_green else self.green)
            # The SM that took over is gone for good, and seen by an operation.
            gone = ("--override", "standby-differs") if self.since.startswith("manager") else ()
            self.until_done([*APPLY, *gone])
        elif self.kind_name == "smkey-rotate":
            self.until_done(["smkey-rotate"])
        else:
            self.until_done([*(ROTATE if self.in_confs("m_key") - {0} else DEPLOY)])
            assert all(port.m_key for port in self.opensm.end_ports()), self.told()
        self.assert_nothing_is_open()

    def end_what_is_open(self) -> None:
        """Take the command that the journal names for each open operation."""
        with Journal(self.anna / "journal.db") as journal:
            commands = [
                next_commands_of(each)
                for each in journal.list_operations()
                if each.is_unfinished and each.undoes is None
            ]
        for each in commands:
            assert each is not None
            command = each.finish or each.roll_back  # of an undo that was cut off only the latter is named
            assert command is not None
            self.until_done(command.split()[1:])


SINCE: Final[dict[str, Callable[[Cell], None]]] = {
    "nothing": lambda site: None,
    "another operation": lambda site: site.another_works(*site.kind.another),
    "hand edit, read": lambda site: site.edit(True),
    "hand edit, unread": lambda site: site.edit(False),
    "policy edited, unread": Cell.edit_policy,
    "faulty policy, unread": lambda site: site.edit_policy(FAULTY),
    "OpenSM restarted": Cell.restart,
    "manager replaced": lambda site: site.be_managed_by_another(is_first_gone=True),
    "manager returned": lambda site: site.be_managed_by_another(is_first_gone=False),
    "ports gone": lambda site: site.be_away(True),
    "ports back": lambda site: site.be_away(False),
    "ports moved": Cell.move,
    "key store lost": lambda site: site.lose("keys.db"),
    "journal lost": lambda site: site.lose("journal.db"),
}
OF_OTHERS: Final = ("another operation", "hand edit, read", "hand edit, unread", "faulty policy, unread", *OF_MANAGERS)
LOST: Final = ("key store lost", "journal lost")


def cells() -> Iterator[str]:
    """Return the names of all cells."""
    for name, moment, since in itertools.product(KINDS, (*MOMENTS, BETWEEN), SINCE):
        kind = KINDS[name]
        if moment == BETWEEN and not kind.has_steps:
            continue
        if (name, moment) == ("harden", BETWEEN) and since in OF_MANAGERS:
            continue  # it has changed the sm_key: the managers do not know each other, and both stay master
        if kind.is_of_policy and since == "policy edited, unread":
            continue  # that is the hand edit
        ways = {"on": kind.on, "back": kind.back, "new": kind.words if kind.words != kind.on else None}
        if (name, since) == ("undo of harden", "journal lost"):
            ways = {"back": kind.back}  # nothing else knows that it was begun
        yield from (f"{name}/{moment}/{since}/{way}" for way, words in ways.items() if words)

"""Run by test_apply.py: an apply by own Sets, or its undo, is killed, somebody else does something, and it goes on.

    apply_driver.py DIRECTORY CELL...

A cell is KIND/MOMENT/SINCE/WAY (see the tables below).
"""

from __future__ import annotations

import itertools
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from ibkeys.mad.const import PortState
from ibkeys.sim.nodes import SimPort
from ibkeys.store.journal import Journal
from tests.fabricsim import swap_cables
from tests.matrix.dying import DyingSite, main
from tests.matrix.ways_out import until_done
from tests.mkeys.two_admins_driver import NOTHING, Facts, Operation

KINDS: Final = ("apply", "undo")
SETS: Final = 22
"""How many Sets the apply needs, and its undo too."""
MOMENTS: Final = tuple(f"{when} Set {number}" for number in range(1, SETS + 1) for when in ("before", "after"))
WAYS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "on": {"apply": ("resume",), "undo": ("resume",)},
    "back": {"apply": ("undo",), "undo": ("undo", "2")},
    "same": dict.fromkeys(KINDS, ("apply", "PLAN")),
    "new": dict.fromkeys(KINDS, ("plan",)),
}
"""Each of them is a dry run first."""
PARTITIONS: Final = {"blue=0x1": (2, 3, 4), "red=0x2": (4, 5)}
FORMER: Final = (0xFFFF, 0x8003)
"""What the hosts 2 to 5 have before; the second is in no partition of the policy."""
BERT, HAND = 0x8020, 0x8021
PERMITTED: Final = ("--allow-removals", "--allow-break")
SHORT: Final = ("-t", "50", "--retries", "0")
INCOMPLETE: Final = 3
REFUSED: Final = 4
PENDING: Final = 1

Keys = dict[str, frozenset[int]]


class Cell(DyingSite):
    """A subnet, an operation of Anna that dies, and Bert."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder)
        self.kind, self.moment, self.since, self.way = name.split("/")
        self.anna, self.bert = self.admins
        self.folder = folder
        self.others: dict[str, int] = {}
        """The P_Key that somebody else gave to a port."""
        self.replaced: dict[str, int] = {}
        """The P_Key that the operation found where that one is now: nobody can put it back there."""
        self.ways: list[list[str]] = []
        self.said = ""
        self.pulled: tuple[SimPort, SimPort] | None = None
        for number in range(2, 6):
            host = self.host(number)
            host.p_keys = list(FORMER)
            self.leaf(number).p_keys = list(FORMER)

    def host(self, number: int) -> SimPort:
        return self.net.port(f"node0{number} mlx4_0", 1)

    def leaf(self, number: int) -> SimPort:
        peer = self.host(number).peer
        assert peer is not None
        return peer

    def facts(self) -> Facts:
        bits = ((str(port), port) for node in self.net.nodes if node.is_switch for port in node.ports)
        return super().facts() | {
            ("enforced", name, 0): (port.inbound_enforcement, port.outbound_enforcement) for name, port in bits
        }

    def keys(self) -> Keys:
        """Return the P_Keys of each host."""
        return {str(port): frozenset(filter(None, port.p_keys)) for port in map(self.host, range(1, 7))}

    # --- commands -----------------------------------------------------------------------------------------------------

    def type(self, *words: str) -> tuple[int, str]:
        """Run a command of Anna that is not killed: it overwrites nothing of anybody else."""
        before = self.facts()
        code, text = self.run(self.anna, *words, *SHORT, "-v", may_die=False)
        self.check_ours(self.operation, before, self.facts(), text)
        self.operation.note(before, self.facts())
        self.check(before, text)
        return code, text

    def check_that_no_key_is_lost(self) -> None:
        """No port has an M_Key."""

    def plan(self, name: str) -> tuple[str, ...]:
        """Plan the policy, with what somebody else gave to a port; return the command that applies it."""
        members = {each: [self.host(number) for number in numbers] for each, numbers in PARTITIONS.items()}
        for port_name, key in self.others.items():
            port = next(port for port in self.end_ports() if str(port) == port_name)
            members.setdefault(f"other={key & 0x7FFF:#x}", []).append(port)
        lines = ["Default=0x7fff: ALL=full;"]
        lines += [f"{each}: {', '.join(f'{port.guid:#x}=full' for port in ports)};" for each, ports in members.items()]
        policy, plan = self.folder / f"{name}.conf", self.folder / f"{name}.json"
        policy.write_text("\n".join(lines) + "\n")
        plan.unlink(missing_ok=True)
        code, text = self.type("plan", "--policy", str(policy), "--out", str(plan))
        assert code in (0, PENDING), f"plan ended with {code}: {text}"
        return ("apply", str(plan))

    # --- the cell -----------------------------------------------------------------------------------------------------

    def prove(self) -> None:
        """Make the cell, and look at all that must hold."""
        former = self.facts()
        self.operation = Operation(former)
        self.former = self.keys()
        planned = (*self.plan("first"), *PERMITTED, "--yes")
        if self.kind == "undo":
            self.finish(*planned)
            self.interrupt("undo", "1", "--yes")
        else:
            self.interrupt(*planned)
        self.operation.note(former, self.facts())
        before = self.facts()
        SINCE[self.since](self)
        for fact, value in self.facts().items():
            if value != before[fact]:
                self.others[fact[1]] = value[0]
                self.replaced[fact[1]] = former[fact][0]
        self.dropped_before = set() if self.pulled is not None else self.dropped()
        self.go()
        self.be_whole()

    def finish(self, *words: str) -> None:
        code, text = self.type(*words)
        assert code == 0, f"{words} ended with {code}: {text}"

    def interrupt(self, *words: str) -> None:
        """Let the operation die at its moment."""
        when, _, number = self.moment.split()
        self.dies_before, self.dies_at = when == "before", int(number)
        code, text = self.run(self.anna, *words, may_die=False)
        assert code == -signal.SIGKILL, f"{words} ended with {code}: {text}"
        self.dies_at = None

    def go(self) -> None:
        """Take the way: a dry run, and then in earnest."""
        words = [str(self.folder / "first.json") if word == "PLAN" else word for word in WAYS[self.way][self.kind]]
        before, said = self.facts(), ""
        if words != ["plan"]:
            _, said = self.type(*words, *self.permitted(words), "--dry-run")
            assert self.facts() == before, f"a dry run changed ports: {said}"
        self.ways = until_done(self.follow, words)
        changed = before.items() - self.facts().items()
        assert not (NOTHING in said and len(self.ways) == 1 and changed), f"the dry run said {said}"

    def permitted(self, words: list[str]) -> tuple[str, ...]:
        if "--overtaken" in words:
            return ()
        return PERMITTED if words[0] == "apply" else PERMITTED[1:]

    def follow(self, words: list[str]) -> tuple[int, str]:
        """Type what a message names, and the option by which an undo keeps what another user or program wrote."""
        if words[0] == "plan":
            words = list(self.plan("next"))
        before = self.facts()
        command = [*words, *self.permitted(words), "--yes"]
        code, text = self.type(*command)
        if code == REFUSED:
            assert self.facts() == before, f"refused with a change: {text}"
            rolls_back = words[:2] == ["undo", "1"] or words[0] == ("resume" if self.kind == "undo" else "undo")
            if (rolls_back or self.pulled is not None) and "--override stale" in text:
                code, text = self.type(*command, "--override", "stale")
        self.said = text
        if "--overtaken" in words and code == 0:  # the ports stay half way: a new plan starts from there
            return self.follow(["plan"])
        if code == INCOMPLETE and self.pulled is not None:
            self.plug_in()
            return self.follow(words)
        return code, text

    def be_whole(self) -> None:
        """All ports are there, and each host has what it had or what is planned, besides what is
        of others."""
        if self.pulled is not None:
            self.plug_in()
            if self.is_open():
                until_done(self.follow, self.ways[-1])
        wanted = {name: self.former[name] - {FORMER[1]} for name in self.former}
        for partition, numbers in PARTITIONS.items():
            for number in numbers:
                wanted[str(self.host(number))] |= {0x8000 | int(partition.partition("=")[2], 16)}
        former = {name: self.former[name] - {self.replaced.get(name)} for name in wanted}
        now = self.keys()
        for name, key in self.others.items():
            assert key in now[name], f"{key:#x} of somebody else is gone from {name}: {self.said}"
            former[name] |= {key}
            wanted[name] |= {key}
        assert now in (former, wanted), f"{now} is neither {former} nor {wanted}: {self.said}"
        dropped = self.dropped() - self.dropped_before
        assert not dropped, f"leaf ports drop what their hosts have, {dropped}: {self.said}"

    def is_open(self) -> bool:
        """Whether the journal has an operation that has not ended."""
        with Journal.read(self.anna.folder / "journal.db") as journal:
            return any(each.is_unfinished for each in journal.list_operations())

    def dropped(self) -> set[tuple[str, int]]:
        """Return the P_Keys of hosts, besides those of others, that their leaf ports drop."""
        drops = set()
        for number in range(1, 7):
            host, leaf = self.host(number), self.leaf(number)
            if leaf.inbound_enforcement or leaf.outbound_enforcement:
                drops |= {(str(host), key) for key in {*filter(None, host.p_keys)} - {*leaf.p_keys}}
        return {(name, key) for name, key in drops if self.others.get(name) != key}

    # --- what somebody else did -------------------------------------------------------------------------------------

    def bert_works(self) -> None:
        """Bert gives a P_Key of his own to two hosts of the operation."""
        for number in (3, 4):
            words = ("pkey-add", "-G", f"{self.host(number).guid:#x}", f"{BERT:#x}", "--yes")
            code, text = self.run(self.bert, *words, may_die=False)
            assert code == 0, f"{words} ended with {code}: {text}"

    def set_by_hand(self) -> None:
        """Let somebody put a P_Key where the operation has one, or will have one."""
        keys = self.host(4).p_keys
        keys[1] = HAND
        self.host(4).p_keys = keys

    def pull_out(self) -> None:
        self.pulled = self.host(5), self.leaf(5)
        self.net.unplug(self.host(5).node, 1)

    def plug_in(self) -> None:
        assert self.pulled is not None
        host, leaf = self.pulled
        self.net.plug(host.node, host.number, leaf.node, leaf.number)
        self.pulled = None
        self.bring_up(host)

    def move(self) -> None:
        """Let two hosts change their places at the switches, and an SM bring their links up."""
        swap_cables(self.host(3), self.host(6), self.net)
        self.bring_up(self.host(3), self.host(6))

    def bring_up(self, *ports: SimPort) -> None:
        for end in itertools.chain.from_iterable((port, port.peer) for port in ports):
            assert end is not None
            end.info[32] = end.info[32] & 0xF0 | PortState.ACTIVE

    def gone_and_back(self) -> None:
        self.pull_out()
        self.plug_in()

    def lose_journal(self) -> None:
        (self.anna.folder / "journal.db").rename(self.anna.folder / "lost-journal.db")


SINCE: Final[dict[str, Callable[[Cell], None]]] = {
    "nothing": lambda cell: None,
    "another adds": lambda cell: cell.bert_works(),
    "set by hand": lambda cell: cell.set_by_hand(),
    "port gone": lambda cell: cell.pull_out(),
    "port back": lambda cell: cell.gone_and_back(),
    "ports moved": lambda cell: cell.move(),
    "journal lost": lambda cell: cell.lose_journal(),
}


def cells() -> Iterator[str]:
    """Return the names of all cells."""
    yield from map("/".join, itertools.product(KINDS, MOMENTS, SINCE, WAYS))


if __name__ == "__main__":
    main(Cell, *sys.argv[1:])

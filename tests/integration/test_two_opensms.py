"""Two OpenSMs on the served simulator: priorities say who is master, and the one that told of its own goes on sweeping.

A standby whose priority was raised tells the master by trap 144 and waits for the TrapRepress (OpenSM osm_req.c:
osm_send_trap144); until the kernel has given it that, or a timeout, its sweeps do not end.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.corpus import DATA
from tests.integration.opensms import NodesOpensm
from tests.integration.polling import wait_until
from tests.integration.served import Served

FIRST, SECOND, ASKER = "node01 mlx4_0", "node05 mlx4_0", "node03 mlx4_0"
LIDS = {FIRST: 1, SECOND: 5}
UNANSWERED_TRAP = "Class 0x1, Method 0x5, Attr 0x2"  # in the second line of OpenSM's ERR 5410


class OpenSM(NodesOpensm):
    """An OpenSM that is told priorities, stands by and takes over."""

    def set_priority(self, priority: int) -> None:
        """Let it read *priority* from its file."""
        self.write_priority(priority)
        self.process.send_signal(signal.SIGHUP)

    def stand_by(self, after: int = 0) -> None:
        """Wait until it is STANDBY and has ended what it was at: a SIGHUP before that counts as part of it."""
        self.log.wait("polling_callback: SM State 2 .STANDBY.", self.place("ENTERING SM STANDBY STATE", after))


def state(served: Served, node: str) -> str:
    """Return what SMInfo says to somebody else of the OpenSM on *node*."""
    said = served.run(["sminfo", str(LIDS[node])], sim_host=ASKER, check=True).stdout
    return said.split()[-1].removeprefix("SMINFO_")


@pytest.fixture
def served() -> Iterator[Served]:
    with Served(DATA / "fabrics" / "two-switch.net", extra=("-v",)) as fabric:
        yield fabric


@pytest.fixture
def start(served: Served) -> Iterator[Callable[[str, int], OpenSM]]:
    with ExitStack() as stack:
        yield lambda node, priority: OpenSM(served, node, priority, stack)


def master_and_standby(start: Callable[[str, int], OpenSM]) -> tuple[OpenSM, OpenSM]:
    """Start a master of priority 3, and a standby of priority 1 when that one has brought the subnet up."""
    first = start(FIRST, 3)
    first.log.wait("SUBNET UP")
    second = start(SECOND, 1)
    second.stand_by()
    return first, second


def test_a_standby_that_told_of_its_priority_takes_over_and_finishes_its_sweeps(
    served: Served, start: Callable[[str, int], OpenSM]
) -> None:
    first, second = master_and_standby(start)
    for lower, higher, priority in ((first, second, 9), (second, first, 12)):
        before = len(lower.log.lines), len(higher.log.lines)
        higher.set_priority(priority)
        master = higher.place("ENTERING SM MASTER STATE", before[1])
        higher.log.wait("SUBNET UP", master)
        lower.stand_by(before[0])
        higher.sweep()
        assert {state(served, each.node): each for each in (lower, higher)} == {"STANDBY": lower, "MASTER": higher}
    # Not of every trap: one that crosses the handover finds no master any more and is given up.
    wait_until(lambda: len({line.split()[0] for line in served.output if " < TrapRepress(Notice" in line}) == 2)


def test_an_opensm_that_told_of_its_priority_takes_over_from_one_that_dies(
    served: Served, start: Callable[[str, int], OpenSM]
) -> None:
    first, second = master_and_standby(start)
    before = len(first.log.lines)
    second.set_priority(2)
    first.log.wait("num:144 .* from LID:5", before)
    first.sweep()
    assert (state(served, FIRST), state(served, SECOND)) == ("MASTER", "STANDBY")
    first.process.kill()
    second.log.wait("SUBNET UP", second.place("ENTERING SM MASTER STATE"))
    second.sweep()
    assert state(served, SECOND) == "MASTER"


def test_an_opensm_of_higher_priority_that_comes_second_takes_over(
    served: Served, start: Callable[[str, int], OpenSM]
) -> None:
    first = start(FIRST, 3)
    first.log.wait("SUBNET UP")
    second = start(SECOND, 9)
    second.log.wait("SUBNET UP", second.place("ENTERING SM MASTER STATE"))
    first.stand_by()
    second.sweep()
    assert (state(served, FIRST), state(served, SECOND)) == ("STANDBY", "MASTER")


def test_a_master_that_hangs_is_replaced_and_steps_back_when_it_goes_on(
    served: Served, start: Callable[[str, int], OpenSM]
) -> None:
    first, second = master_and_standby(start)
    first.process.send_signal(signal.SIGSTOP)
    second.set_priority(9)
    second.log.wait(
        f"{UNANSWERED_TRAP}|ENTERING SM MASTER STATE"
    )  # it may notice by its polling before it sends the trap
    second.log.wait("SUBNET UP", second.place("ENTERING SM MASTER STATE"))
    second.sweep()
    before = len(first.log.lines)
    first.process.send_signal(signal.SIGCONT)
    first.stand_by(before)
    assert (state(served, FIRST), state(served, SECOND)) == ("STANDBY", "MASTER")

"""Steps of Sets: what is begun after a failure, and what the journal lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from ibkeys.change.course import Course
from ibkeys.change.edits import PKeyBlockEdit
from ibkeys.change.engine import Engine
from ibkeys.change.pending_set import PendingSet
from ibkeys.change.runner import Runner
from ibkeys.change.sets_step import SetsStep
from ibkeys.change.target import PortTarget
from ibkeys.fabric.handle import PortHandle
from ibkeys.keys.pkey import PKey
from ibkeys.store.journal import Journal, RunningOperation
from tests.fabricsim import subnet, tool, writer

NEW = PKey(0x8010)


class Site:
    """Two hosts of a simulated subnet, and the stages of a step that were asked for."""

    def __init__(self) -> None:
        self.net = subnet("two-switch")
        self.fabric = tool(self.net, retries=0)
        self.begun: list[int] = []
        found = self.fabric.sweep()
        self.ports = [port for port in found.end_ports() if not port.node.is_switch][:2]

    def set_for(self, number: int, is_silent: bool) -> PendingSet:
        """Return a Set that adds a P_Key to a host, which does not answer any more if it is silent."""
        handle: PortHandle = self.fabric.handle(self.ports[number])
        handle.read_port_info()
        table = {index: key for index, key in enumerate(handle.read_p_keys()) if key.is_valid}
        if is_silent:
            self.net.silence(self.ports[number].node.description)
        return PendingSet(PKeyBlockEdit(PortTarget.of(handle), 0, table, {5: NEW}))

    def stages(self, silent: Sequence[bool]) -> Iterable[list[PendingSet]]:
        for number, is_silent in enumerate(silent):
            self.begun.append(number)
            yield [self.set_for(number, is_silent)]

    def run(self, operation: RunningOperation, name: str, silent: Sequence[bool], stops: bool) -> bool:
        """Make a step with a stage for each of *silent*, and return whether it is proven."""
        with writer(self.fabric) as w:
            step = SetsStep(name, Engine(w, operation), self.stages(silent), stops_at_failure=stops)
            [ended] = Runner(operation).run(Course([step]), lambda step: step)
        return ended.is_proven


@pytest.mark.parametrize(("stops", "begun"), [(True, [0]), (False, [0, 1])])
def test_after_a_failure_the_next_stage_begins_only_where_the_step_goes_on(stops: bool, begun: list[int]) -> None:
    site = Site()
    with Journal(None).operation("apply") as operation:
        assert not site.run(operation, "add", [True, False], stops)
    assert site.begun == begun


@pytest.mark.parametrize(("silent", "status"), [([False, False], "done"), ([False, True], "failed")])
def test_the_journal_lists_the_step_and_how_it_ended(silent: list[bool], status: str) -> None:
    journal = Journal(None)
    with journal.operation("apply") as operation:
        site = Site()
        assert site.run(operation, "add", silent, stops=False) is (status == "done")
        assert operation.id is not None
    assert [(step.name, step.status) for step in journal.steps(operation.id)] == [("add", status)]


def test_a_change_of_one_step_lists_no_step() -> None:
    journal = Journal(None)
    with journal.operation("pkey-set") as operation:
        assert Site().run(operation, "", [False], stops=True)
        assert operation.id is not None
    assert journal.steps(operation.id) == []
    assert [entry.status for entry in journal.entries(operation.id)] == ["done"]

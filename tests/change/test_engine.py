"""The engine by itself: who waits for whom, what is synced together, how it stops; on the simulated subnet."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest

from ibkeys.change.edits import PKeyBlockEdit
from ibkeys.change.engine import Engine, EngineHooks
from ibkeys.change.engine.port_steps import PortSteps
from ibkeys.change.pending_set import PendingSet, SetProof
from ibkeys.change.target import PortTarget
from ibkeys.change.writer import ChangeWriter
from ibkeys.client.smp import SmpClient, Task
from ibkeys.errors import MadStatusError, NoReply, NotStored, StoreError
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import NO_MKEY
from ibkeys.keys.pkey import PKey
from ibkeys.mad.const import Method
from ibkeys.mkeys.key_edit import KeyEdit
from ibkeys.scripting import Fabric
from ibkeys.sim.subnet import Subnet
from ibkeys.store.journal import RunningOperation
from ibkeys.umad.port import Outgoing
from tests.fabricsim import subnet, tool, writer
from tests.fattree import fat_tree
from tests.spy import sets, spy

NEW = PKey(0x8010)
SWITCH = "MF0;switch-a:IS5023/U1"


class Heard(EngineHooks):
    """Keeps what the engine tells, in order."""

    def __init__(self) -> None:
        self.ends: list[PendingSet] = []
        self.syncs: list[tuple[int, int]] = []
        self.failures: list[PendingSet] = []
        self.journal_error: list[StoreError | None] = []

    def write_records(self, ended: Sequence[PendingSet], ready: Sequence[PendingSet]) -> None:
        self.syncs.append((len(ended), len(ready)))

    def note_failure(self, each: PendingSet) -> None:
        self.failures.append(each)

    def note_outcome(self, each: PendingSet, journal_error: StoreError | None) -> None:
        self.ends.append(each)
        self.journal_error.append(journal_error)


def adding(fabric: Fabric, *ports: Any) -> list[PendingSet]:
    """A Set for each of *ports* that adds one P_Key at index 5."""
    found = []
    for port in ports:
        handle = fabric.handle(port)
        handle.read_port_info()
        table = {index: key for index, key in enumerate(handle.read_p_keys()) if key.is_valid}
        found.append(PendingSet(PKeyBlockEdit(PortTarget.of(handle), 0, table, {5: NEW})))
    return found


class Bench:
    """A subnet, a tool on it, and an open operation."""

    def __init__(self, net: Subnet, **options: Any) -> None:
        self.net = net
        self.fabric = tool(net, **options)
        self.writer: ChangeWriter = writer(self.fabric)
        self.found = self.fabric.sweep()
        self.heard = Heard()

    @property
    def hosts(self) -> list[Any]:
        return [port for port in self.found.end_ports() if not port.node.is_switch]

    def externals(self) -> list[Any]:
        node = next(node for node in self.found.nodes if node.description == SWITCH)
        return [port for port in node.ports.values() if port.num]

    def run(self, sets: Sequence[PendingSet], **options: Any) -> RunningOperation:
        with self.writer.journaled() as operation:
            Engine(self.writer, operation, self.heard, **options).make(sets)
        return operation


def test_one_sync_serves_all_that_came_to_it() -> None:
    bench = Bench(subnet("two-switch"))
    pending = adding(bench.fabric, *bench.hosts)
    bench.run(pending)
    assert [each.error for each in pending] == [None] * 6
    assert sum(ready for _, ready in bench.heard.syncs) == 6
    assert len(bench.heard.syncs) < 6


@pytest.mark.parametrize("most", [1, 2, 6])
def test_no_more_are_in_change_than_allowed(most: int) -> None:
    bench = Bench(subnet("two-switch"))
    pending = adding(bench.fabric, *bench.hosts)
    record = spy(bench.fabric)
    bench.run(pending, max_begun=most)
    assert len(sets(record)) == 6
    assert all(ready <= most for _, ready in bench.heard.syncs)
    assert [each.error for each in pending] == [None] * 6


def test_a_silent_port_holds_back_no_other() -> None:
    bench = Bench(subnet("two-switch"), retries=0)
    pending = adding(bench.fabric, *bench.hosts)
    bench.net.silence("node02 mlx4_0")
    bench.run(pending, max_begun=1)
    failed = [each for each in pending if each.error is not None]
    assert [each.target.port.node.description for each in failed] == ["node02 mlx4_0"]
    assert isinstance(failed[0].error, NoReply)
    assert bench.heard.failures == failed
    assert not failed[0].entries


def test_a_lost_set_to_a_switch_holds_back_none_of_its_other_ports() -> None:
    bench = Bench(subnet("two-switch"))
    pending = adding(bench.fabric, *bench.externals()[:4])
    bench.net.faults.lose_next("request", method=Method.SET)
    bench.run(pending)
    lost = [each for each in pending if each.error is not None]
    assert len(lost) == 1
    assert isinstance(lost[0].error, NotStored)
    assert [each.sent for each in pending] == [1] * 4  # not repeated: a table is sent once


def test_what_was_not_asked_of_a_dead_switch_is_said_of_each_port() -> None:
    bench = Bench(subnet("two-switch"), retries=0)
    pending = adding(bench.fabric, *bench.externals())
    bench.net.node(SWITCH).silent = 2
    record = spy(bench.fabric)
    bench.run(pending)
    assert all(isinstance(each.error, NoReply) for each in pending)
    assert not sets(record)
    assert len(record) < len(pending)


@pytest.mark.parametrize("asks_silent_again", [False, True])
def test_a_port_that_answers_again_is_read_a_second_time_only_where_that_is_asked_for(asks_silent_again: bool) -> None:
    bench = Bench(subnet("two-switch"), retries=0)
    pending = adding(bench.fabric, *bench.hosts)
    bench.net.faults.lose_next("request", node=bench.net.node("node03 mlx4_0"))
    bench.run(pending, asks_silent_again=asks_silent_again)
    assert sum(each.error is None for each in pending) == (6 if asks_silent_again else 5)
    assert len(bench.heard.failures) == 1
    assert len(bench.heard.ends) == 6


class Stopping(Heard):
    """Asks to stop when the first Set has been proven."""

    def check(self) -> None:
        if self.ends:
            raise KeyboardInterrupt("by SIGTERM")


def test_a_stop_begins_no_further_set_and_proves_what_was_sent() -> None:
    bench = Bench(subnet("two-switch"))
    bench.heard = Stopping()
    pending = adding(bench.fabric, *bench.hosts)
    with pytest.raises(KeyboardInterrupt, match="SIGTERM"):
        bench.run(pending, max_begun=2)
    begun = [each for each in pending if each.sent]
    assert 1 <= len(begun) < 6
    assert all(each.error is None and each.entries[-1].status == "done" for each in begun)
    assert all(not each.entries for each in pending if not each.sent)


class Full(Heard):
    """A disk that is full when the second sync comes."""

    def write_records(self, ended: Sequence[PendingSet], ready: Sequence[PendingSet]) -> None:
        super().write_records(ended, ready)
        if len(self.syncs) > 1:
            raise StoreError("the disk is full")


def test_when_a_sync_fails_nothing_more_is_sent_and_what_was_sent_is_still_proven() -> None:
    bench = Bench(subnet("two-switch"))
    bench.heard = Full()
    pending = adding(bench.fabric, *bench.hosts)
    record = spy(bench.fabric)
    with pytest.raises(StoreError, match="full"):
        bench.run(pending, max_begun=2)
    assert len(sets(record)) == 2
    assert [each.error for each in bench.heard.ends] == [None, None]
    assert all(isinstance(why, StoreError) for why in bench.heard.journal_error)


class Deaf(Heard):
    """A listener that has gone."""

    def note_outcome(self, each: PendingSet, journal_error: StoreError | None) -> None:
        super().note_outcome(each, journal_error)
        raise BrokenPipeError


def test_a_listener_that_is_gone_stops_it_after_what_was_sent_is_proven() -> None:
    bench = Bench(subnet("two-switch"))
    bench.heard = Deaf()
    pending = adding(bench.fabric, *bench.hosts)
    with pytest.raises(BrokenPipeError):
        bench.run(pending, max_begun=3)
    assert all(each.entries[-1].status == "done" for each in pending if each.sent)


def test_what_is_there_already_is_neither_journaled_nor_sent() -> None:
    bench = Bench(subnet("two-switch"))
    pending = adding(bench.fabric, *bench.hosts)
    bench.run(pending)
    again = [PendingSet(each.edit) for each in pending]
    record = spy(bench.fabric)
    operation = bench.run(again)
    assert not sets(record)
    assert operation.id is None
    assert [each.error for each in again] == [None] * 6


class StoppingAtRefusal(Heard):
    """Asks to stop as soon as an agent has refused a Set."""

    def __init__(self, pending: list[PendingSet]) -> None:
        super().__init__()
        self.pending = pending

    def check(self) -> None:
        if any(isinstance(each.set_error, MadStatusError) for each in self.pending):
            raise KeyboardInterrupt("by SIGTERM")


class TookNothing(KeyEdit):
    """An edit that finds that the agent refused the Set and changed nothing."""

    def prove(self, client: SmpClient, each: PendingSet) -> Task:
        yield from super().prove(client, each)
        return SetProof(NotStored("nothing was stored"), changed_nothing=True)


def test_a_refused_set_is_told_when_the_run_stops_before_its_other_form() -> None:
    """Agents that no SM has configured refuse a Set with LID 0, and take it with a stand-in."""
    bench = Bench(Subnet.from_text(fat_tree(2, 3, 1), link_state="initialize"))
    handle = bench.fabric.handle(bench.hosts[1])
    shown = handle.read_port_info()
    edit = TookNothing(PortTarget.of(handle), shown, KeySetting(NO_MKEY, 0, 0), KeySetting(NO_MKEY, 0, 30))
    pending = [PendingSet(edit)]
    bench.heard = StoppingAtRefusal(pending)
    with pytest.raises(KeyboardInterrupt):
        bench.run(pending)
    assert bench.heard.ends == pending
    assert isinstance(pending[0].error, NotStored)
    assert pending[0].entries[-1].status == "failed"


def test_a_proof_that_was_not_asked_because_its_switch_paused_is_asked_later() -> None:
    bench = Bench(subnet("two-switch"), retries=0)
    pending = adding(bench.fabric, *bench.externals()[:6])
    switch = bench.net.node(SWITCH)
    lost = 0

    def lose_one_proof(out: Outgoing) -> None:
        nonlocal lost
        written = [port for port in switch.ports if port.p_keys[5:6] == [NEW]]
        if not lost and len(written) == 4:
            lost = 1
            bench.net.faults.lose_next("request", method=Method.GET, node=switch)

    spy(bench.fabric, before=lose_one_proof)
    bench.run(pending)
    assert lost
    wrong = [each for each in pending if each.error is not None]
    assert len(wrong) <= 1
    assert all(each.entries[-1].status == "done" for each in pending if each not in wrong)


class Lost(KeyEdit):
    """An edit that gets no answer after its Set."""

    def prove(self, client: SmpClient, each: PendingSet) -> Task:
        yield from ()
        return SetProof(NoReply("no reply"), is_silent=True)


def test_a_port_that_cannot_be_asked_again_after_its_set_keeps_the_error_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench(subnet("two-switch"))
    handle = bench.fabric.handle(bench.hosts[1])
    shown = handle.read_port_info()
    pending = [PendingSet(Lost(PortTarget.of(handle), shown, KeySetting(NO_MKEY, 0, 0), KeySetting(NO_MKEY, 0, 30)))]
    moved = MadStatusError("another port answers", 0x1C).explained("a cable was moved")
    seen = count()

    def check_links(self: PortSteps, target: PortTarget) -> Task:
        yield from ()
        if next(seen):
            raise moved

    monkeypatch.setattr(PortSteps, "check_links", check_links)
    bench.run(pending, asks_silent_again=True)
    assert pending[0].error is moved
    assert (moved.status, moved.more) == (0x1C, "a cable was moved")
    assert str(moved) == "it did not answer after its Set, and then: another port answers"


def test_the_repr_of_a_set_shows_nothing_of_the_attribute() -> None:
    """PortInfo has its M_Key in it, and a traceback may show locals."""
    single = PendingSet(None)  # type: ignore[arg-type]
    single.before = single.after = bytes.fromhex("feedc0de" * 16)
    assert "feed" not in repr(single)
    assert repr(single.before) not in repr(single)

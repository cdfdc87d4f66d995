"""Guards on other hosts, which outlive the apply that started them: they end where it goes on, or its record ends."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from ibkeys.apply.apply_plan import ApplyHooks, FinishedApply
from ibkeys.apply.by_sm.course import CarrierSettings
from ibkeys.apply.confirm import add_confirmation
from ibkeys.apply.opensm.guards import KEPT_GUARDS, end_guards
from ibkeys.change.confirming.confirmation import block_confirmation
from ibkeys.errors import HostNotReached, HostRefused, Refused
from ibkeys.managers.site import KEPT_HOSTS
from ibkeys.store.journal import Journal
from tests.apply.opensm.bench import GREEN, MORE, THEIRS, Bench, unconfirmed
from tests.apply.opensm.madeup import MadeUpHost, put

ARMED = ApplyHooks(on_end=lambda finished: None, confirm_within=300.0)
TOKEN = "ibkeys-guard-AAAAAAAA"


class Killed(BaseException):
    """The process ends here."""


class MadeUpGuard:
    """A `RemoteGuard`: it restores what it found where the file has what it was told of."""

    token = ""

    def __init__(self, host: MadeUpHost) -> None:
        self.host, self.is_alive = host, True
        self.former: bytes | None = None
        self.contents = set[bytes]()

    def start(self, seen: Any, process: object) -> str:
        self.former, self.token = seen.data, TOKEN
        return TOKEN

    def announce(self, data: bytes) -> None:
        self.contents.add(data)

    def keep_alive(self) -> None:
        """The process is there."""

    start_time_limit = keep_alive

    def end(self) -> bool:
        self.is_alive = False
        return True

    confirm = end

    def let_time_pass(self) -> None:
        if self.is_alive and self.host.file.data in self.contents:
            self.host.file.data = self.former
            self.host.sweep()


@pytest.fixture
def guards(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> list[MadeUpGuard]:
    """The guards that were started. Whoever has the token of the journal ends them."""
    started: list[MadeUpGuard] = []
    host = bench.opensm.host

    def guard(seconds: float) -> MadeUpGuard:
        started.append(MadeUpGuard(host))
        return started[-1]

    def end(kept: Mapping[str, Any]) -> list[str]:
        for each in kept.get(KEPT_GUARDS, ()):
            assert each["token"] == TOKEN
            started[-1].end()
        return []

    monkeypatch.setattr(host, "guard", guard)
    for place in ("carrier", "guards"):
        monkeypatch.setattr(f"ibkeys.apply.opensm.{place}.end_guards", end)
    for place in ("closing", "undo"):
        monkeypatch.setattr(f"ibkeys.apply.{place}.end_guards", end)
    return started


def kill_at_the_signal(bench: Bench, text: str) -> None:
    def die(word: str) -> None:
        if word == "signal":
            raise Killed

    bench.opensm.host.before_each = die
    with pytest.raises(Killed):
        bench.apply(text, hooks=ARMED)
    bench.opensm.host.before_each = lambda word: None


def test_a_resumed_apply_is_not_rolled_back_by_the_guard_of_its_first_start(
    bench: Bench, guards: list[MadeUpGuard]
) -> None:
    kill_at_the_signal(bench, MORE)
    bench.resume()
    after, data = bench.tables(), bench.opensm.host.file.data
    guards[0].let_time_pass()
    assert (bench.tables(), bench.opensm.host.file.data) == (after, data)
    assert bench.states() == {1: "done"}


def test_what_is_made_again_after_an_undo_is_not_rolled_back_by_the_guard_of_the_first_start(
    bench: Bench, guards: list[MadeUpGuard]
) -> None:
    kill_at_the_signal(bench, MORE)
    bench.undo(1)
    bench.apply(MORE)
    data = bench.opensm.host.file.data
    guards[0].let_time_pass()
    assert bench.opensm.host.file.data == data
    assert bench.states() == {1: "undone", 2: "done", 3: "done"}


def test_the_guard_stays_until_the_rollback_by_the_child_is_made(bench: Bench, guards: list[MadeUpGuard]) -> None:
    bench.settings = CarrierSettings(wait=5, at_once=True)
    kill_at_the_signal(bench, MORE)
    assert block_confirmation(bench.journal, 1)
    former = bench.opensm.host.file.data

    def refuse(word: str) -> None:
        if word == "signal":
            raise HostRefused("no", "")

    bench.opensm.host.before_each = refuse
    with pytest.raises(HostRefused):
        bench.undo_by_child(1)
    assert guards[0].is_alive
    bench.opensm.host.before_each = lambda word: None
    bench.undo_by_child(1)
    assert not guards[0].is_alive
    assert bench.opensm.host.file.data != former


def test_the_guards_of_a_confirmed_change_are_not_told_of_its_undo(
    bench: Bench, guards: list[MadeUpGuard], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its hosts may be gone by then."""
    hooks = ApplyHooks()
    add_confirmation(hooks, 300.0, None, lambda seconds: True, lambda text: None)
    bench.apply(MORE, hooks=hooks)
    monkeypatch.setattr("ibkeys.apply.opensm.carrier.end_guards", lambda kept: ["told"] if KEPT_GUARDS in kept else [])
    bench.undo(1)
    assert "told" not in bench.done.late_notes
    assert bench.states() == {1: "undone", 2: "done"}


def test_a_record_that_ends_leaves_no_guard_behind(bench: Bench, guards: list[MadeUpGuard]) -> None:
    kill_at_the_signal(bench, GREEN)
    put(bench.opensm.net.port("node02 mlx4_0", 1), {0: 0x7FFF, 1: 0x8099})
    bench.assert_overtaken("node02.*0x8099")
    data = bench.opensm.host.file.data
    bench.close()
    guards[0].let_time_pass()
    assert bench.opensm.host.file.data == data


@pytest.mark.parametrize("of", ["file", "port"])
def test_a_rollback_that_the_child_is_refused_is_none_of_the_guard_either(
    bench: Bench, guards: list[MadeUpGuard], of: str
) -> None:
    bench.apply(MORE, hooks=ARMED)
    with Journal(bench.journal) as journal:
        assert journal.move_stage(1, "running", "unconfirmed")
    if of == "file":
        bench.opensm.host.file.data = THEIRS
    else:
        put(bench.opensm.net.port("node02 mlx4_0", 1), {0: 0x7FFF, 1: 0x8099})
    assert block_confirmation(bench.journal, 1)
    with pytest.raises(Refused):
        bench.undo_by_child(1)
    assert not guards[0].is_alive
    assert [each.rollback for each in bench.records()] == ["refused"]


@pytest.mark.parametrize("of", ["file", "port"])
def test_a_rollback_that_the_process_itself_is_refused_is_none_of_the_guard_either(
    bench: Bench, guards: list[MadeUpGuard], of: str
) -> None:
    def changed(run: FinishedApply) -> None:
        if of == "file":
            bench.opensm.host.file.data = THEIRS
        else:
            put(bench.opensm.net.port("node02 mlx4_0", 1), {0: 0x7FFF, 1: 0x8099})
        assert guards[0].is_alive
        unconfirmed(run)

    bench.apply(MORE, hooks=ApplyHooks(on_end=changed, confirm_within=300.0))
    assert bench.done.is_rollback_refused
    assert not guards[0].is_alive


def test_nothing_is_changed_on_top_of_what_may_still_go_back(bench: Bench, guards: list[MadeUpGuard]) -> None:
    bench.apply(MORE, hooks=ARMED)
    with Journal(bench.journal) as journal:
        assert journal.move_stage(1, "running", "unconfirmed")
    with pytest.raises(Refused, match=r"operation 1 \(apply\) waits to be confirmed: `ibkeys confirm 1`") as refused:
        bench.apply(GREEN)
    assert refused.value.interlock == "open-operation"
    assert block_confirmation(bench.journal, 1)
    with pytest.raises(Refused, match=r"operation 1 \(apply\) is being rolled back: `ibkeys undo 1`"):
        bench.apply(GREEN)
    bench.undo_by_child(1)
    bench.apply(GREEN)
    assert bench.states() == {1: "undone", 2: "done", 3: "done"}


def test_the_question_comes_after_the_guards_on_other_hosts_were_told(
    bench: Bench, guards: list[MadeUpGuard], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To tell them may take seconds, and an Enter in that time confirms nothing."""
    order, hooks = list[str](), ApplyHooks()
    monkeypatch.setattr(MadeUpGuard, "start_time_limit", lambda guard: order.append("told"))
    add_confirmation(
        hooks,
        300.0,
        None,
        lambda seconds: not order.append("waited"),
        lambda text: order.append("question") if "unless confirmed" in text else None,
        before_question=lambda: order.append("discarded"),
    )
    bench.apply(MORE, hooks=hooks)
    assert order == ["told", "discarded", "question", "waited"]


@pytest.mark.parametrize("is_back", [True, False])
def test_a_guard_hears_of_a_confirmation_after_the_connection_was_cut(
    bench: Bench, guards: list[MadeUpGuard], monkeypatch: pytest.MonkeyPatch, is_back: bool
) -> None:
    def cut(self: MadeUpGuard) -> bool:
        raise HostNotReached("the connection is cut", "")

    @contextmanager
    def opened(host: Any) -> Any:
        if not is_back:
            raise HostNotReached("no route to host", "")
        yield SimpleNamespace(confirm_guard=lambda token: end(guards[0]))

    end = MadeUpGuard.end
    monkeypatch.setattr("ibkeys.apply.opensm.guards.open_machine", opened)
    monkeypatch.setattr(MadeUpGuard, "confirm", cut)
    hooks = ApplyHooks()
    add_confirmation(hooks, 300.0, None, lambda seconds: True, lambda text: None)
    problems = [text for _, text in bench.apply(MORE, hooks=hooks).failed]
    data = bench.opensm.host.file.data
    guards[0].let_time_pass()
    assert (bench.opensm.host.file.data == data) == is_back
    assert bool(problems) != is_back


def test_a_guard_that_cannot_be_told_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    class Machine:
        def confirm_guard(self, token: str) -> bool:
            told.append(token)
            return False  # it is there no more

    @contextmanager
    def opened(host: Any) -> Any:
        if host.name == "sm3":
            raise HostNotReached("sm3: no route to host", "sm3")
        yield Machine()

    monkeypatch.setattr("ibkeys.apply.opensm.guards.open_machine", opened)
    hosts = [{"name": name, "sudo": False, "ssh_config": None} for name in ("sm2", "sm3", "sm4")]
    kept = {KEPT_HOSTS: hosts, KEPT_GUARDS: [{"host": "sm2", "token": "a"}, {"host": "sm3", "token": "b"}]}
    [problem] = end_guards(kept)
    assert (told, "the guard on sm3 may still restore the former policy" in problem) == (["a"], True)
    assert end_guards({KEPT_HOSTS: hosts}) == []
    assert "damaged" in end_guards({KEPT_HOSTS: hosts, KEPT_GUARDS: [{}]})[0]

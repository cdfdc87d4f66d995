"""Two administrators with two stores: who comes second is told who works on an OpenSM's host, and since when."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ibkeys.change import host_locks
from ibkeys.change.clock import Clock
from ibkeys.change.consent import Consent
from ibkeys.change.host_locks import HELD, OWN_SECONDS, STALE, remove_left_locks, take_host_locks
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import FileError, HostNotReached, Refused, UsageError
from ibkeys.host.host_lock import FoundLock, find_lock, lock_file
from ibkeys.host.lock_holder import LockHolder
from ibkeys.managers.machines.machine import Machine
from ibkeys.managers.machines.this_host import THIS
from ibkeys.managers.site import ReachedHost, RunningOpensm
from ibkeys.store.journal import Journal
from ibkeys.store.origin import this_process
from tests.fabricsim import subnet, tool


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "etc" / "opensm.conf"
    path.parent.mkdir()
    path.write_text("sm_priority 3\n")
    return path


@pytest.fixture
def writer(tmp_path: Path) -> Callable[..., AbstractContextManager[ChangeWriter]]:
    """Make a changing command of an administrator, whose stores are in a folder of his name."""

    def make(name: str, *overrides: str, dry_run: bool = False) -> ChangeWriter:
        (tmp_path / name).mkdir(exist_ok=True)
        stores: Any = {"keystore": tmp_path / name / "keys.db", "journal": tmp_path / name / "journal.db"}
        fabric = tool(subnet("two-switch"), "node03 mlx4_0", **stores)
        return ChangeWriter(fabric, "mkey-rotate", Consent(overrides=frozenset(overrides)), dry_run)

    return make


def running(
    conf: Path | None, policy: Path | None = None, machine: Machine = THIS, is_master: bool = True
) -> RunningOpensm:
    """Return an OpenSM with these files."""
    paths = {"options": conf, "policy": policy}
    files = {
        role: SimpleNamespace(role=role, path=path, place=path, problem="is not known", fact=None)
        for role, path in paths.items()
    }
    instance: Any = SimpleNamespace(name="OpenSM", files=files)
    return RunningOpensm(instance, machine, cast(Any, SimpleNamespace(is_master=is_master)))


class Noting:
    """A host that notes which locks are taken."""

    def __init__(self, name: str, order: list[str], ends: Exception | None = None) -> None:
        self.name, self.order, self.ends = name, order, ends

    def take_lock(self, path: Path, text: bytes, over: bytes | None = None) -> Any:
        self.order.append(f"take {self.name}")
        return self

    def release(self) -> None:
        self.order.append(f"release {self.name}")
        if self.ends is not None:
            raise self.ends


def lock_and_fail(writer: ChangeWriter, opensms: list[RunningOpensm], error: BaseException) -> None:
    with writer:
        take_host_locks(writer, opensms)
        raise error


def test_it_is_held_until_the_writer_is_closed(writer: Any, conf: Path) -> None:
    with writer("anna") as anna:
        assert take_host_locks(anna, [running(conf)])
        assert not take_host_locks(anna, [running(conf)]), "it is held already"
        found = find_lock(conf)
        assert found is not None
        assert found.is_held
        holder = LockHolder.read(found.text)
        assert holder == anna.lock_holder
        assert holder.command == "mkey-rotate"
        assert datetime.fromisoformat(holder.since).tzinfo is not None
        with Journal(anna.fabric.stores.journal) as journal:
            assert holder.journal == journal.identity()
    assert find_lock(conf) is None


def test_an_error_and_an_interrupt_release_it(writer: Any, conf: Path) -> None:
    for error in (UsageError("no"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            lock_and_fail(writer("anna"), [running(conf)], error)
        assert find_lock(conf) is None


def test_a_second_administrator_is_told_who_works_there(writer: Any, conf: Path) -> None:
    with writer("anna") as anna, writer("bert", STALE) as bert:
        take_host_locks(anna, [running(conf)])
        with pytest.raises(Refused) as refused:
            take_host_locks(bert, [running(conf)])
        assert refused.value.interlock == HELD
        holder = anna.lock_holder
        text = str(refused.value)
        for words in (
            str(lock_file(conf)),
            f"{holder.user} at {holder.host}, by `mkey-rotate` since {holder.since[:10]} {holder.since[11:19]} UTC",
            f"process {holder.process}",
            "wait until that has ended, or ask them",
        ):
            assert words in text
        assert "overrides=" not in text
        assert find_lock(conf) == FoundLock(holder.line(), True)
    with writer("bert") as bert:
        assert take_host_locks(bert, [running(conf)])


def test_a_stale_one_of_somebody_else_needs_the_override(writer: Any, conf: Path) -> None:
    with writer("anna") as anna:
        lock_file(conf).write_bytes(anna.lock_holder.line())
    with (
        writer("bert") as bert,
        pytest.raises(Refused, match=r"by `mkey-rotate` since .*cut off.*resume") as refused,
    ):
        take_host_locks(bert, [running(conf)])
    assert refused.value.interlock == STALE
    assert "to do it anyway: consent=Consent(overrides=frozenset({'stale-lock'}))" in str(refused.value)
    assert lock_file(conf).read_bytes() == anna.lock_holder.line()
    with writer("bert", STALE) as bert:
        assert take_host_locks(bert, [running(conf)])
        assert lock_file(conf).read_bytes() == bert.lock_holder.line()
    assert find_lock(conf) is None


def test_one_that_the_same_journal_left_is_taken_over(writer: Any, conf: Path) -> None:
    with writer("anna") as anna:
        lock_file(conf).write_bytes(anna.lock_holder.line())
    with writer("anna") as anna:
        assert take_host_locks(anna, [running(conf)])
    assert find_lock(conf) is None


@pytest.mark.parametrize("text", [b"", b"\x1b[31mroot\n", b"a\tb\n", b"x" * 9000])
def test_one_that_says_nothing_is_stale_too(writer: Any, conf: Path, text: bytes) -> None:
    lock_file(conf).write_bytes(text)
    with writer("bert") as bert, pytest.raises(Refused, match="an unknown holder, for it does not say who") as refused:
        take_host_locks(bert, [running(conf)])
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 600
    with writer("bert", STALE) as bert:
        assert take_host_locks(bert, [running(conf)])


@pytest.mark.parametrize("ends", [True, False])
def test_a_connection_of_an_own_command_that_was_killed_is_waited_for(writer: Any, conf: Path, ends: bool) -> None:
    """The program on the other host ends when the network says that its connection has."""
    now = 0.0
    asked: list[bytes | None] = []

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    with writer("anna") as anna:
        text = anna.lock_holder.line()

        class Host(Noting):
            def take_lock(self, path: Path, line: bytes, over: bytes | None = None) -> Any:
                asked.append(over)
                is_held = not ends or now < 3
                return self if over == text and not is_held else FoundLock(text, is_held)

        host: Any = Host("sm2", [])
        opensm, clock = [running(conf, machine=host)], Clock(lambda: now, sleep)
        if ends:
            assert take_host_locks(anna, opensm, clock)
            assert asked[-1] == text
        else:
            with pytest.raises(Refused) as refused:
                take_host_locks(anna, opensm, clock)
            assert refused.value.interlock == HELD
            assert str(refused.value).startswith(f"sm2: {lock_file(conf)}: ")
            assert now >= OWN_SECONDS


def test_a_dry_run_takes_none_and_is_not_refused(writer: Any, conf: Path) -> None:
    with writer("bert") as bert:
        take_host_locks(bert, [running(conf)])
        with writer("anna", dry_run=True) as anna:
            assert not take_host_locks(anna, [running(conf)])
        assert lock_file(conf).read_bytes() == bert.lock_holder.line()


def test_every_host_is_locked_the_masters_first(writer: Any, conf: Path) -> None:
    order: list[str] = []
    standby, master = cast(Any, Noting("sm1", order)), cast(Any, Noting("sm2", order))
    with writer("anna") as anna:
        assert take_host_locks(
            anna, [running(conf, machine=standby, is_master=False), running(conf, machine=master), running(conf)]
        )
        assert order == ["take sm2", "take sm1"]
        assert find_lock(conf) is not None
    assert order == ["take sm2", "take sm1", "release sm1", "release sm2"]
    assert find_lock(conf) is None


def test_a_refusal_on_one_host_releases_the_other(writer: Any, conf: Path, tmp_path: Path) -> None:
    other = tmp_path / "opensm.conf"
    lock_file(other).write_bytes(b"theirs")
    with pytest.raises(Refused), writer("anna") as anna:
        take_host_locks(anna, [running(conf), running(other, is_master=False)])
    assert find_lock(conf) is None


def test_where_the_options_file_has_no_folder_it_is_beside_the_policy(writer: Any, conf: Path) -> None:
    policy = conf.with_name("partitions.conf")
    for options in (None, conf.parent / "no" / "opensm.conf"):
        with writer("anna") as anna:
            assert take_host_locks(anna, [running(options, policy)])
            assert not take_host_locks(anna, [running(options, policy)])
            assert find_lock(policy) is not None
        assert find_lock(policy) is None
    with writer("anna") as anna:
        assert not take_host_locks(anna, [running(None, None)])


@pytest.mark.parametrize("error", [HostNotReached("host sm2: it ended", "sm2"), FileError("no")])
def test_a_lock_that_cannot_be_removed_is_a_warning_and_no_error(writer: Any, conf: Path, error: Exception) -> None:
    """The change is done and verified by then, or what went wrong with it must be seen."""
    host: Any = Noting("sm2", [], error)
    with writer("anna") as anna:
        take_host_locks(anna, [running(conf, machine=host)])
    [warning] = anna.fabric.warnings
    assert warning.startswith(f"sm2: {lock_file(conf)}: the lock of this command could not be removed ({error})")
    bert = writer("bert")
    with pytest.raises(UsageError, match="first"):
        lock_and_fail(bert, [running(conf, machine=host)], UsageError("first"))
    assert len(bert.fabric.warnings) == 1
    assert host.order == ["take sm2", "release sm2"] * 2


def left_by(writer: ChangeWriter, conf: Path, monkeypatch: pytest.MonkeyPatch) -> Journal:
    """Leave the lock of a killed command beside *conf*, whose OpenSM is the only one of all hosts; return its
    journal."""
    with writer:
        lock_file(conf).write_bytes(writer.lock_holder.line())
    report: Any = SimpleNamespace(instances=[running(conf).instance], error="")
    monkeypatch.setattr(host_locks, "report_on_host", lambda *given: report)
    monkeypatch.setattr(host_locks, "reach", lambda enter, hosts: [ReachedHost(hosts[0], THIS)])
    return Journal(writer.fabric.stores.journal)


def test_what_ends_an_operation_without_a_lock_removes_the_one_that_it_left(
    writer: Any, conf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with left_by(writer("anna"), conf, monkeypatch) as journal:
        assert remove_left_locks(journal, "apply", []) == []
        assert find_lock(conf) is None
        assert remove_left_locks(journal, "apply", []) == [], "none is left"


def test_it_stays_while_an_operation_is_open_that_began_under_it(
    writer: Any, conf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with left_by(writer("anna"), conf, monkeypatch) as journal:
        operation = journal.begin_operation("apply", this_process())
        assert remove_left_locks(journal, "apply", []) == []
        assert find_lock(conf) is not None
        journal.set_state(operation, "done")
        assert remove_left_locks(journal, "apply", []) == []
        assert find_lock(conf) is None


def test_one_of_somebody_else_and_one_that_is_held_stay(
    writer: Any, conf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_by(writer("anna"), conf, monkeypatch).close()
    with writer("bert") as bert, Journal(bert.fabric.stores.journal) as journal:
        assert remove_left_locks(journal, "apply", []) == []
        assert find_lock(conf) is not None
    with writer("anna") as anna, Journal(anna.fabric.stores.journal) as journal:
        assert take_host_locks(anna, [running(conf)])
        assert remove_left_locks(journal, "apply", []) == []
        assert find_lock(conf) == FoundLock(anna.lock_holder.line(), True)


def test_where_nobody_can_look_it_is_said(writer: Any, conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(enter: object, hosts: object) -> list[ReachedHost]:
        raise HostNotReached("no answer", "node05")

    with left_by(writer("anna"), conf, monkeypatch) as journal:
        monkeypatch.setattr(host_locks, "reach", fail)
        (problem,) = remove_left_locks(journal, "apply", [])
    assert "the next change through OpenSM with this journal removes it" in problem

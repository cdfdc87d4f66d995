"""A change of sm_key and sa_key fails at some step: all hosts go back, or who does not is named and finished later."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ibkeys.errors import FileChanged, FileError, HostNotReached, HostRefused, Incomplete, Refused, StoreError
from ibkeys.keys.smkey import SMKey
from ibkeys.store.journal import RunningOperation
from tests.smkeys.madeup import POLLING, MadeUpSite
from tests.smkeys.outcomes import DEFAULT_LINES, assert_back, assert_done, state_of

Patch = pytest.MonkeyPatch


def failing_at(step: str, error: Exception) -> Callable[[str], None]:
    """Fail at the first *step*, and at no later one."""
    left = [error]

    def fail(done: str) -> None:
        if done == step and left:
            raise left.pop()

    return fail


STEPS = [
    *("close node05", "stage node05", "stage node06", "stage node01"),
    *("put node05", "put node06", "put node01", "signal node05", "signal node06", "signal node01"),
]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("error", [FileError("no room"), FileChanged("changed"), HostNotReached("cut", "sm1")])
def test_what_fails_leaves_every_host_as_it_was(
    three: MadeUpSite, monkeypatch: Patch, step: str, error: Exception
) -> None:
    three.before_each = failing_at(step, error)
    with pytest.raises((Incomplete, type(error))) as raised:
        three.run(monkeypatch)
    assert_back(three)
    may_be_begun = step == "put node05" and isinstance(error, HostNotReached)
    was_begun = step.split()[0] == "signal" or step in ("put node06", "put node01")
    assert isinstance(raised.value, Incomplete) == (was_begun or may_be_begun)
    with three.journal() as journal:
        assert {each.state for each in journal.list_operations()} <= {"undone"}
        assert all(each.unproven for each in journal.list_operations() if journal.files(each.id))
    three.before_each = lambda step: None
    three.run(monkeypatch)
    assert_done(three)


@pytest.mark.parametrize(("step", "back"), [("stage node06", []), ("signal node01", [("former SM keys", "done")])])
def test_the_way_back_is_a_step_of_its_own_where_a_file_had_new_keys(
    three: MadeUpSite, monkeypatch: Patch, step: str, back: list[tuple[str, str]]
) -> None:
    three.before_each = failing_at(step, FileError("no room"))
    with pytest.raises((Incomplete, FileError)):
        three.run(monkeypatch)
    with three.journal() as journal:
        [operation] = journal.list_operations()
        steps = [(each.name, each.status) for each in journal.steps(operation.id)]
    assert steps == [("new SM keys", "failed"), *back]


def test_where_the_journal_cannot_be_written_it_is_not_said_that_the_former_keys_are_back(
    three: MadeUpSite, monkeypatch: Patch
) -> None:
    """Not even the step back can be noted: nothing is restored, and the keys stay in the key store."""

    def fail(operation: RunningOperation, name: str) -> None:
        if name == "former SM keys":
            raise StoreError("disk full")
        begin_step(operation, name)

    begin_step = RunningOperation.begin_step
    three.before_each = failing_at("signal node01", FileError("no room"))
    with monkeypatch.context() as patch:
        patch.setattr(RunningOperation, "begin_step", fail)
        with pytest.raises(Incomplete, match=r"no room.*could not be restored everywhere: disk full"):
            three.run(monkeypatch)
    assert state_of(three)[:2] == [("sm_key", "pending"), ("sa_key", "pending")]
    three.before_each = lambda step: None
    three.run(monkeypatch)
    assert_done(three)


@pytest.mark.parametrize(("deaf", "name"), [(0, "node01"), (2, "node06")])
def test_an_opensm_that_does_not_read_its_file_lets_all_go_back(
    three: MadeUpSite, monkeypatch: Patch, deaf: int, name: str
) -> None:
    three.hosts[deaf].is_deaf = True
    with pytest.raises(Incomplete, match=f"{name}.*every file has its former keys again; .*none before"):
        three.run(monkeypatch)
    three.hosts[deaf].is_deaf = False
    assert_back(three)
    assert all(conf.endswith(DEFAULT_LINES) for conf in three.confs())


def test_a_file_with_lines_for_both_keys_gets_its_former_bytes(three: MadeUpSite, monkeypatch: Patch) -> None:
    for host in three.hosts:
        host.conf.write_bytes(b"sa_key 0x7\n" + host.conf.read_bytes() + b"sm_key 0x1 # ours\n")
        host.read()
    former = three.confs()
    three.before_each = failing_at("signal node01", FileError("no room"))
    with pytest.raises(Incomplete, match=r"every file has its former keys again$"):
        three.run(monkeypatch)
    assert three.confs() == former
    assert {(host.node.sm.sm_key, host.sa_key) for host in three.hosts if host.node.sm} == {(1, 7)}


def test_an_sa_that_still_takes_the_former_key_lets_all_go_back(three: MadeUpSite, monkeypatch: Patch) -> None:
    sa_of = three.net.managers.sa_of

    def keep(step: str) -> None:
        if step == "signal node01":
            monkeypatch.setattr(three.net.managers.sa_at.__self__, "sa_of", lambda node: type("Sa", (), {})())

    three.before_each = keep
    with pytest.raises(Incomplete, match=r"the SA does not answer to the new sa_key.*former keys again"):
        three.run(monkeypatch)
    assert sa_of(three.hosts[0].node).sa_key == 1


def test_too_slow_for_the_polling_time_goes_back_within_it(three: MadeUpSite, monkeypatch: Patch) -> None:
    def slow(step: str) -> None:
        if step.startswith("put") and three.time < 22:
            three.time += POLLING / 4 + 1

    three.before_each = slow
    with pytest.raises(Incomplete, match=r"took 22.0 s, and a standby takes over after 40 s.*former keys again"):
        three.run(monkeypatch)
    assert_back(three)


def test_a_host_that_is_cut_off_in_the_middle_is_named_and_finished_later(
    three: MadeUpSite, monkeypatch: Patch
) -> None:
    def cut(step: str) -> None:
        if step == "was put node06":
            three.hosts[2].is_cut = True
            raise HostNotReached("host sm2: the connection is closed", "sm2")

    three.before_each = cut
    with pytest.raises(Incomplete, match=r"could not be restored everywhere: host sm2.*`ibkeys resume 1` finishes it"):
        three.run(monkeypatch)
    assert [host.keys["sm_key"] == SMKey(1) for host in three.hosts] == [True, True, False]
    assert state_of(three)[:2] == [("sm_key", "pending"), ("sa_key", "pending")]
    three.hosts[2].read()  # as at the next sweep
    three.sleep(POLLING + 1)
    assert three.masters == 2
    three.hosts[2].is_cut, three.before_each = False, lambda step: None
    change = three.run(monkeypatch)
    assert change.goes_on
    assert_done(three)


def edited_before_a_signal(site: MadeUpSite, data: bytes) -> Callable[[str], None]:
    """Return what writes *data* to the second options file when the third OpenSM would be signalled, which fails."""

    def edit(step: str) -> None:
        if step == "signal node06":
            site.hosts[1].conf.write_bytes(data)
            raise HostRefused("it runs no more", "sm2")

    return edit


def test_somebody_elses_edit_in_the_middle_stays(three: MadeUpSite, monkeypatch: Patch) -> None:
    theirs = b"sm_priority 3\n"

    three.before_each = edited_before_a_signal(three, theirs)
    with pytest.raises(Incomplete, match="another user or program changed it in the meantime; it is left unchanged"):
        three.run(monkeypatch)
    assert three.confs()[1] == theirs
    three.before_each = lambda step: None
    three.run(monkeypatch)
    assert_done(three)
    assert three.confs()[1].startswith(theirs)


def test_where_somebody_else_set_keys_in_the_middle_the_command_that_ends_it_is_named(
    three: MadeUpSite, monkeypatch: Patch
) -> None:
    theirs = b"sm_priority 3\nsm_key 0x5d1c93b7a2e4f608\n"

    three.before_each = edited_before_a_signal(three, theirs)
    with pytest.raises(
        Incomplete, match="another user or program changed it in the meantime; it is left unchanged"
    ) as failed:
        three.run(monkeypatch)
    assert (
        f"another user or program has set keys in {three.hosts[1].conf} on sm1: `ibkeys resume 1 --overtaken`"
        in str(failed.value)
    )
    assert "finishes it" not in str(failed.value)
    three.before_each = lambda step: None
    with pytest.raises(Refused) as refused:
        three.run(monkeypatch)
    assert refused.value.interlock == "overtaken"
    assert three.confs()[1] == theirs

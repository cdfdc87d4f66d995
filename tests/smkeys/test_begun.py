"""A change of sm_key and sa_key that was begun: no other begins before it ends, and it goes back where no file has its
keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import FileError, HostNotReached, Incomplete, Refused, StoreError, UsageError
from ibkeys.keys.smkey import SMKey
from ibkeys.managers.site import KEPT_HOSTS, hosts_in
from ibkeys.smkeys.giving_up import refuse_ended
from ibkeys.smkeys.key_holders import SmKeyKind
from ibkeys.smkeys.recorded_changes import Changes, refuse_while_open, require_open
from ibkeys.store.journal import Journal
from tests.smkeys.madeup import CONF, Killed, MadeUpSite
from tests.smkeys.outcomes import assert_back, assert_done, kill_at, take_back, writer_of

Patch = pytest.MonkeyPatch


def told(three: MadeUpSite, ask: Callable[[ChangeWriter], None]) -> str:
    """Return with what *ask* is refused, "" where it is not."""
    with writer_of(three) as writer:
        try:
            ask(writer)
        except (Refused, StoreError, UsageError) as error:
            return str(error)
    return ""


def refuse_another(writer: ChangeWriter) -> None:
    refuse_while_open(writer, ())


def test_no_other_begins_before_it_ends(three: MadeUpSite, monkeypatch: Patch) -> None:
    assert told(three, refuse_another) == ""
    kill_at(three, monkeypatch, "signal node05")
    assert told(three, refuse_another) == (
        "operation 1 (smkey-rotate) is not finished, and no other change of sm_key and sa_key can begin before that: "
        "`ibkeys resume 1` finishes it; nothing was changed"
    )
    assert told(three, lambda writer: require_open(writer, 1)) == ""
    three.run(monkeypatch)
    assert_done(three)
    assert told(three, refuse_another) == ""
    assert "has ended" in told(three, lambda writer: require_open(writer, 1))


def test_it_keeps_its_hosts(three: MadeUpSite, monkeypatch: Patch) -> None:
    kill_at(three, monkeypatch, "signal node05")
    with three.journal() as journal:
        kept = journal.options_of(1)
        assert journal.find(1).stage is None
    assert KEPT_HOSTS in kept
    assert [host.name for host in hosts_in(kept)] == ["sm1", "sm2"]


def test_a_failure_that_left_files_with_both_keys_leaves_it_open(three: MadeUpSite, monkeypatch: Patch) -> None:
    def cut(step: str) -> None:
        if step == "was put node06":
            three.hosts[2].is_cut = True
            raise HostNotReached("host sm2: the connection is closed", "sm2")

    three.before_each = cut
    with pytest.raises(Incomplete, match="`ibkeys resume 1` finishes it"):
        three.run(monkeypatch)
    with three.journal() as journal:
        assert journal.find(1).state == "open"


def test_without_its_journal_the_next_change_finishes_it(three: MadeUpSite, monkeypatch: Patch) -> None:
    kill_at(three, monkeypatch, "put node06")
    (three.folder / "journal.db").unlink()
    assert told(three, refuse_another) == ""
    assert three.run(monkeypatch).goes_on
    assert_done(three)


@pytest.mark.parametrize("step", ["signal node05", "stage node05"])
@pytest.mark.parametrize("others", [3, 1])  # with one, the others have the keys of the change, or none
def test_without_its_journal_nothing_hinders_new_keys_where_somebody_else_has_set_some_since(
    three: MadeUpSite, monkeypatch: Patch, step: str, others: int
) -> None:
    kill_at(three, monkeypatch, step)
    keys = {row.sm_key for row in three.stored() if row.state == "pending"}
    (three.folder / "journal.db").unlink()
    for host in three.hosts[:others]:
        host.conf.write_text(CONF.format(9) + "sm_key 0x5d1c93b7a2e4f608\nsa_key 0x17c4e5906f2bd38a\n")
        host.read()
    assert not three.run(monkeypatch).goes_on
    assert_done(three, strays=keys if step == "stage node05" or others == 3 else ())


def test_without_its_key_store_only_new_keys_lead_on(three: MadeUpSite, monkeypatch: Patch) -> None:
    kill_at(three, monkeypatch, "signal node05")
    (three.folder / "keys.db").unlink()
    assert told(three, refuse_another) == ""
    assert "`ibkeys smkey-rotate --via opensm` sets new keys" in told(three, lambda writer: require_open(writer, 1))
    three.run(monkeypatch)
    assert_done(three)


def test_killed_before_its_keys_are_current_the_next_change_finishes_it(three: MadeUpSite, monkeypatch: Patch) -> None:
    def die(keys: object, ref: int) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("ibkeys.smkeys.run.SmKeys.promote", die)
        with pytest.raises(Killed):
            three.run(monkeypatch)
    with three.journal() as journal:
        assert (Changes.on_subnet(journal).unfinished, journal.find(1).state) == (None, "done")
    assert told(three, refuse_another) == ""
    keys = {row.sm_key for row in three.stored()}
    assert three.run(monkeypatch).goes_on
    assert_done(three)
    assert {row.sm_key for row in three.stored()} == keys


GIVEN: Mapping[SmKeyKind, SMKey] = {"sm_key": SMKey(0x83F1C05E9A2D7B46), "sa_key": SMKey(0x5E9A2D7B4683F1C0)}


def assert_others_may_be_given(three: MadeUpSite, monkeypatch: Patch) -> None:
    """Keys that were given up are none of a change that goes on, whatever came in between."""
    assert not any(row.state == "pending" for row in three.stored())
    assert "`ibkeys smkey-rotate --via opensm` sets new keys" in told(three, lambda writer: require_open(writer, 1))
    assert not three.run(monkeypatch, GIVEN).goes_on
    assert_done(three)
    assert {row.sm_key for row in three.stored() if row.state == "current"} == {*GIVEN.values()}
    with three.journal() as journal:
        assert [each.state for each in journal.list_operations()] == ["undone", "done"]


def test_killed_while_it_goes_back_by_itself_its_keys_are_not_set_later(three: MadeUpSite, monkeypatch: Patch) -> None:
    def fail(step: str) -> None:
        if step == "signal node05":
            three.before_each = lambda step: None
            raise FileError("no room")

    three.before_each = fail
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "set_state", killed)
        with pytest.raises(Killed):
            three.run(monkeypatch)
    assert_others_may_be_given(three, monkeypatch)


def test_killed_while_it_is_taken_back_its_keys_are_not_set_later(three: MadeUpSite, monkeypatch: Patch) -> None:
    kill_at(three, monkeypatch, "put node05")
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "set_state", killed)
        with pytest.raises(Killed):
            take_back(three, monkeypatch)
    assert_others_may_be_given(three, monkeypatch)


def killed(*given: object) -> None:
    raise Killed


def test_only_the_last_one_goes_on(three: MadeUpSite, monkeypatch: Patch) -> None:
    kill_at(three, monkeypatch, "signal node05")
    three.run(monkeypatch)
    kill_at(three, monkeypatch, "signal node05")
    with three.journal() as journal:
        journal.set_state(1, "open")
    assert "`ibkeys resume 1 --overtaken` ends the record" in told(three, lambda writer: require_open(writer, 1))
    assert told(three, lambda writer: require_open(writer, 2)) == ""


# --- taking it back ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["close node05", "stage node05", "stage node06", "put node05"])
def test_where_no_file_has_its_keys_it_goes_back(three: MadeUpSite, monkeypatch: Patch, step: str) -> None:
    kill_at(three, monkeypatch, step)
    steps = len(three.steps)
    take_back(three, monkeypatch)
    assert not any(each.split()[0] in ("put", "replace", "signal") for each in three.steps[steps:])
    assert_back(three)
    with three.journal() as journal:
        assert [each.state for each in journal.list_operations()] == ["undone"]
    assert not three.run(monkeypatch).goes_on
    assert_done(three)


@pytest.mark.parametrize(
    ("step", "why"), [("put node06", r"the new keys are in .*sm1, and the former ones in "), ("signal node05", "in ")]
)
def test_where_a_file_has_its_keys_it_can_only_be_finished(
    three: MadeUpSite, monkeypatch: Patch, step: str, why: str
) -> None:
    kill_at(three, monkeypatch, step)
    before = three.confs()
    with pytest.raises(Refused, match=rf"does not go back, because .*{why}.*by `ibkeys resume 1`") as refused:
        take_back(three, monkeypatch)
    assert (refused.value.interlock, three.confs()) == ("open-run", before)
    three.run(monkeypatch)
    assert_done(three)


def test_where_files_had_its_keys_and_an_opensm_may_still_have_them_it_can_only_be_finished(
    three: MadeUpSite, monkeypatch: Patch
) -> None:
    def cut(step: str) -> None:
        if step == "signal node01":
            raise HostNotReached("no", "")

    three.before_each = cut
    with pytest.raises(Incomplete, match="former keys again, but not every OpenSM could be signalled: no"):
        three.run(monkeypatch)
    three.before_each = lambda step: None
    assert {host.keys["sm_key"].hex() for host in three.hosts} == {"0x0000000000000001"}
    with pytest.raises(Refused, match="an OpenSM may still work with the new ones"):
        take_back(three, monkeypatch)
    three.run(monkeypatch)
    assert_done(three)


def test_one_that_has_ended_does_not_go_back(three: MadeUpSite, monkeypatch: Patch) -> None:
    three.run(monkeypatch)
    with three.journal() as journal:
        with pytest.raises(UsageError, match=r"former SM keys are not restored: `ibkeys smkey-rotate --via opensm`"):
            refuse_ended(journal.find(1))
        journal.set_state(1, "undone")
        with pytest.raises(StoreError, match="taken back, or its record was ended"):
            refuse_ended(journal.find(1))

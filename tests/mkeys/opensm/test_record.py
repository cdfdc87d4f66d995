"""What the key store remembers of a run through OpenSM, written again at each step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.mkeys.opensm.course import RunKeys, plan_steps
from ibkeys.mkeys.opensm.record import RunRecord
from ibkeys.mkeys.opensm.standbys import Standby
from ibkeys.store.keystore.keystore import KeyStore

A, B = KeySetting(MKey(0xA94F13D02E7C5B68), 2, 60), KeySetting(MKey(0x1D5E83B7469C20FA), 2, 60)
OPEN = KeySetting(NO_MKEY, 0, 0)


def record(former: KeySetting, wanted: KeySetting) -> RunRecord:
    return RunRecord(RunKeys(former, wanted), plan_steps(former, wanted), [])


def test_it_is_read_as_it_was_written_however_often_that_was() -> None:
    with KeyStore(None) as store:
        run = record(A, B)
        for at in range(len(run.steps)):
            run.at = at
            kept = run.to_json(store)
            assert RunRecord.of_json(kept, store) == run
        assert store.subnet_keys() == [B.key, A.key]
        assert len(store.subnet_key_outline()) == 2


def test_the_key_that_a_run_gives_is_the_newest_of_the_subnet_also_on_the_way_back() -> None:
    """A port of which nothing is known is asked with the newest."""
    with KeyStore(None) as store:
        record(A, B).to_json(store)
        record(B, A).to_json(store)
        assert store.subnet_keys()[0] == A.key
        record(A, OPEN).to_json(store)
        assert store.subnet_keys()[0] == A.key


def standby(guid: int, host: str = "") -> Standby:
    return Standby(host, guid, "", "opensm", Path("/etc/opensm/opensm.conf"), Path(f"/var/cache/{guid}"), 0)


def test_whoever_was_there_and_is_not_counts_as_stopped_also_a_former_master() -> None:
    run = record(A, B)
    assert run.update_standbys([standby(2), standby(1)], {"", "sm2"}) == []
    assert run.stopped == []
    run.stopped.append(standby(2))
    assert run.update_standbys([standby(2)], {""}) == []  # the one that was stopped is master now
    assert run.stopped == [standby(1)]
    assert run.update_standbys([standby(1), standby(2)], {""}) == []
    assert run.stopped == []


def test_who_was_on_a_host_that_is_not_reached_any_more_is_left_out() -> None:
    run = record(A, B)
    run.update_standbys([standby(3), standby(2, "sm2"), standby(1)], {"", "sm2"})
    assert run.update_standbys([standby(1)], {""}) == [standby(2, "sm2")]
    assert run.stopped == [standby(3)]
    assert run.update_standbys([standby(1)], {"", "sm2"}) == []  # it is not asked for once more
    with KeyStore(None) as store:
        assert RunRecord.of_json(run.to_json(store), store) == run


def test_one_whose_adapter_was_swapped_is_not_taken_for_one_that_is_stopped() -> None:
    """It would be ended as an OpenSM with the key files of that one, and the fabric be without a master."""
    run = record(A, B)
    run.update_standbys([standby(1)], {""})
    now = replace(standby(2), cache=standby(1).cache)
    assert run.update_standbys([now], {""}) == []
    assert run.stopped == []
    assert run.members == [now]

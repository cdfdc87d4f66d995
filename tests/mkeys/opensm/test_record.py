"""What the key store remembers of a run through OpenSM, written again at each step."""

from __future__ import annotations

from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.mkeys.opensm.course import Keys, course
from ibkeys.mkeys.opensm.record import RunRecord
from ibkeys.store.keys.keystore import KeyStore

A, B = KeySetting(MKey(0xA94F13D02E7C5B68), 2, 60), KeySetting(MKey(0x1D5E83B7469C20FA), 2, 60)
OPEN = KeySetting(NO_MKEY, 0, 0)


def record(former: KeySetting, wanted: KeySetting) -> RunRecord:
    return RunRecord(Keys(former, wanted), course(former, wanted), [])


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

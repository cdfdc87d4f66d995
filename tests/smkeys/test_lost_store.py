"""The key store or the journal is lost after a change of sm_key and sa_key: the next change works."""

from __future__ import annotations

import pytest

from ibkeys.store.journal import Journal
from tests.smkeys.madeup import POLLING, MadeUpSite
from tests.smkeys.outcomes import assert_done, kill_at


@pytest.mark.parametrize("lost", [["keys.db"], ["journal.db"], ["keys.db", "journal.db"]])
def test_the_next_change_works(three: MadeUpSite, monkeypatch: pytest.MonkeyPatch, lost: list[str]) -> None:
    """Entries of the journal named rows of the lost key store, so each command stopped: "no SM_Key 1"."""
    three.run(monkeypatch)
    for name in lost:
        (three.folder / name).unlink()
    before = three.confs()
    three.run(monkeypatch)
    assert_done(three)
    assert all(one != other for one, other in zip(before, three.confs(), strict=True))


def test_a_change_that_was_cut_off_ends_with_the_next_one(three: MadeUpSite, monkeypatch: pytest.MonkeyPatch) -> None:
    kill_at(three, monkeypatch, "signal node05")
    (three.folder / "keys.db").unlink()
    three.before_each = lambda step: None
    three.sleep(POLLING + 1)
    three.run(monkeypatch)
    assert_done(three)
    with Journal(three.folder / "journal.db") as journal:
        assert [record.state for record in journal.list_operations()] == ["undone", "done"]

"""The key store or the journal is lost after a change of sm_key and sa_key: the next change works."""

from __future__ import annotations

import pytest

from tests.smkeys.madeup import MadeUpSite
from tests.smkeys.outcomes import assert_done


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

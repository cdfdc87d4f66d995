"""Waiting for a confirmation: what the journal says at every moment decides whether a change stays."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ibkeys.apply.apply_plan import FinishedApply
from ibkeys.apply.confirm import confirm_or_go_back
from ibkeys.store.journal import Image, Journal


class Died(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("method", ["set_state", "set_stage"])
def test_a_crash_on_the_way_to_waiting_never_looks_like_a_confirmed_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    path = tmp_path / "journal.db"
    with Journal(path) as journal:
        operation = journal.begin("apply", "{}", "{}")
        operation.record_all([Image(1, 2, "n", "ca", 1, 1, "P_KeyTable", 0, bytes(64), b"\xff" * 64)])
        assert operation.id is not None
        operation.outcome = "done"
        real = getattr(Journal, method)

        def dies_afterwards(self: Journal, *arguments: Any) -> None:
            real(self, *arguments)
            raise Died

        monkeypatch.setattr(Journal, method, dies_afterwards)
        run = cast(FinishedApply, SimpleNamespace(operation=operation, error=None))
        with pytest.raises(Died):
            confirm_or_go_back(run, 60, lambda: 0.0, lambda _: False, lambda _: None)
        monkeypatch.undo()
    with Journal(path) as journal:
        record = journal.find(operation.id)
        assert record.awaits_confirmation or record.state == "open"

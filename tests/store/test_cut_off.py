"""Operations that were cut off, closed by a later one that brought them to their end."""

from __future__ import annotations

from ibkeys.store.cut_off_operations import close_cut_off
from ibkeys.store.journal import Journal
from ibkeys.store.origin import this_process

RUN = ("mkey-deploy", "mkey-rotate")


def states(journal: Journal) -> dict[int, str]:
    return {record.id: record.state for record in journal.list_operations()}


def test_only_those_of_the_commands_since_then_that_are_open_or_failed() -> None:
    with Journal(None) as journal:
        ids = [journal.begin(name, "{}", "{}", this_process()).id for name in (*RUN, "apply", *RUN)]
        for number, state in zip(ids, ("open", "failed", "open", "undone", "open"), strict=True):
            assert number is not None
            journal.set_state(number, state)  # type: ignore[arg-type]
        close_cut_off(journal, RUN, "done", since="9999")
        assert [*states(journal).values()] == ["open", "failed", "open", "undone", "open"]
        close_cut_off(journal, RUN, "done", since=journal.list_operations()[0].started, but=ids[-1])
        assert [*states(journal).values()] == ["done", "done", "open", "undone", "open"]

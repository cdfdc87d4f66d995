"""Ending the record of a run whose values another program or administrator has changed. No port, file or OpenSM
is changed."""

from __future__ import annotations

from ibkeys.change.writer import ChangeWriter
from ibkeys.mkeys.rollout.earlier_run import last_run
from ibkeys.store.cut_off_operations import close_cut_off
from ibkeys.store.journal import KEY_COMMANDS, Journal


def close_overtaken(writer: ChangeWriter) -> str:
    """Note in the journal that the last run has ended, and return its name. Its keys stay in the key store. Raises
    UsageError if there is no run, StoreError."""
    last, _ = last_run(writer)
    with Journal(writer.fabric.stores.journal) as journal, journal.in_one_transaction():
        journal.leave_stage(last.id, last.operation.stage, "confirmed")  # it needs no confirmation any more
        journal.end_undos(last.id)
        if last.is_left_over:
            journal.set_state(last.id, "undone")
        close_cut_off(journal, KEY_COMMANDS, "undone", last.started)
    return last.name

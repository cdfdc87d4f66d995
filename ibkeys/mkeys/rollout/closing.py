"""Ending the record of a run that somebody else has overtaken: no port, file or OpenSM is touched."""

from __future__ import annotations

from ibkeys.change.writer import Writer
from ibkeys.mkeys.rollout.earlier_run import last_run, name_of
from ibkeys.mkeys.rollout.run_operation import find_operation, is_half_undone
from ibkeys.store.cut_off import close_cut_off
from ibkeys.store.journal import KEY_COMMANDS, Journal
from ibkeys.store.keys.runs import Runs


def close_overtaken(writer: Writer) -> str:
    """Note that the last run has ended, and return its name. Its keys stay in the key store. Raises StoreError."""
    store = writer.keystore
    last, _ = last_run(writer, store)
    runs = Runs(store)
    runs.finish(last.id, "ended")
    with Journal(writer.fabric.stores.journal) as journal:
        operation = find_operation(journal, last)
        if operation is not None:
            journal.set_stage(operation.id, "confirmed")  # nobody has to confirm it any more
            journal.end_undos(operation.id)
            if operation.state in ("open", "failed") or is_half_undone(operation):
                journal.set_state(operation.id, "undone")
        close_cut_off(journal, KEY_COMMANDS, "undone", last.started)
    return name_of(last)

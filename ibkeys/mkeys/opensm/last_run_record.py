"""The record of the last run through OpenSM."""

from __future__ import annotations

from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import UsageError
from ibkeys.keys.mkey import MKey
from ibkeys.managers.hosts import SmHost
from ibkeys.managers.site import hosts_in
from ibkeys.mkeys.opensm.record import RunRecord
from ibkeys.mkeys.rollout.earlier_run import has_keys_of, last_run, last_run_with_keys
from ibkeys.store.journal import Journal
from ibkeys.store.journal.runs import Runs


def key_of_last_run(writer: ChangeWriter) -> MKey | None:
    """Return the key that the last run on this subnet sets on all ports through OpenSM. Return None if there is no run,
    if the last one does not go through OpenSM, or if its keys were lost with an earlier key store. Raises
    StoreError."""
    store = writer.keystore
    with Journal.read(writer.fabric.stores.journal) as journal:
        runs = Runs(journal)
        last = runs.last({writer.fabric.own_guid})
        if last is None or last.via is None or not has_keys_of(store, last, runs.ports(last.id)):
            return None
        return RunRecord.of_json(last.via, store).keys.wanted.key


def hosts_of_last_run(writer: ChangeWriter) -> list[SmHost]:
    """Return the other hosts of the last run if it goes through OpenSM, else an empty list. Raises the errors of
    `last_run`."""
    last, _ = last_run(writer)
    return [] if last.via is None else hosts_in(last.via)


def record_of_last_run(writer: ChangeWriter) -> RunRecord:
    """Return the record of the last run. Raises UsageError if there is no run, or if ibkeys sent the Sets of the last
    one itself; KeyGone if the key store does not have its keys; StoreError."""
    store = writer.keystore
    last, _ = last_run_with_keys(writer, store)
    if last.via is None:
        raise UsageError(f"{last.name} does not go through OpenSM: ibkeys finishes it by Sets of its own")
    return RunRecord.of_json(last.via, store)

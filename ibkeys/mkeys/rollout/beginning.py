"""Beginning a run: a new one, or the last one again, which is resumed or rolled back.

What the ports have, and the one new key where all get the same, is in the key store before the run is in the journal.
Keys for single ports follow before each Set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ibkeys.change.writer import Writer
from ibkeys.mkeys.rollout.planned_run import PlannedRun
from ibkeys.mkeys.rollout.port_job import Job, keep_keys
from ibkeys.mkeys.stored_links import remember_topology
from ibkeys.store.journal import Journal, Operation
from ibkeys.store.journal.runs import NewRunPort, PortKeys, Run, Runs
from ibkeys.store.keys.keystore import KeyStore
from ibkeys.store.origin import Origin


@dataclass(frozen=True, slots=True)
class NewRun:
    """A new run. ``jobs``: all its ports, those whose turn is later included."""

    command: str
    jobs: Sequence[Job]

    def operation(self, journal: Journal, origin: Origin, goes_back: bool) -> Operation:
        """Return a new operation."""
        return journal.operation(self.command, origin)

    def begin(self, writer: Writer, run: PlannedRun, operation: Operation) -> int:
        """Put into the key store the keys that the ports have, the links and LIDs of the sweep, and the new key if all
        ports get the same; then put the run into the journal, and end the record of earlier runs. Return the number of
        its operation."""
        store = writer.keystore
        remember_topology(writer.fabric, store, run.found)
        with store.in_one_transaction():
            via = run.method.begin(store) if run.method is not None else None
            keys = [PortKeys(job.sequence, None, _name(store, job), job.old) for job in self.jobs]
            shared = keep_keys(store, self.jobs[0]) if run.options.same and self.jobs else None
        journal, runs = operation.journal, Runs(operation.journal)
        ports = [NewRunPort(job.port.node.guid, job.port.port_guid, job.port.num) for job in self.jobs]
        with journal.in_one_transaction():
            number = operation.put_on_disk()
            runs.begin(number, run.options, [*ports, *run.away], via)
            runs.note_keys(number, keys if shared is None else [*keys, shared])
            _end_earlier(journal, number)
        return number


def _name(store: KeyStore, job: Job) -> str | None:
    """Return the name of the key that a port has; the key store gets it where it does not know it. None for key 0."""
    port, key = job.port, job.old.key
    if key.is_zero:
        return None
    ref = store.put_imported(port.port_guid, key, node_guid=port.node.guid, port=port.num, note="found by a run")
    return store.name_of(ref)


def _end_earlier(journal: Journal, newest: int) -> None:
    """End the record of every run but that of operation *newest*: only the newest one goes on or back. Raises
    StoreError.

    One that had failures is done. One that is still open can be here only because its keys are gone: it is ``undone``,
    the state of a record that was ended.
    """
    for each in journal.list_operations():
        if not each.is_of_keys or each.undoes is not None or each.id == newest:
            continue
        if each.is_half_undone:
            journal.end_undos(each.id)
            journal.set_state(each.id, "undone")
        elif each.state in ("open", "failed"):
            journal.set_state(each.id, "done" if each.state == "failed" else "undone")


@dataclass(frozen=True, slots=True)
class LastRun:
    """The last run, taken up again. ``unused``: rows of new keys that no port has got, and none
    will."""

    last: Run
    unused: Sequence[int] = ()

    def operation(self, journal: Journal, origin: Origin, goes_back: bool) -> Operation:
        """Return its operation, open again, or with *goes_back* the undo of it. Nobody has to confirm it any more."""
        if not goes_back:
            return journal.reopen(self.last.id, origin, "confirmed")
        with journal.in_one_transaction():
            undo = journal.undo_of(self.last.id, origin)
            journal.set_stage(self.last.id, "confirmed")
        return undo

    def begin(self, writer: Writer, run: PlannedRun, operation: Operation) -> int:
        """Note with which bounds it goes on, and the links and LIDs of the sweep; of a rollback, give up new keys that
        were never sent."""
        store = writer.keystore
        remember_topology(writer.fabric, store, run.found)
        with store.in_one_transaction():
            for ref in self.unused:
                if store.get(ref).state == "pending":
                    store.abandon(ref, "the run was rolled back before its Set")
        Runs(operation.journal).set_bounds(self.last.id, run.options)
        return self.last.id

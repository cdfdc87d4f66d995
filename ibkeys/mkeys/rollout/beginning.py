"""Starting a run in the key store: a new one, or an earlier one that is resumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ibkeys.change.writer import Writer
from ibkeys.mkeys.rollout.planned_run import PlannedRun
from ibkeys.mkeys.rollout.port_job import Job, keep_keys
from ibkeys.mkeys.rollout.run_operation import end_earlier, note_operation, operation_again
from ibkeys.mkeys.stored_links import remember_topology
from ibkeys.store.journal import Journal, Operation
from ibkeys.store.keys.keystore import KeyStore
from ibkeys.store.keys.runs import NewRunPort, Run, Runs
from ibkeys.store.origin import Origin


@dataclass(frozen=True, slots=True)
class NewRun:
    """A new run. ``jobs``: all its ports, those whose turn is later included."""

    command: str
    jobs: Sequence[Job]

    def operation(self, journal: Journal, origin: Origin, goes_back: bool) -> Operation | None:
        """Return None: a new run is a new operation."""
        return None

    def begin(self, writer: Writer, run: PlannedRun, operation: Operation) -> int:
        """Store the run, its ports, and what the sweep saw of links and LIDs; with one key for all, that key too. Then
        put its operation on disk."""
        store = writer.keystore
        ports = [NewRunPort(job.port.node.guid, job.port.port_guid, job.port.num) for job in self.jobs]
        remember_topology(writer.fabric, store, run.found)
        with store.in_one_transaction():
            runs = Runs(store)
            via = run.method.begin(store) if run.method is not None else None
            number = runs.begin(self.command, run.options, [*ports, *run.away], via)
            runs.note_found(
                number, [(job.sequence, _row(store, job), job.old.protect, job.old.lease) for job in self.jobs]
            )
            if run.options.same and self.jobs:
                keep_keys(store, runs, number, self.jobs[0])
        if run.acts:
            note_operation(store, number, operation)
            end_earlier(operation.journal, operation.id)
        return number


def _row(store: KeyStore, job: Job) -> int | None:
    """Return the row of the key that a port has; it gets one where the key store does not know the key."""
    port, key = job.port, job.old.key
    if key.is_zero:
        return None
    return store.put_imported(port.port_guid, key, node_guid=port.node.guid, port=port.num, note="found by a run")


@dataclass(frozen=True, slots=True)
class LastRun:
    """The last run, taken up again. ``unused``: rows of keys that no port was sent, and none will be."""

    last: Run
    unused: Sequence[int] = ()

    def operation(self, journal: Journal, origin: Origin, goes_back: bool) -> Operation | None:
        """Return its operation, open again, or the undo of it; None where *journal* does not have it."""
        return operation_again(journal, self.last, origin, goes_back)

    def begin(self, writer: Writer, run: PlannedRun, operation: Operation) -> int:
        """Note that it is open again, and what the sweep saw of links and LIDs."""
        store = writer.keystore
        remember_topology(writer.fabric, store, run.found)
        with store.in_one_transaction():
            Runs(store).reopen(self.last.id, run.options)
            for ref in self.unused:
                if store.get(ref).state == "pending":
                    store.abandon(ref, "the run was rolled back before its Set")
        if run.acts or run.goes_back:
            note_operation(store, self.last.id, operation)  # another one where the journal was lost
        return self.last.id

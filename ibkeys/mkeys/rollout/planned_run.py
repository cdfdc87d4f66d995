"""A planned run, and how it begins: as a new run, or as the last run, which is resumed or rolled back.

The present keys of the ports, and the new key if all ports get the same, are put into the key store before the run is
put into the journal. If each port gets its own key, that key is stored right before its Set.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ibkeys.change.choosing import KEPT_CHOICE
from ibkeys.change.interrupts import Interrupts
from ibkeys.change.method import MethodChoice, MethodName
from ibkeys.change.next_commands import next_commands_of
from ibkeys.change.plan import Plan
from ibkeys.change.writer import ChangeWriter
from ibkeys.mkeys.rollout.port_job import PortJob, keep_keys
from ibkeys.mkeys.rollout.result import PortResult, ReportPort, RunOutcome
from ibkeys.mkeys.stored_links import remember_topology
from ibkeys.store.journal import Journal, RunningOperation
from ibkeys.store.journal.runs import DIRECT, MKeyRun, NewRunPort, PortKeys, RunOptions, Runs
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.origin import Origin
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port


class RunMethod(Protocol):
    """A method of setting keys on the ports: by Sets of ibkeys (`ibkeys.mkeys.rollout.rollout`), or through OpenSM
    (`ibkeys.mkeys.opensm`)."""

    @property
    def sends_sets(self) -> bool:
        """Whether ibkeys sends the Sets, port by port."""
        ...

    @property
    def acts(self) -> bool:
        """Whether the run writes a file or signals an OpenSM, even if all ports are as wanted."""
        ...

    def in_words(self) -> list[str]:
        """Return, in words, each OpenSM that the run uses, one per line."""
        ...

    def steps_in_words(self) -> list[str]:
        """Return, in words, the steps that are not made yet, without a key."""
        ...

    def begin(self, store: KeyStore) -> Mapping[str, Any] | None:
        """Return the data of a new run for the journal, from which the run can be resumed, as JSON values without any
        key; None if there are none. The keys get rows of their own in *store*.
        """
        ...

    def carry_out(self, start: RunStart) -> None:
        """Carry out the run. The results of the ports are counted in ``start.run.account``."""
        ...


@dataclass(slots=True)
class PlannedRun:
    """A planned run of M_Keys. ``plan``: its changes, notes and interlocks.

    ``options``: the options of the run; ``found``: the fabric as the sweep read it; ``beginning``: how the run begins.
    ``stages``: the jobs in the order of change; a stage begins when the one before is finished. ``already_set``: jobs
    of ports that have their wanted setting, which only has to be stored. ``skipped``: ports that are skipped, with the
    reason. ``absent``: absent ports with a key, which get their new key when the run is resumed. ``later``: number of
    ports that follow the first ones (``--first``) when the run is resumed. ``procedure``: under a subnet manager, the
    steps to take instead of this run, in words. ``goes_back``: whether the last run is rolled back. ``is_open``:
    whether the stores do not have the end of the run yet. ``account``: the results of the ports, during the run and
    afterwards. ``method``: how the ports are changed; by Sets of ibkeys also if none is changed. ``method_name``:
    the name of the method, as the user types it, also where no port is changed. ``choice``: the choice by which ibkeys
    took this method for a new run.

    ``overtaken``: ports of an earlier run whose M_Key, level or lease another program or administrator has changed
    since; they are in ``skipped`` too. ``without_key``: ports of an ended run that is rolled back, which no longer have
    the key that the run gave them.
    """

    plan: Plan
    options: RunOptions
    found: Topology
    stages: list[list[PortJob]] = field(default_factory=list)
    already_set: list[PortJob] = field(default_factory=list)
    skipped: list[PortResult] = field(default_factory=list)
    later: int = 0
    procedure: list[str] = field(default_factory=list)
    goes_back: bool = False
    is_open: bool = False
    account: RunOutcome = field(default_factory=RunOutcome)
    absent: list[NewRunPort] = field(default_factory=list)
    method_name: MethodName = DIRECT
    overtaken: list[Port] = field(default_factory=list)
    without_key: list[Port] = field(default_factory=list)
    choice: MethodChoice | None = None
    method: RunMethod = field(kw_only=True)
    beginning: NewRun | LastRun = field(kw_only=True)

    @property
    def last(self) -> MKeyRun | None:
        """The run that is resumed or rolled back; None for a new run."""
        return self.beginning.last if isinstance(self.beginning, LastRun) else None

    @property
    def undoes_ended(self) -> bool:
        """Whether a run that had ended is rolled back."""
        return self.goes_back and self.last is not None and next_commands_of(self.last.operation) is None

    @property
    def waiting(self) -> int:
        """The number of ports of the run that are not finished."""
        return len(self.jobs) + len(self.already_set) + self.later - self.account.done - self.account.failed

    @property
    def jobs(self) -> list[PortJob]:
        """All jobs in the order of change."""
        return [job for stage in self.stages for job in stage]

    @property
    def acts(self) -> bool:
        """Whether the run changes a port, a file or a process, and not only the stores."""
        return bool(self.jobs) or self.method.acts

    @property
    def pending(self) -> bool:
        """Whether a port has to be changed, or only the stores: for ports that have their wanted setting already, or
        for the end of the run."""
        return bool(self.already_set) or any(self.stages) or (self.is_open and not self.later)


@dataclass(frozen=True, slots=True)
class RunStart:
    """A start of a run, which is being made now. ``operation``: its operation, which may be the undo of the run;
    ``number``: the number of the run's operation; ``report``: called with the result of each port; ``stop``: the
    interrupts, which are checked between steps."""

    writer: ChangeWriter
    operation: RunningOperation
    number: int
    run: PlannedRun
    report: ReportPort
    stop: Interrupts


@dataclass(frozen=True, slots=True)
class NewRun:
    """The beginning of a new run. ``jobs``: the jobs of all its ports, those after the first ones (``--first``)
    included."""

    command: str
    jobs: Sequence[PortJob]

    def operation(self, journal: Journal, origin: Origin, goes_back: bool) -> RunningOperation:
        """Return a new operation of the journal, for any *goes_back*: a new run is never an undo."""
        return journal.operation(self.command, origin)

    def begin(self, writer: ChangeWriter, run: PlannedRun, operation: RunningOperation) -> int:
        """Put the present keys of the ports, the links and LIDs of the sweep, and the new key if all ports get the
        same, into the key store; then put the run into the journal, and end the records of earlier runs. Return the
        number of the run's operation. Raises StoreError."""
        store = writer.keystore
        remember_topology(writer.fabric, store, run.found)
        with store.in_one_transaction():
            via = run.method.begin(store)
            keys = [PortKeys(job.sequence, None, _store_present_key(store, job), job.old) for job in self.jobs]
            shared = keep_keys(store, self.jobs[0]) if run.options.same and self.jobs else None
        journal, runs = operation.journal, Runs(operation.journal)
        ports = [NewRunPort(job.port.node.guid, job.port.port_guid, job.port.num) for job in self.jobs]
        with journal.in_one_transaction():
            number = operation.put_on_disk()
            runs.begin(number, run.options, [*ports, *run.absent], via)
            if run.choice is not None:
                journal.keep_options(number, json.dumps({KEPT_CHOICE: True}))
            runs.note_keys(number, keys if shared is None else [*keys, shared])
            _end_earlier(journal, number, {port.port_guid for port in run.found.end_ports()})
        return number


def _store_present_key(store: KeyStore, job: PortJob) -> str | None:
    """Put a port's present key into the key store unless it is there, and return the name of its row; None for key
    0."""
    port, key = job.port, job.old.key
    if key.is_zero:
        return None
    ref = store.put_imported(port.port_guid, key, node_guid=port.node.guid, port=port.num, note="found by a run")
    return store.name_of(ref)


def _end_earlier(journal: Journal, newest: int, here: Collection[int]) -> None:
    """End the record of every run on this subnet except the operation *newest*, because only the newest run can be
    resumed or undone. *here*: the GUIDs of ports of this subnet.

    A run with failed ports becomes ``done``. A run that is still open or half undone has lost its keys: it becomes
    ``undone``, the state of a record that was ended. Raises StoreError.
    """
    runs = Runs(journal)
    for each in journal.list_operations():
        if not each.is_of_keys or each.undoes is not None or each.id == newest:
            continue
        if (guids := runs.guids(each.id)) and guids.isdisjoint(here):
            continue
        if each.is_half_undone:
            journal.end_undos(each.id)
            journal.set_state(each.id, "undone")
        elif each.state in ("open", "failed"):
            journal.set_state(each.id, "done" if each.state == "failed" else "undone")


@dataclass(frozen=True, slots=True)
class LastRun:
    """The beginning of the last run, which is resumed or rolled back. ``unused``: in a rollback, the rows of new keys
    that no port got."""

    last: MKeyRun
    unused: Sequence[int] = ()

    def operation(self, journal: Journal, origin: Origin, goes_back: bool) -> RunningOperation:
        """Return the operation of the run, reopened, or with *goes_back* its undo. The run needs no confirmation from
        now on."""
        if not goes_back:
            return journal.reopen(self.last.id, origin, "confirmed")
        return journal.undo_of(self.last.id, origin, "confirmed")

    def begin(self, writer: ChangeWriter, run: PlannedRun, operation: RunningOperation) -> int:
        """Store the links and LIDs of the sweep, and the limits with which the run continues; in a rollback, give up
        new keys that were never sent. Return the number of the run's operation. Raises StoreError."""
        store = writer.keystore
        remember_topology(writer.fabric, store, run.found)
        with store.in_one_transaction():
            for ref in self.unused:
                if store.get(ref).state == "pending":
                    store.abandon(ref, "the run was rolled back before its Set")
        Runs(operation.journal).set_bounds(self.last.id, run.options)
        return self.last.id

"""A planned change that can be shown, checked against interlocks, and applied."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ibkeys.change.consent import Objection, Question
from ibkeys.change.course import Course
from ibkeys.change.engine import Engine
from ibkeys.change.images import changes_of as rows_of
from ibkeys.change.pending_set import PendingSet
from ibkeys.change.runner import Runner
from ibkeys.change.sets_step import SetsStep
from ibkeys.change.wanted import FieldValue, change_in_words
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import IbkeysError
from ibkeys.store.cut_off_operations import close_cut_off, is_any_cut_off
from ibkeys.store.journal import Image, Journal, RunningOperation, WantedValue, values_to_keep
from ibkeys.store.origin import Origin
from ibkeys.topology.model import Trouble
from ibkeys.topology.nodes import Port


@dataclass(frozen=True, slots=True)
class Change:
    """One value that a change sets. ``kind``: ``pkey`` for a P_Key entry (with its index), or the JSON name of a
    field."""

    port: Port
    kind: str
    index: int | None
    before: FieldValue
    after: FieldValue

    def __str__(self) -> str:
        return change_in_words(self.kind, self.index, self.before, self.after)


class StepNote(str):
    """A note about one step of a change. It is left out where the steps themselves are shown."""

    __slots__ = ()


class ExposureNote(StepNote):
    """A note that others can read or change something while a step is made, such as a port without an M_Key. Unlike
    other notes on steps, it is shown even where the steps are."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ResumedOperation:
    """An earlier operation that a plan finishes. ``is_in_force``: returns whether a port has all values of the image of
    a Set; this decides about a Set of which the journal does not know whether it took effect."""

    id: int
    is_in_force: Callable[[Image], bool]

    def reopen(self, journal: Journal, origin: Origin) -> RunningOperation:
        """Open the operation again, and record the outcome of its pending Sets. Raises StoreError."""
        with journal.in_one_transaction():
            operation = journal.reopen(self.id, origin)
            pending = [each for each in journal.entries(self.id) if each.status == "pending"]
            done = [each for each in pending if self.is_in_force(each.image)]
            journal.set_status(done, "done")
            journal.set_status([each for each in pending if each not in done], "failed")
        return operation


@dataclass(slots=True)
class Plan:
    """A change of ports, planned but not made.

    ``notes`` are shown but stop nothing; ``objections`` are the interlocks that it triggers; ``refusals``: further
    errors that refuse it: a dry run shows them, else the command raises the first one. ``questions`` are asked by the
    code that shows the plan; with ``--yes`` they are only noted. ``troubles``: ports of a change to many that were left
    out or failed, and why. ``stages``: the Sets, each stage begun when all of the one before are finished.
    ``rechecks_links``: it checks the links of each port itself before a key is sent, and leaves out ports whose links
    cannot be examined. ``completes``: ports that have every wanted value once the plan is carried out. An earlier
    operation of the same command that was cut off, and changed no other port, is then complete. ``final_values``: the
    final values of the port, by kind and index, for a plan of one port. With them, only an operation that set these
    values is complete. ``resumed``: the earlier operation that the plan finishes; None: it is a change of its own.
    """

    command: str
    changes: list[Change] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    objections: list[Objection] = field(default_factory=list)
    refusals: list[IbkeysError] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    stages: list[list[PendingSet]] = field(default_factory=list)
    rechecks_links: bool = False
    completes: list[Port] = field(default_factory=list)
    final_values: Mapping[tuple[str, int | None], FieldValue] | None = None
    resumed: ResumedOperation | None = None

    @property
    def pending(self) -> bool:
        """Whether anything would change."""
        return bool(self.changes)

    def ports(self) -> list[Port]:
        """Return the ports that would change, each once, in the order of change."""
        return list(dict.fromkeys(change.port for change in self.changes))

    def begin(self, journal: Journal, origin: Origin) -> RunningOperation:
        """Return the operation of *journal* that the plan finishes, or a new one, which is recorded only if a Set is
        sent. The new one has the values that the plan sets, with which `ibkeys resume` finishes it."""
        if self.resumed is not None:
            return self.resumed.reopen(journal, origin)
        return journal.operation(self.command, origin, values_to_keep(self.wanted_values()))

    def wanted_values(self) -> list[WantedValue]:
        """Return the values that the plan sets, for the journal. No M_Key is in them."""
        return [
            WantedValue(each.port.node.guid, each.port.num, each.kind, each.index, each.before, each.after)
            for each in self.changes
        ]

    def perform(self, writer: ChangeWriter, operation: RunningOperation) -> None:
        """Send the Sets, and verify them; called once, by `ChangeWriter.apply`.

        Of several ports, those that fail are listed in ``troubles``. For a single port the error is raised: Refused,
        NotStored, NoReply, MadStatusError, SendRefused, Unreachable, MKeyNeeded. Raises StoreError.
        """
        self.make_sets(Engine(writer, operation), operation)
        self.prove()
        self.close_cut_off(writer, operation.journal, operation.id)

    def make_sets(self, engine: Engine, operation: RunningOperation) -> None:
        """Make the Sets with *engine*, and note the ports that fail, or raise the error, as `perform` says."""
        is_one = len({each.target.port for stage in self.stages for each in stage}) == 1
        step = SetsStep("", engine, self.stages, stops_at_failure=is_one)
        try:
            Runner(operation).run(Course([step]), lambda step: step)
        finally:
            failed = [each for stage in self.stages for each in stage if each.error is not None]
            self.troubles += [Trouble(each.target.port, str(each.error)) for each in failed if not is_one]
        if is_one and failed and failed[0].error is not None:
            raise failed[0].error

    def prove(self) -> None:
        """Prove the whole change where the read after each Set is not enough; by default do nothing. Raises as
        `perform`."""

    def close_if_complete(self, writer: ChangeWriter) -> None:
        """If nothing is to be changed, and this is no dry run, close the earlier operations that are complete. Raises
        StoreError."""
        path = writer.fabric.stores.journal
        if not (self.pending or writer.dry_run) and is_any_cut_off(path, [self.command]):
            with Journal(path) as journal:
                self.close_cut_off(writer, journal)

    def close_cut_off(self, writer: ChangeWriter, journal: Journal, except_operation: int | None = None) -> list[int]:
        """Close the earlier operations that the plan completes, and return their numbers. *except_operation*: the
        plan's own operation. Raises StoreError."""
        failed = {trouble.port for trouble in self.troubles}
        ports = {(port.node.guid, port.num) for port in self.completes if port not in failed}
        return close_cut_off(
            journal, [self.command], "done", but=except_operation, ports=ports, is_in_force=self._is_in_force
        )

    def _is_in_force(self, image: Image) -> bool:
        return self.final_values is None or all(
            self.final_values.get((kind, index)) == after for kind, index, _, after in rows_of(image)
        )

    def to_json(self) -> dict[str, Any]:
        """Return the changes by port, the notes, and the names of the interlocks triggered. No M_Key is in it."""
        return {
            "ports": [
                {
                    **port.identity(),
                    "changes": [
                        {"kind": change.kind, "index": change.index, "before": change.before, "after": change.after}
                        for change in self.changes
                        if change.port is port
                    ],
                }
                for port in self.ports()
            ],
            "notes": list(self.notes),
            "interlocks": [objection.interlock for objection in self.objections],
        }

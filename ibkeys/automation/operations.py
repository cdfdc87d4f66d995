"""The operations of the journal for a script, which can resume, undo or confirm them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Unpack

from ibkeys.apply.apply import Permissions
from ibkeys.arguments import flag, refuse_wrong
from ibkeys.automation.confirming import Confirmed, confirm_operation
from ibkeys.automation.files import finish_files, take_back_files
from ibkeys.automation.m_keys import resume_keys, undo_keys
from ibkeys.automation.making import ChangeArguments, How
from ibkeys.automation.methods import METHODS
from ibkeys.automation.partitions import resume_partitions, undo_partitions
from ibkeys.automation.result import ChangeResult
from ibkeys.automation.values import finish_values
from ibkeys.change.next_commands import next_commands_of
from ibkeys.change.open_operations import (
    OperationTarget,
    find_target,
    find_to_resume,
    find_to_undo,
    is_finished_by_undo,
    refuse_earlier_run,
    refuse_undo,
)
from ibkeys.errors import UsageError
from ibkeys.fabric.live import LiveFabric
from ibkeys.mkeys.methods import method_of_run
from ibkeys.store.journal import Journal, OperationRecord
from ibkeys.store.journal.records import StepRecord
from ibkeys.store.journal.runs import MKeyRun
from ibkeys.store.paths import StorePaths


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of the journal, as it was when it was read.

    ``record``: command, state, stage and times. ``steps``: those of an operation through a subnet manager.
    ``port_guids``: the end ports that it changes, which identify its subnet. ``next_command``: the commands that finish
    it or roll it back, in words; "" where nothing is left to do.
    """

    record: OperationRecord
    steps: tuple[StepRecord, ...]
    port_guids: frozenset[int]
    next_command: str
    stores: StorePaths

    @property
    def id(self) -> int:
        """The number of the operation in the journal."""
        return self.record.id

    @property
    def command(self) -> str:
        """The command that began the operation."""
        return self.record.command

    @property
    def is_open(self) -> bool:
        """Whether the operation is unfinished: it was interrupted, is held, had failures, or waits for confirmation."""
        return bool(self.next_command)

    @property
    def awaits_confirmation(self) -> bool:
        """Whether the operation will be rolled back unless it is confirmed."""
        return self.record.awaits_confirmation

    def resume(
        self,
        fabric: LiveFabric,
        *,
        first: int | None = None,
        allow_removals: bool = False,
        allow_break: bool = False,
        **how: Unpack[How],
    ) -> ChangeResult:
        """Finish the operation as `ibkeys resume` does.

        *first*: how many further ports to change after the first ports; for partitions, how many leaf switches. The
        other arguments are those of `Fabric.apply`. Raises StoreError if the operation is not open, TypeError for an
        unknown argument, UsageError, Refused, and the errors of planning.
        """
        asked = ChangeArguments.of(fabric, how, first=first, allow_removals=allow_removals, allow_break=allow_break)
        target, run = self._find(asked, find_to_resume)
        if is_finished_by_undo(target):
            return _back(asked, target, run, allow_break)
        if target.kind == "keys":
            return resume_keys(_as_begun(asked, run), asked, first)
        if target.kind == "partitions":
            return resume_partitions(asked, Permissions(allow_removals, allow_break, first))
        if target.kind == "values":
            return finish_values(asked, target.record)
        return finish_files(asked, target)

    def undo(
        self,
        fabric: LiveFabric,
        *,
        allow_break: bool = False,
        at_once: bool = False,
        leave_open: bool = False,
        **how: Unpack[How],
    ) -> ChangeResult:
        """Restore the values that the operation overwrote, as `ibkeys undo` does.

        *at_once*: through a subnet manager, in one step, even if that briefly disconnects pairs; *leave_open*: ports
        may be without M_Key afterwards. Raises StoreError if there is nothing to undo, UsageError also for
        ``confirm_within``, and the other errors of `resume`.
        """
        asked = ChangeArguments.of(fabric, how, allow_break=allow_break, at_once=at_once, leave_open=leave_open)
        target, run = self._find(asked, find_to_undo)
        refuse_undo(target)
        return _back(asked, target, run, allow_break, at_once, leave_open)

    def confirm(self) -> Confirmed:
        """Confirm the operation, as `ibkeys confirm` does.

        Raises StoreError if the operation does not wait for confirmation, or if its time is over; UsageError for a
        journal in memory; HostRefused, HostNotReached.
        """
        if self.stores.journal is None:
            raise UsageError("a journal in memory has nothing to confirm")
        return confirm_operation(self.stores.journal, self.id)

    def _find(
        self, asked: ChangeArguments, meant: Callable[[Journal, int | None], OperationTarget]
    ) -> tuple[OperationTarget, MKeyRun | None]:
        fabric = asked.fabric
        if fabric.stores.journal != self.stores.journal:
            raise UsageError(f"operation {self.id} is in {self.stores.journal}: open the fabric with these stores")
        target, run = find_target(fabric.stores, self.id, meant)
        refuse_earlier_run(target)
        asked.goes_on = asked.begun = target.id
        return target, run


def _back(
    asked: ChangeArguments,
    target: OperationTarget,
    run: MKeyRun | None,
    allow_break: bool,
    at_once: bool = False,
    leave_open: bool = False,
) -> ChangeResult:
    if asked.confirm_within is not None:
        raise UsageError("an undo needs no confirmation: omit confirm_within=")
    if target.kind == "keys":
        return undo_keys(_as_begun(asked, run), asked, leaves_open=leave_open)
    if target.kind in ("sm-keys", "enforcement"):
        return take_back_files(asked, target)
    return undo_partitions(asked, breaks=allow_break, at_once=at_once)


def _as_begun(asked: ChangeArguments, run: MKeyRun | None) -> str:
    """Set the method with which a run of M_Keys began, and return its command. Raises UsageError for another method."""
    assert run is not None  # it is a run of M_Keys
    method = method_of_run(run)
    if asked.via is not None and asked.via.name != method.name:
        raise UsageError(f"the operation was started {method.words}: omit via=")
    asked.via = asked.via or METHODS[method.name]()
    return run.command


def operations_in(stores: StorePaths, *, open_only: bool = False) -> tuple[Operation, ...]:
    """Return the operations of a journal, the oldest first. *open_only*: only unfinished ones.

    Raises StoreError, and UsageError for a wrong *open_only*. If the journal does not exist, there are none.
    """
    refuse_wrong({"open_only": open_only}, {"open_only": flag()})
    with Journal.read(stores.journal) as journal:
        found = [
            Operation(
                each,
                tuple(journal.steps(each.id)),
                frozenset(journal.port_guids(each.id)),
                str(next_commands_of(each) or ""),
                stores,
            )
            for each in journal.list_operations()
        ]
    return tuple(each for each in found if each.is_open or not open_only)

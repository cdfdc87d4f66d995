"""Resuming and undoing a change of part_enforce that `harden` began, and closing its operation."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ibkeys.cli import exits
from ibkeys.cli.changing import ShownChange, end_overtaken
from ibkeys.cli.documents.hardening import HARDEN
from ibkeys.cli.exits import clean, write
from ibkeys.cli.opening import is_simulated
from ibkeys.cli.render import write_document
from ibkeys.cli.sm.files_request import FilesRequest, ended_error
from ibkeys.errors import UsageError

if TYPE_CHECKING:
    from ibkeys.change.writer import ChangeWriter
    from ibkeys.harden.enforcement_run import EnforcementPlan
    from ibkeys.harden.step import HardenRequest

_UNDO: Final = "undo"
"""The command that the journal names for an operation that restores the former part_enforce."""


class EnforcementRequest(FilesRequest):
    """A request to finish, undo or close one change of part_enforce."""

    def finish(self) -> int:
        """Finish the change, or its undo if an undo was begun. Return the exit code.

        Raises UsageError for a simulated subnet, Refused for an interlock or without confirmation, and the errors of
        the writer.
        """
        from ibkeys.harden.enforcement import command_of_writer, plan_rest

        with self._writer(command_of_writer(self.record)) as writer:
            return self._carry_out(writer, plan_rest(writer, self._asked(), self.record))

    def take_back(self) -> int:
        """Restore the part_enforce from before the change, or finish an undo that was begun. Return the exit code.

        Raises the errors of `finish`, and of `ibkeys.harden.enforcement.refuse_undo`.
        """
        from ibkeys.harden.enforcement import plan_restoring, refuse_undo

        with self._writer(_UNDO) as writer:
            refuse_undo(writer, self.record.id)
            return self._carry_out(writer, plan_restoring(writer, self._asked(), self.record.id))

    def end_record(self) -> int:
        """Close the operation, and return the exit code.

        This is for a change after which another program or administrator has changed part_enforce. Raises UsageError
        for any other change, and for an operation that has ended; Refused without confirmation.
        """
        from ibkeys.harden.enforcement import why_not_finishable
        from ibkeys.harden.step import COMMAND

        if self.record.state in ("done", "undone") and not self.record.being_undone:
            raise ended_error(self.record)
        with self._writer(COMMAND) as writer:
            number = self.record.id
            operation = f"operation {number}: `ibkeys resume {number}` finishes it"
            why = why_not_finishable(writer, self._asked())
            return end_overtaken(self.consent, why, partial(self._close, writer), operation)

    def _close(self, writer: ChangeWriter) -> str:
        from ibkeys.harden.overtaken import close_overtaken

        name = close_overtaken(writer, self.record.id)
        self.remove_locks(writer)
        return name

    def _asked(self) -> HardenRequest:
        from ibkeys.cli.mkeys.rollout_output import run_listener
        from ibkeys.harden.step import HardenRequest

        return HardenRequest(
            self.hosts(),
            self.sm_wait,
            listener=run_listener(),
            say=lambda text: exits.warn(text, "step"),
            is_dry=self.consent.dry_run,
        )

    def _writer(self, command: str) -> AbstractContextManager[ChangeWriter]:
        if is_simulated(self.where):
            raise UsageError("a simulated subnet has no OpenSM on any host")
        return self.open_writer(command)

    def _carry_out(self, writer: ChangeWriter, plan: EnforcementPlan) -> int:
        return _ShownEnforcement(writer, plan, self.consent, self.format).carry_out()


class _ShownEnforcement(ShownChange):
    """A change of part_enforce, shown file by file."""

    plan: EnforcementPlan

    def show(self, put: Callable[[str], None]) -> None:
        """Write the changes of each options file, and the number of leaf ports."""
        for words in self.plan.words if self.plan.pending else ["nothing to change"]:
            put(clean(words))

    def report(self, applied: bool) -> int:
        """Write the result, and return the exit code."""
        exits.warn_each(self.plan.silent, "not done")
        declared = HARDEN._replace(rows=HARDEN.other_rows)
        rows = ({"change": words} for words in self.plan.words)
        if not write_document(self.format, declared, lambda: self._document(applied), rows):
            if applied:
                write("done, verified by a fresh read")
            elif self.consent.dry_run and self.plan.pending:
                write("dry run: nothing was changed")
        if self.consent.dry_run:
            return exits.SAYS_NO if self.plan.pending else exits.DONE
        return exits.NOT_COMPLETED if self.plan.silent else exits.DONE

    def _document(self, applied: bool) -> dict[str, Any]:
        head = {"dry_run": self.consent.dry_run, "applied": applied}
        return {**head, "changes": list(self.plan.words), "unmade": list(self.plan.silent)}

"""A change of part_enforce that a hardening began, taken up again: finished, taken back, or its record ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from ibkeys.cli import exits
from ibkeys.cli.changing import ShownChange, end_overtaken, writer_of
from ibkeys.cli.exits import clean, write
from ibkeys.cli.left_locks import remove_left_locks
from ibkeys.cli.opening import is_simulated, open_fabric
from ibkeys.cli.options import Changing, SmHosts, Where
from ibkeys.cli.render import write_csv, write_json
from ibkeys.cli.sm.hosts import hosts_of_operation
from ibkeys.errors import Refused, UsageError

if TYPE_CHECKING:
    from ibkeys.change.writer import Writer
    from ibkeys.harden.enforcement_run import EnforcementPlan
    from ibkeys.harden.step import HardenRequest
    from ibkeys.store.journal import OperationRecord

_UNDO: Final = "undo"
"""The command of the writer that gives the former part_enforce back."""


@dataclass(frozen=True, slots=True)
class EnforcementRequest:
    """What the command line asks of a change. ``begun``: its operation; ``sm_wait``: seconds."""

    where: Where
    consent: Changing
    sm_hosts: SmHosts
    sm_wait: int
    format: str
    begun: OperationRecord

    def finish(self) -> int:
        """Finish the change, forth or back as it was begun. Raises UsageError for one that has ended."""
        from ibkeys.harden.enforcement import plan_back, plan_forth
        from ibkeys.harden.overtaken import goes_forth
        from ibkeys.harden.step import COMMAND

        self._refuse_ended()
        is_forth = goes_forth(self.begun)
        with self._writer(COMMAND if is_forth else _UNDO) as writer:
            plan = (plan_forth if is_forth else plan_back)(writer, self._asked())
            if plan.cut_off != self.begun.id:  # it was found before the lock was held
                raise Refused(f"operation {self.begun.id} has ended in the meantime", "stale").unchanged(
                    "see `ibkeys journal`"
                )
            return self._carry_out(writer, plan)

    def take_back(self) -> int:
        """Restore what the change found, or finish that."""
        from ibkeys.harden.enforcement import plan_back, refuse_way_back

        with self._writer(_UNDO) as writer:
            refuse_way_back(writer, self.begun.id)
            return self._carry_out(writer, plan_back(writer, self._asked(), self.begun.id))

    def end_record(self) -> int:
        """End the record of the changes that have not ended, because somebody else has changed part_enforce since."""
        from ibkeys.harden.enforcement import refuse_overtaken
        from ibkeys.harden.step import COMMAND

        self._refuse_ended()
        with self._writer(COMMAND) as writer:
            number = self.begun.id
            otherwise = f"operation {number}: `ibkeys resume {number}` finishes it"
            plan = partial(refuse_overtaken, writer, self._asked())
            return end_overtaken(self.consent, plan, partial(self._close, writer), otherwise)

    def _refuse_ended(self) -> None:
        if self.begun.state in ("done", "undone") and not self.begun.being_undone:
            raise UsageError(f"operation {self.begun.id} ({self.begun.command}) has ended")

    def _close(self, writer: Writer) -> str:
        from ibkeys.harden.overtaken import close_overtaken

        name = close_overtaken(writer)
        hosts = hosts_of_operation(self.where, self.sm_hosts, self.begun.id)
        remove_left_locks(self.where, writer.command, hosts)
        return name

    def _asked(self) -> HardenRequest:
        from ibkeys.cli.mkeys.rollout_output import Steps
        from ibkeys.harden.step import HardenRequest
        from ibkeys.mkeys.opensm.method import RunListener

        return HardenRequest(
            hosts_of_operation(self.where, self.sm_hosts, self.begun.id),
            self.sm_wait,
            listener=RunListener(lambda text: exits.warn(text, "to do"), Steps().tell),
            say=lambda text: exits.warn(text, "step"),
            is_dry=self.consent.dry_run,
        )

    @contextmanager
    def _writer(self, command: str) -> Iterator[Writer]:
        if is_simulated(self.where):
            raise UsageError("a simulated subnet has no OpenSM on any host")
        with (
            open_fabric(self.where, changing=True) as fabric,
            writer_of(fabric, command, self.consent, self.begun.id) as writer,
        ):
            yield writer

    def _carry_out(self, writer: Writer, plan: EnforcementPlan) -> int:
        return _ShownEnforcement(writer, plan, self.consent, self.format).carry_out()


class _ShownEnforcement(ShownChange):
    """A change of part_enforce, shown file by file."""

    plan: EnforcementPlan

    def show(self, put: Callable[[str], None]) -> None:
        """Write what changes in which options file, and at how many leaf ports."""
        for words in self.plan.words if self.plan.pending else ["nothing to change"]:
            put(clean(words))

    def report(self, applied: bool) -> int:
        """Say that it is done, and return the exit code."""
        for text in self.plan.silent:
            exits.warn(text, "not done")
        if self.format == "json":
            head = {"dry_run": self.consent.dry_run, "applied": applied}
            write_json("harden", {**head, "changes": list(self.plan.words), "unmade": list(self.plan.silent)})
        elif self.format == "csv":
            write_csv(("change",), ({"change": words} for words in self.plan.words))
        elif applied:
            write("done, verified by a fresh read")
        elif self.consent.dry_run and self.plan.pending:
            write("dry run: nothing was changed")
        if self.consent.dry_run:
            return exits.SAYS_NO if self.plan.pending else exits.DONE
        return exits.NOT_COMPLETED if self.plan.silent else exits.DONE

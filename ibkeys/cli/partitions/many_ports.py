"""How apply and undo show, make and report a change of many ports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ibkeys.cli import exits, options
from ibkeys.cli.changing import ShownChange, show_method
from ibkeys.cli.documents.plans import APPLY, UNDO
from ibkeys.cli.exits import write
from ibkeys.cli.listing.causes import say_by_cause
from ibkeys.cli.options import Folding
from ibkeys.cli.options.declaring import F
from ibkeys.cli.partitions.changed_ports import changed_ports
from ibkeys.cli.render import write_json, write_rows
from ibkeys.cli.screen.progress import ProgressLine
from ibkeys.cli.sm.files_request import ChangeWithHostsOptions
from ibkeys.cli.sm.ufm import UfmOptions, ufm_options
from ibkeys.errors import IbkeysError, Refused
from ibkeys.printable import counted, named

if TYPE_CHECKING:
    from ibkeys.apply.apply_plan import ApplyPlan
    from ibkeys.change.interrupts import Interrupts


@dataclass(frozen=True, slots=True)
class ManyPortsOptions(ChangeWithHostsOptions):
    """The options of a command that changes many ports: those of `ChangeWithHostsOptions`, UFM, and folding."""

    ufm: UfmOptions
    folding: Folding


def many_ports_options(choices: type[Any]) -> Callable[[F], F]:
    """Return the decorator for a command that changes many ports. *choices*: the class of the command's own options."""
    return options.group(
        "command_options",
        ManyPortsOptions,
        options.group("choices", choices),
        options.sm_hosts,
        ufm_options,
        options.changing,
        options.folding,
        options.format,
        options.fabric,
    )


@dataclass
class ManyPortsChange(ShownChange):
    """A change of many ports, shown by its phases and by the changes of each port.

    ``each``: whether each port gets a row. ``interrupts``: hold signals back, but only while the change is made.
    """

    plan: ApplyPlan
    each: bool
    interrupts: Interrupts
    bar: StepsBar

    @property
    def is_asked_about(self) -> bool:
        """Return whether the change sends anything; else it only closes an earlier operation, without a question."""
        return bool(self.plan.phases)

    def show(self, put: Callable[[str], None]) -> None:
        """Write the phases, with their numbers of ports and Sets, and the changes of each port."""
        from ibkeys.plan.order import PHASES

        plan, document = self.plan, self.plan.to_json()
        if plan.digest is not None:
            put(f"plan digest: {plan.digest}")
            self._show_rehearsal(put)
        show_method(put, plan.carrier.name, plan.carrier.choice)
        if plan.carrier.sm_in_words:
            put(plan.carrier.sm_in_words)
        put("to be done, in this order:" if document["phases"] else "nothing to change")
        for phase in document["phases"]:
            unit = "Set" if plan.carrier.sends_sets else "block"
            what = f"{counted(phase['ports'], 'port')}, {counted(phase['sets'], unit)}"
            put(f"  {PHASES[phase['phase']]}: {what if phase['ports'] else 'no port changes'}")
        for line in self._changes():
            put(line)
        if plan.rest:
            put(f"left for `ibkeys resume`: {counted(plan.rest, 'further step')}")
        if plan.removed:
            put(f"P_Keys to be removed, full to limited included: {plan.removed}")
        for message in document["breaks"]:
            put(f"temporary loss of connectivity: {message}")

    def _show_rehearsal(self, put: Callable[[str], None]) -> None:
        """Write whether this very plan was rehearsed. Without a rehearsal, only for a new apply that can be
        rehearsed."""
        made = self.plan.rehearsal
        if made is not None:
            put(made.in_words)
        elif self.writer.command == "apply" and self.plan.carrier.can_be_rehearsed and self.plan.operation_id is None:
            put("not rehearsed")

    def _changes(self) -> Iterator[str]:
        """Yield lines for the changes of this run. Steps that are left for `ibkeys resume` are not included."""
        remaining = self.plan.remaining
        current_ports = {step.port.key for phase in self.plan.phases for step in phase.steps}
        tables = [table for table in remaining.tables if table.port.key in current_ports and table.differs]
        enforcement = [change for change in remaining.enforcement if change.port.key in current_ports]
        return changed_ports(tables, enforcement, self.each, self.plan.survey.topology)

    def apply(self) -> None:
        """Make the change.

        If ports fail, write their names and reasons, then raise Incomplete or the error that stopped the change. Raises
        Refused before the first Set.
        """
        try:
            with self.interrupts:
                try:
                    self.writer.apply(self.plan)
                finally:
                    self.bar.stop()
        except Refused:
            raise  # raised before the first Set
        except (IbkeysError, KeyboardInterrupt):
            self._write_failed()
            if self.format == "json" and self.plan.failed and self.plan.operation_id is not None:
                self._write_result(applied=True)
            raise

    def report(self, applied: bool) -> int:
        """Write the ports that failed, and the result, and return the exit code."""
        self._write_failed()
        self._write_result(applied)
        if self.plan.failed or self.plan.gone_back:
            return exits.NOT_COMPLETED
        return exits.SAYS_NO if self.consent.dry_run and self.plan.phases else exits.DONE

    def _write_failed(self) -> None:
        exits.warn_each(self.plan.late_notes, "note")
        failed = self.plan.failed
        say_by_cause(
            [(port.to_json() if port is not None else None, text) for port, text in failed], "not written", self.format
        )

    def _write_result(self, applied: bool) -> None:
        plan, command, dry_run = self.plan, self.writer.command, self.consent.dry_run
        is_kept = self.writer.fabric.stores.journal is not None  # a journal in memory ends with this command
        if self.format == "json":
            complete = applied and not (plan.rest or plan.failed or plan.gone_back)
            document: dict[str, Any] = {"dry_run": dry_run, "applied": applied, "complete": complete}
            document |= {"undoes": plan.undoes} if command == "undo" else {}
            declared = UNDO if command == "undo" else APPLY
            write_json(
                declared, {**document, "gone_back": plan.gone_back and not plan.is_rollback_refused, **plan.to_json()}
            )
        elif self.format == "csv":
            write_rows(APPLY.rows, plan.to_json()["phases"])
        elif plan.is_rollback_refused:
            write(f"not rolled back, as said above; see `ibkeys journal {plan.operation_id}`")
        elif plan.gone_back:
            left = f"not everything is rolled back, as listed above; see `ibkeys journal {plan.operation_id}`"
            write(left if plan.failed else "rolled back: the tables are as they were")
        elif applied and (plan.rest or plan.failed) and not is_kept:
            write("partly done")
        elif applied and (plan.rest or plan.failed):
            from ibkeys.change.next_commands import advice_if_gone, next_commands

            assert plan.operation_id is not None
            commands = next_commands(command, plan.operation_id, plan.undoes)
            is_gone = plan.can_be_closed and not plan.rest and plan.failed == plan.remaining.absent
            write(
                f"partly done: operation {plan.operation_id} is still open; `{commands.finish}` continues it"
                f"{f'; {advice_if_gone(plan.operation_id)}' if is_gone else ''}"
            )
        elif applied:
            back = "rolls it back" if plan.undoes is None or plan.makes_again else "makes the change again"
            how = plan.carrier.done_in_words
            if plan.waiting:
                how = f"the tables are verified by a fresh read; not verified: {named(plan.waiting)}, as the note says"
            write(f"{how}; `ibkeys undo {plan.operation_id}` {back}" if is_kept else how)
        elif dry_run and plan.phases:
            write("dry run: nothing was changed")


class StepsBar:
    """A progress bar that is shown on a terminal while steps are made. It is the `OnStep` of a run.

    It appears with the first step, and must be removed (`stop`) before any prompt. *debug*: whether MADs are printed;
    then there is no bar.
    """

    def __init__(self, debug: bool) -> None:
        self._progress = ProgressLine(not debug)

    def __call__(self, phase: str, done: int, total: int) -> None:
        """Show the progress of a phase."""
        from ibkeys.plan.order import PHASES

        self._progress.show(PHASES[phase], done, total)

    def stop(self) -> None:
        """Remove the bar. May be called twice."""
        self._progress.stop()

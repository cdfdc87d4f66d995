"""How a run of mkey-deploy, mkey-rotate or mkey-remove is shown, asked about, made and reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ibkeys.cli import exits
from ibkeys.cli.changing import ShownChange, name_of, show_method
from ibkeys.cli.documents.key_runs import RUNS
from ibkeys.cli.exits import write
from ibkeys.cli.listing.causes import lines_by_cause, say_by_cause
from ibkeys.cli.listing.folding import indented
from ibkeys.cli.mkeys.rollout_output import ResultRows
from ibkeys.cli.options import Where
from ibkeys.cli.render import heading_of
from ibkeys.cli.screen.progress import ProgressLine
from ibkeys.cli.showing import LISTED_TROUBLES, say_notes
from ibkeys.grouping import grouped
from ibkeys.printable import counted
from ibkeys.topology.names.folded import FoldedNames

if TYPE_CHECKING:
    from ibkeys.mkeys.confirming import AwaitedRun
    from ibkeys.mkeys.rollout.planned_run import PlannedRun
    from ibkeys.mkeys.rollout.result import PortResult
    from ibkeys.topology.nodes import Port


@dataclass
class ShownRun(ShownChange):
    """A run over many ports, shown in numbers and reported port by port.

    ``awaits``: the wait for the confirmation; None if the run needs none.
    """

    run: PlannedRun
    where: Where
    awaits: AwaitedRun | None

    def __post_init__(self) -> None:
        self.rows = ResultRows(RUNS[self.writer.command], self.format)
        self.failed: list[tuple[dict[str, Any], str]] = []

    @property
    def is_pending(self) -> bool:
        """Return whether ports are to be changed, or the key store is to be updated."""
        return self.run.pending

    def say_notes(self) -> None:
        """Write the notes of the sweep and the plan.

        If the interlock mkey-under-sm refuses the run, also write the procedure to follow instead.
        """
        say_notes(self.run.found)
        super().say_notes()
        if any(objection.interlock == "mkey-under-sm" for objection in self.writer.not_overridden(self.plan)):
            exits.warn_each(self.run.procedure, "under a subnet manager")

    def show(self, put: Callable[[str], None]) -> None:
        """Write how many ports would change, the changes, and the ports that are skipped."""
        run = self.run
        show_method(put, run.method_name, run.choice)
        if not run.jobs and not run.already_set:
            put(
                "nothing to change"
                + ("; the key store only has to record that the run has ended" if run.pending else "")
            )
        task = (
            "OpenSM is told to read its options file again"
            if run.method.acts
            else "only the key store has to be updated"
        )
        for job in run.already_set:
            put(f"{heading_of(job.port.identity())}: has it already, {task}")
        if run.jobs:
            back = ", restored to what they had" if run.goes_back else ""
            how = f"at most {run.options.at_once} at once" if run.method.sends_sets else "OpenSM sets all of them"
            put(f"{counted(len(run.jobs), 'port')} to change{back}, {how}")
            self._write_names([job.port for job in run.jobs], put)
        self._write_kinds(put)
        for line in run.method.in_words() if run.method.acts else ():
            put(f"  through {line}")
        for stage, what in zip(
            run.stages[1:], ("last, the port of an SM", "last of all, the local port"), strict=False
        ):
            for job in stage:
                put(f"  {what}: {heading_of(job.port.identity())}")
        if run.later:
            put(f"  {counted(run.later, 'port')} wait{'s' if run.later == 1 else ''} for `ibkeys resume`")
        reasons = Counter(result.reason for result in run.skipped if not (result.unread or result.overtaken))
        for reason, count in reasons.items():
            put(f"left alone: {counted(count, 'port')}: {reason}")
        self._write_skipped_by_cause(put)

    def _write_skipped_by_cause(self, put: Callable[[str], None]) -> None:
        """Write why ports are skipped that could not be read, or that another program or administrator has changed.

        Each cause is written once, with the names of its ports.
        """
        skipped = (result for result in self.run.skipped if result.unread or result.overtaken)
        lines = lines_by_cause([(result.port, result.reason or "") for result in skipped], exits.explains_all())
        for line, details in lines[:LISTED_TROUBLES]:
            put(f"left alone: {line}")
            exits.show_details(details)
        if len(lines) > LISTED_TROUBLES:
            put(f"left alone: and for {counted(len(lines) - LISTED_TROUBLES, 'more reason')} (all of them: -f json)")

    def _write_kinds(self, put: Callable[[str], None]) -> None:
        """Write each kind of change, and its ports unless all ports have it."""
        kinds = grouped(self.plan.changes, lambda change: (change.kind, change.before, change.after))
        for (kind, before, after), same in kinds.items():
            ports = [change.port for change in same]
            name = name_of({"kind": kind, "index": None}) if kind != "m_key" else self._key_name()
            put(f"  {name}: {before} -> {after} on {counted(len(ports), 'port')}")
            if len(ports) < len(self.run.jobs):
                self._write_names(ports, put)

    def _write_names(self, ports: Iterable[Port], put: Callable[[str], None]) -> None:
        """Write the names of *ports*, folded where possible."""
        names = self._folded_names()
        for line in indented(names, (port.identity() for port in ports)):
            put(line)

    def _folded_names(self) -> FoldedNames:
        topology = self.run.found
        return FoldedNames((port.identity() for port in topology.ports()), topology)

    def _key_name(self) -> str:
        takes_away = all(job.wanted.key.is_zero for job in self.run.jobs)
        if self.run.goes_back or takes_away:
            return "M_Key"
        return "M_Key, one for all" if self.run.options.same else "M_Key, each its own"

    def apply(self) -> None:
        """Make the run, and wait for its confirmation if it needs one; the summary is written even after an error."""
        try:
            if self.awaits is None:
                self._make()
            else:
                self.awaits.make(self.writer, self.run, self._make)
        finally:
            self._write_summary()

    def _make(self) -> None:
        from ibkeys.mkeys.rollout.run_plan import carry_out

        run, done = self.run, 0
        total = len(run.jobs) + len(run.already_set) + len(run.skipped)
        with ProgressLine(not self.where.debug) as progress:

            def report(result: PortResult) -> None:
                nonlocal done
                done += 1
                self._add(result)
                progress.show("ports", done, total)

            progress.show("ports", 0, total)
            carry_out(self.writer, run, report)

    def report(self, applied: bool) -> int:
        """Write the changes of a dry run, and return the exit code of the dry run or of the run."""
        return self._exit_code() if applied else self._dry_run()

    def _dry_run(self) -> int:
        """Write the planned changes of each port, in the order of the run, and return the exit code."""
        run = self.run
        for result in run.skipped:
            self._add(result)
            run.account.add(result)
        changes: dict[int, list[dict[str, Any]]] = {}
        for change in run.plan.changes:
            each = {"kind": change.kind, "index": None, "before": change.before, "after": change.after}
            changes.setdefault(id(change.port), []).append(each)
        for job in run.jobs:
            port, port_changes = job.port.identity(), changes.get(id(job.port), [])
            if not self.rows.add({**port, "result": "planned", "reason": None, "changes": port_changes}):
                listed = ", ".join(f"{name_of(each)} {each['before']} -> {each['after']}" for each in port_changes)
                write(f"{heading_of(port)}: {listed}")
        run.account.waiting = len(run.jobs) + len(run.already_set) + run.later
        self._write_summary()
        if run.account.unread or run.account.overtaken:
            return self._exit_code()
        return exits.SAYS_NO if run.pending else exits.DONE

    def _add(self, result: PortResult) -> None:
        """Write the result of one port."""
        self.rows.add({**result.port, "result": result.result, "reason": result.reason})
        if result.result == "failed":
            self.failed.append((result.port, result.reason or ""))
            if self.format != "table":
                self._write_failed()

    def _write_failed(self) -> None:
        """Write the ports that have failed since the last call, each cause once."""
        names = self._folded_names() if self.failed and self.format == "table" else None
        say_by_cause(self.failed, "failed", self.format, names)
        self.failed = []

    def _write_summary(self) -> None:
        """Write the failed ports, each cause once, and the summary of the run."""
        self._write_failed()
        account = self.run.account
        summary = {"unreached": self.run.found.unreached, "via": self.run.method_name, **account.to_json()}
        interlocks = [each.interlock for each in self.plan.objections]
        if self.rows.end({"dry_run": self.consent.dry_run, "summary": summary, "interlocks": interlocks}):
            return
        if self.consent.dry_run:
            write("dry run: nothing was changed")
        if not account.operation:
            return  # the run was never begun
        write(
            f"operation {account.operation}: {counted(account.done, 'port')} done, {account.failed} failed, "
            f"{account.skipped} left alone, {account.waiting} waiting"
        )
        if account.replies_lost or account.sets_lost:
            write(
                f"  replies lost after the Set took effect: {account.replies_lost}; Sets that never arrived: "
                f"{account.sets_lost}"
            )
        if account.violations and self.run.method.sends_sets:
            write(f"  queries after lost replies added at most {counted(account.violations, 'M_Key violation')}")
        elif account.violations:
            write(
                f"  the ports counted {counted(account.violations, 'M_Key violation')} during the run, from any sender"
            )
        if account.unresolved:
            who = f"{counted(account.unresolved, 'port')} answer{'s' if account.unresolved == 1 else ''}"
            write(f"  {who} to neither key: the old and the new one are in the key store")
        for line in self._next_steps():
            write(line)

    def _next_steps(self) -> Iterator[str]:
        account, run = self.run.account, self.run
        if account.stopped:
            yield f"stopped: {account.stopped}"
        if account.gone_back:
            yield "rolled back: it was not confirmed, so the level was lowered; the M_Key and the lease stay"
            yield "next: `ibkeys resume` raises the level again, `ibkeys undo` restores the former state"
        elif run.goes_back:
            if account.failed or account.waiting:
                yield "next: `ibkeys resume` continues with the ports that are not restored"
        elif account.failed or account.stopped or (account.waiting and not run.later):
            yield "next: `ibkeys resume` finishes the run, `ibkeys undo` rolls it back"
        elif run.later:
            yield "next: check the ports, then `ibkeys resume` for the others, or `ibkeys undo`"
        elif self.writer.command == "mkey-deploy" and account.done:
            yield "save the keys: `ibkeys keystore backup FILE`, and keep a copy on another host"

    def _exit_code(self) -> int:
        """Return the exit code, and write the numbers of failed, unread and waiting ports to standard error."""
        account = self.run.account
        if account.is_complete:
            return exits.DONE
        missing = [f"{counted(account.failed, 'port')} failed"] if account.failed else []
        missing += [f"{counted(account.unread, 'port')} could not be queried"] if account.unread else []
        if account.overtaken:
            has = "port has" if account.overtaken == 1 else "ports have"
            missing.append(f"{account.overtaken} {has} what this run neither found nor set")
        missing += [f"{counted(account.waiting, 'port')} not begun"] if account.stopped else []
        if account.gone_back:
            exits.warn("the run was rolled back: it was not confirmed", "error")
        if not missing:
            return exits.NOT_COMPLETED
        exits.warn(f"the run is not complete: {', '.join(missing)}{self._advice()}", "error")
        return exits.NOT_COMPLETED

    def _advice(self) -> str:
        """Return advice for ports that could not be read, and for ports that another user or program changed.

        The text is empty if there are no such ports.
        """
        from ibkeys.mkeys.rollout.earlier_run import close_command_of
        from ibkeys.mkeys.rollout.planned_run import LastRun

        run, advice = self.run, ""
        last = run.beginning.last if isinstance(run.beginning, LastRun) else None
        if run.account.unread:
            advice = (
                "; `ibkeys keystore import` brings the keys of ports that hide theirs, from another key store or from "
                "OpenSM's files; `ibkeys mkey-recover` finds those that no store has; then type "
                + ("`ibkeys resume`" if last is not None else "the same command")
            )
        if run.account.overtaken and last is not None and not run.goes_back:
            advice += f"; to keep what is there, when no other port is left: `{close_command_of(last)}`"
        return advice

"""What mkey-deploy, mkey-rotate and mkey-remove say: the plan, each port as it is finished, the account at the end."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ibkeys.cli import exits
from ibkeys.cli.changing import name_of
from ibkeys.cli.exits import write, write_exact
from ibkeys.cli.listing.causes import lines_by_cause, say_by_cause
from ibkeys.cli.listing.folding import indented
from ibkeys.cli.render import IDENTITY, heading_of, schema, write_csv
from ibkeys.cli.showing import LISTED_TROUBLES
from ibkeys.printable import counted
from ibkeys.topology.names.folded import FoldedNames

if TYPE_CHECKING:
    from ibkeys.mkeys.opensm.method import RunListener
    from ibkeys.mkeys.rollout.planned_run import PlannedRun
    from ibkeys.mkeys.rollout.result import PortResult
    from ibkeys.topology.nodes import Port


class ResultRows:
    """The outcome of each port of a command, for programs: as JSON a line when it is known, as CSV all at the end."""

    def __init__(self, command: str, format: str) -> None:
        self._command = command
        self._format = format
        self.kept: list[dict[str, Any]] = []

    def add(self, row: dict[str, Any]) -> bool:
        """Write a row, or keep it. Return whether the output is for programs, so that nothing else is written."""
        if self._format == "json":
            write_exact(json.dumps(row))
            exits.flush()
        else:
            self.kept.append(row)
        return self._format != "table"

    def end(self, document: dict[str, Any]) -> bool:
        """Write what follows the rows as JSON, *document*, or all rows as CSV. Return as `add`."""
        if self._format == "csv":
            write_csv([*IDENTITY, "result", "reason"], self.kept)
            return True
        return self._format == "json" and self.add({"schema": schema(self._command), **document})


class RunOutput:
    """What a run says: each port as it is finished, and the account at the end."""

    def __init__(self, command: str, run: PlannedRun, format: str) -> None:
        self._command = command
        self._run = run
        self._format = format
        self._rows = ResultRows(command, format)
        self._failed: list[tuple[dict[str, Any], str]] = []

    def write_plan(self, put: Callable[[str], None]) -> None:
        """Write what would change: how many ports, what of them, and which are skipped."""
        run = self._run
        if not run.jobs and not run.already_set:
            put(
                "nothing to change"
                + ("; the key store only has to record that the run has ended" if run.pending else "")
            )
        is_told = run.method is not None and run.method.acts
        left = "OpenSM is told to read its options file again" if is_told else "only the key store has to be updated"
        for job in run.already_set:
            put(f"{heading_of(job.port.identity())}: has it already, {left}")
        if run.jobs:
            back = ", restored to what they had" if run.goes_back else ""
            how = "OpenSM sets all of them" if run.method is not None else f"at most {run.options.at_once} at once"
            put(f"{counted(len(run.jobs), 'port')} to change{back}, {how}")
            self._name([job.port for job in run.jobs], put)
        self._write_kinds(put)
        for line in run.method.in_words() if run.method is not None and run.method.acts else ():
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
        self._write_by_name(put)

    def _write_by_name(self, put: Callable[[str], None]) -> None:
        """Write which ports are skipped because they could not be asked, or somebody else changed them: each cause
        once, with their names."""
        skipped = (result for result in self._run.skipped if result.unread or result.overtaken)
        lines = lines_by_cause([(result.port, result.reason or "") for result in skipped], exits.says_all())
        for line, details in lines[:LISTED_TROUBLES]:
            put(f"left alone: {line}")
            exits.show_details(details)
        if len(lines) > LISTED_TROUBLES:
            put(f"left alone: and for {counted(len(lines) - LISTED_TROUBLES, 'more reason')} (all of them: -f json)")

    def _write_kinds(self, put: Callable[[str], None]) -> None:
        """Write what changes: where it does not on all ports, on which."""
        kinds: dict[tuple[str, Any, Any], list[Port]] = {}
        for change in self._run.plan.changes:
            kinds.setdefault((change.kind, change.before, change.after), []).append(change.port)
        for (kind, before, after), ports in kinds.items():
            name = name_of({"kind": kind, "index": None}) if kind != "m_key" else self._key_name()
            put(f"  {name}: {before} -> {after} on {counted(len(ports), 'port')}")
            if len(ports) < len(self._run.jobs):
                self._name(ports, put)

    def _name(self, ports: Iterable[Port], put: Callable[[str], None]) -> None:
        """Name every one of *ports*, hosts folded."""
        names = self._names()
        for line in indented(names, (port.identity() for port in ports)):
            put(line)

    def _names(self) -> FoldedNames:
        found = self._run.found
        return FoldedNames((port.identity() for port in found.ports()), found)

    def _key_name(self) -> str:
        takes_away = all(job.wanted.key.is_zero for job in self._run.jobs)
        if self._run.goes_back or takes_away:
            return "M_Key"
        return "M_Key, one for all" if self._run.options.same else "M_Key, each its own"

    def dry_run(self, is_dry: bool) -> int:
        """Write what would be done to each port, in the order of change, and return the exit code."""
        run = self._run
        for result in run.skipped:
            self.report(result)
            run.account.add(result)
        changes: dict[int, list[dict[str, Any]]] = {}
        for change in run.plan.changes:
            each = {"kind": change.kind, "index": None, "before": change.before, "after": change.after}
            changes.setdefault(id(change.port), []).append(each)
        for job in run.jobs:
            self._planned(job.port.identity(), changes.get(id(job.port), []))
        run.account.waiting = len(run.jobs) + len(run.already_set) + run.later
        self.write_summary(is_dry)
        if run.account.unread or run.account.overtaken:
            return self.exit_code()
        return exits.SAYS_NO if run.pending else exits.DONE

    def _planned(self, port: dict[str, Any], changes: list[dict[str, Any]]) -> None:
        if not self._rows.add({**port, "result": "planned", "reason": None, "changes": changes}):
            listed = ", ".join(f"{name_of(each)} {each['before']} -> {each['after']}" for each in changes)
            write(f"{heading_of(port)}: {listed}")

    def report(self, result: PortResult) -> None:
        """Say the outcome for one port."""
        self._rows.add({**result.port, "result": result.result, "reason": result.reason})
        if result.result == "failed":
            self._failed.append((result.port, result.reason or ""))
            if self._format != "table":
                self._say_failed()

    def _say_failed(self) -> None:
        """Say which ports have failed since this was last said, each cause once."""
        names = self._names() if self._failed and self._format == "table" else None
        say_by_cause(self._failed, "failed", self._format, names)
        self._failed = []

    def write_summary(self, dry_run: bool = False) -> None:
        """Write the account of the run; after a table also what failed, each cause once."""
        self._say_failed()
        account = self._run.account
        name = self._run.method.name if self._run.method is not None else "direct"
        summary = {"unreached": self._run.found.unreached, "via": name, **account.to_json()}
        interlocks = [each.interlock for each in self._run.plan.objections]
        if self._rows.end({"dry_run": dry_run, "summary": summary, "interlocks": interlocks}):
            return
        if dry_run:
            write("dry run: nothing was changed")
        if not account.operation:
            return  # it was never begun
        write(
            f"operation {account.operation}: {counted(account.done, 'port')} done, {account.failed} failed, "
            f"{account.skipped} left alone, {account.waiting} waiting"
        )
        if account.replies_lost or account.sets_lost:
            write(
                f"  replies lost after the Set took effect: {account.replies_lost}; Sets that never arrived: "
                f"{account.sets_lost}"
            )
        if account.violations and self._run.method is None:
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
        account, run = self._run.account, self._run
        if account.stopped:
            yield f"stopped: {account.stopped}"
        if account.gone_back:
            yield "rolled back: nobody confirmed it, so the level was lowered; the M_Key and the lease stay"
            yield "next: `ibkeys resume` raises the level again, `ibkeys undo` restores the former state"
        elif run.goes_back:
            if account.failed or account.waiting:
                yield "next: `ibkeys resume` continues with those that are not restored"
        elif account.failed or account.stopped or (account.waiting and not run.later):
            yield "next: `ibkeys resume` finishes the run, `ibkeys undo` rolls it back"
        elif run.later:
            yield "next: check the ports, then `ibkeys resume` for the others, or `ibkeys undo`"
        elif self._command == "mkey-deploy" and account.done:
            yield "save the keys: `ibkeys keystore backup FILE`, and keep a copy on another host"

    def exit_code(self) -> int:
        """Return the exit code, and say on standard error what is missing."""
        account = self._run.account
        if account.is_complete:
            return exits.DONE
        missing = [f"{counted(account.failed, 'port')} failed"] if account.failed else []
        missing += [f"{counted(account.unread, 'port')} could not be queried"] if account.unread else []
        if account.overtaken:
            has = "port has" if account.overtaken == 1 else "ports have"
            missing.append(f"{account.overtaken} {has} what this run neither found nor set")
        missing += [f"{counted(account.waiting, 'port')} not begun"] if account.stopped else []
        if account.gone_back:
            exits.warn("the run was rolled back: nobody confirmed it", "error")
        if not missing:
            return exits.NOT_COMPLETED
        exits.warn(f"the run is not complete: {', '.join(missing)}{self._ways()}", "error")
        return exits.NOT_COMPLETED

    def _ways(self) -> str:
        """Return what helps with ports that could not be queried, or that somebody else changed; "" where none is."""
        from ibkeys.mkeys.rollout.beginning import LastRun
        from ibkeys.mkeys.rollout.earlier_run import command_that_closes

        run, ways = self._run, ""
        last = run.beginning.last if isinstance(run.beginning, LastRun) else None
        if run.account.unread:
            ways = (
                "; `ibkeys mkey-import` brings the keys of ports that hide theirs, from another key store or from "
                "OpenSM's files; `ibkeys mkey-recover` finds those that no store has; then type "
                + ("`ibkeys resume`" if last is not None else "the same command")
            )
        if run.account.overtaken and last is not None and not run.goes_back:
            ways += f"; to keep what is there, when no other port is left: `{command_that_closes(last)}`"
        return ways


def run_listener() -> RunListener:
    """Return what says on standard error how far a run through OpenSM is: what the user has to do, and each step once
    when it begins and once when all ports have it."""
    from ibkeys.mkeys.opensm.method import RunListener

    said: tuple[str, bool] = ("", False)

    def tell(step: str, done: int, whole: int) -> None:
        nonlocal said
        state = (step, done == whole)
        if state != said:
            said = state
            exits.warn(f"{step}: {done} of {whole}", "step")

    return RunListener(lambda text: exits.warn(text, "to do"), tell)

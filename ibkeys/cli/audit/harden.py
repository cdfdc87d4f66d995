"""Harden a fabric while OpenSM runs: an audit, one plan made from its findings, and the audit again."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ibkeys.cli import exits, options
from ibkeys.cli.audit.goal import Goal, GoalAudit, goal
from ibkeys.cli.changing import ShownChange, writer_of
from ibkeys.cli.documents.hardening import HARDEN
from ibkeys.cli.exits import clean, write
from ibkeys.cli.given import given_options
from ibkeys.cli.help.command import command
from ibkeys.cli.opening import is_simulated, open_fabric
from ibkeys.cli.render import write_document
from ibkeys.cli.screen.colour import paint
from ibkeys.cli.sm.files_request import FilesChangeOptions, files_change_options
from ibkeys.cli.sm.hosts import hosts_of
from ibkeys.cli.sm.policy import is_opensm, require_file
from ibkeys.errors import UsageError

if TYPE_CHECKING:
    from ibkeys.audit.findings import Report
    from ibkeys.harden.findings import RemainingFinding
    from ibkeys.harden.hardening import Hardening, PlannedStep
    from ibkeys.harden.step import HardenRequest
    from ibkeys.scripting import Fabric

_NOT_ASKED: Final = (
    "a dry run does not ask the SA whether it takes OpenSM's default SA_Key; the real run asks, before its first step "
    "and after its last, and an OpenSM with another sa_key then writes that to its log, in clear (ERR 1A04): close the "
    "log first"
)


@command("harden")
@options.via_opensm_only("Through OpenSM")
@goal
@options.removed_option("--abort", "undo ID", is_flag=True)
@options.removed_option("--overtaken", "resume --overtaken", is_flag=True)
@options.refused_option("--first", "is not for harden: OpenSM changes all ports of a step in one sweep")
@options.refused_option(
    "--confirm-within", "is not for harden: SM keys never return, `ibkeys undo ID` takes back other steps"
)
@files_change_options("command_options", FilesChangeOptions)
def harden(command_options: FilesChangeOptions, wanted: Goal) -> int:
    """Fix what an audit finds, through OpenSM while it runs.

    Audits the fabric, shows one plan of several steps in a safe order, asks once, and makes the steps one by one.
    Each step is proven before the next begins, and the plan names how to roll it back. P_Keys change only with
    --policy. The same command continues a run that was interrupted. At the end the fabric is audited again, and the
    remaining findings are listed with their remedies. Exit status 1: findings at the severity of --fail-on or worse
    remain.
    """
    from ibkeys.apply.apply import Permissions
    from ibkeys.cli.mkeys.rollout_output import run_listener
    from ibkeys.harden.step import HardenRequest

    where, consent = command_options.where, command_options.consent
    if is_simulated(where):
        raise UsageError("a simulated subnet has no OpenSM on any host")
    _require_file(wanted.policy_to_reach)
    audit = GoalAudit(where, wanted)
    request = HardenRequest(
        hosts_of(where, command_options.sm_hosts),
        command_options.sm_wait,
        wanted.lease,
        audit.given["policy"],
        Permissions(wanted.allow_removals, wanted.allow_break),
        run_listener(),
        lambda text: exits.warn(text, "step"),
        consent.dry_run,
    )
    with open_fabric(where, changing=True) as fabric:
        from ibkeys.harden.hardening import plan_hardening

        writer = writer_of(fabric, "harden", consent)  # used only for its consent: each step opens a writer of its own
        report = audit.run(fabric, consent.dry_run)
        plan = plan_hardening(fabric, writer.consent, request, report, wanted.fail_on)
        if consent.dry_run:
            plan.notes.append(_NOT_ASKED)
        if plan.refusals and not consent.dry_run:
            raise plan.refusals[0]
        return _ShownHardening(
            writer, plan, consent, command_options.format, fabric, request, audit, report
        ).carry_out()


def _require_file(policy: str | None) -> None:
    """Raise UsageError for a policy that is not a file."""
    if is_opensm(policy):
        raise UsageError("--policy opensm changes nothing: OpenSM already has that policy; name a file")
    if policy is not None:
        require_file(
            policy,
            "--policy needs a file: harden writes it over OpenSM's own policy, and where UFM runs OpenSM, UFM would "
            "overwrite that; use `ibkeys plan ufm:URL` and `ibkeys apply PLAN --via ufm:URL`",
        )


@dataclass
class _ShownHardening(ShownChange):
    """A hardening, shown step by step. ``audit_report``: the report of the last audit, before or after the steps."""

    plan: Hardening
    fabric: Fabric
    request: HardenRequest
    audit: GoalAudit
    audit_report: Report

    def show(self, put: Callable[[str], None]) -> None:
        """Write each step with its rules and how to roll it back, then the findings that no step fixes."""
        if not self.plan.steps:
            put("nothing to do: no finding that this command can fix")
        for number, each in enumerate(self.plan.steps, 1):
            _show_step(number, each, put)
        remaining = [each for each in self._remaining() if not each.is_fixable]
        if remaining:
            put("this command cannot fix:")
            _show_remaining(remaining, put)

    def apply(self) -> None:
        """Make the steps, then audit again."""
        from ibkeys.harden.hardening import make

        say = partial(exits.warn, kind="now")
        make(self.fabric, self.writer.consent, self.request, self.plan, given_options(), say)
        self.audit_report = self.audit.run(self.fabric)

    def report(self, applied: bool) -> int:
        """Write the audit and the remaining findings, and return the exit code."""
        exits.warn_each(self.plan.unmade, "not done")
        remaining = self._remaining()
        rows = [each.to_json() for each in remaining]
        if not write_document(self.format, HARDEN, lambda: self._document(applied, rows), rows):
            self._write_table(remaining)
        if self.consent.dry_run:
            return exits.SAYS_NO if self.plan.pending else exits.DONE
        if self.plan.unmade or not self.audit_report.coverage.is_complete:
            return exits.NOT_COMPLETED
        return exits.SAYS_NO if self.audit_report.fails_at(self.audit.goal.fail_on) else exits.DONE

    def _remaining(self) -> list[RemainingFinding]:
        from ibkeys.harden.findings import remaining_findings
        from ibkeys.harden.hardening import STEPS

        steps = [step.name for step in STEPS if step.is_asked_for(self.request)]
        return remaining_findings(self.audit_report, self.audit.goal.fail_on, steps)

    def _document(self, applied: bool, remaining: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "dry_run": self.consent.dry_run,
            "applied": applied,
            "steps": [each.to_json() for each in self.plan.steps],
            "notes": list(self.plan.notes),
            "interlocks": [each.interlock for each in self.plan.objections],
            "unmade": list(self.plan.unmade),
            "left": remaining,
            "audit": self.audit_report.to_json(),
        }

    def _write_table(self, remaining: list[RemainingFinding]) -> None:
        from ibkeys.cli.audit.text import write_table_report

        if self.consent.dry_run:
            write("dry run: nothing was changed")
            return
        write("")
        write_table_report(self.audit_report, with_remedy=False, folded=sys.stdout.isatty())
        severity = self.audit.goal.fail_on
        write(f"\nremaining, {severity} or worse:" if remaining else f"\nno remaining finding is {severity} or worse")
        _show_remaining(remaining, write)


def _show_step(number: int, each: PlannedStep, put: Callable[[str], None]) -> None:
    rules = f" (for {', '.join(each.rules)})" if each.rules else ""
    put(f"step {number}: {each.step.title}{rules}")
    change = each.change
    if change is None:
        put("  its effect is not known: it would be refused")
        return
    for words in change.words:
        put(clean(f"  {words}"))
    put(clean(f"  to roll back: {change.rollback}"))


def _show_remaining(remaining: list[RemainingFinding], put: Callable[[str], None]) -> None:
    for each in remaining:
        finding = each.finding
        put(f"  {finding.rule}  {paint(finding.severity, finding.severity)}  {finding.title}: {each.remedy}")

"""The command `apply`: apply a plan to the fabric, and resume or close an earlier apply."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ibkeys.cli import exits, options
from ibkeys.cli.changing import end_overtaken, require_typed_method, writer_of
from ibkeys.cli.guarding import command_for_child, discard_typed, hand_over, wait_for_enter
from ibkeys.cli.help.command import command
from ibkeys.cli.listing.folding import gives_each
from ibkeys.cli.opening import open_fabric, stores_of
from ibkeys.cli.options import ViaOptions
from ibkeys.cli.partitions.many_ports import ManyPortsChange, ManyPortsOptions, StepsBar, many_ports_options
from ibkeys.cli.site import most_unrehearsed
from ibkeys.cli.sm.hosts import hosts_of
from ibkeys.cli.sm.ufm import open_ufm
from ibkeys.errors import UsageError

if TYPE_CHECKING:
    from ibkeys.apply.apply import Permissions
    from ibkeys.apply.apply_plan import ApplyHooks, ApplyPlan
    from ibkeys.apply.by_sm.changed_together import ChangedTogether
    from ibkeys.apply.carriers import CarrierChoice
    from ibkeys.change.confirming.guardian import Guardian
    from ibkeys.change.consent import Objection, Question
    from ibkeys.change.writer import ChangeWriter
    from ibkeys.plan.model import PartitionPlan


@dataclass(frozen=True, slots=True)
class _ApplyOptions:
    """The options of `apply`: permissions, extent, confirmation and method."""

    allow_removals: bool = options.field_of(options.allow_removals, default=False)
    allow_break: bool = options.field_of(options.allow_break, default=False)
    first: int | None = options.number_field(
        "--first", 1, 65535, "N", "Change only the next N leaf switches; `ibkeys resume` continues.", env=False
    )
    confirm_within: int | None = options.field_of(
        options.confirm_within("Roll back unless confirmed within S seconds.")
    )
    through: ViaOptions = options.field_of(options.opensm)
    rewrite: bool = options.flag_field(
        "--rewrite", help="With --via opensm: let OpenSM rewrite every table first; see the interlock drift."
    )


@command("apply")
@click.argument("plan", required=False, type=click.Path(path_type=Path), metavar="PLAN")
@options.removed_option("--resume", "resume", is_flag=True)
@options.removed_option("--overtaken", "resume --overtaken", is_flag=True)
@options.removed_option("--confirm", "confirm")
@many_ports_options(_ApplyOptions)
def apply(command_options: ManyPortsOptions, choices: _ApplyOptions, plan: Path | None) -> int:
    """Apply a plan to the fabric.

    PLAN is the file that `ibkeys plan --out` wrote. If an OpenSM is master, the change goes through it: the plan's
    policy replaces OpenSM's own, and OpenSM writes the tables. Name its host with --sm-host; if UFM runs it, use --via
    ufm:URL. If no subnet manager runs, ibkeys sends the Sets, which last only until one runs. During the change, no
    pair of ports is disconnected or connected unless the plan names it. Every value is saved in the journal before it
    is overwritten, and the result is verified by a fresh read. `ibkeys undo` rolls back.
    """
    from ibkeys.apply.apply import Permissions

    if plan is None:
        raise UsageError(
            "nothing to apply: give a PLAN that `ibkeys plan --out PLAN` wrote; `ibkeys resume` finishes an earlier "
            "apply"
        )
    each = gives_each(command_options.folding, command_options.format)
    permissions = Permissions(choices.allow_removals, choices.allow_break, choices.first)
    request = ApplyRequest(command_options, each, permissions, choices.through, plan, choices.rewrite)
    return carry_out(request, choices.confirm_within)


@dataclass(frozen=True, slots=True)
class ApplyRequest:
    """The request for an apply.

    ``path``: the file of the plan for a new apply; ``plan``: the plan of a new apply that is in no file, with
    ``command``, which made it for ``subject``, and ``questions`` and ``objections`` about it; ``operation``: the number
    of an earlier apply to resume or close. One of the three is given. ``each``: whether each port gets a row.
    ``rewrite``: whether OpenSM first rewrites every table. ``changed_together``: the files and places that change
    together with the policy.
    """

    command_options: ManyPortsOptions
    each: bool
    permissions: Permissions
    through: ViaOptions
    path: Path | None = None
    rewrite: bool = False
    operation: int | None = None
    plan: PartitionPlan | None = None
    command: str = "apply"
    subject: str = ""
    questions: tuple[Question, ...] = ()
    objections: tuple[Objection, ...] = ()
    changed_together: ChangedTogether | None = None

    def via(self) -> CarrierChoice:
        """Return the data for choosing the carrier: the method if one was typed, settings, hosts, and access to UFM."""
        from ibkeys.apply.by_sm.changed_together import ChangedTogether
        from ibkeys.apply.by_sm.course import CarrierSettings
        from ibkeys.apply.carriers import CarrierChoice
        from ibkeys.managers.ufm.access import is_ufm

        changed_together = self.changed_together or ChangedTogether()
        settings = CarrierSettings(
            self.through.sm_wait, self.permissions.breaks, self.rewrite, changed_together=changed_together
        )
        hosts, name = hosts_of(self.command_options.where, self.command_options.sm_hosts), self.through.via
        name, url = ("ufm", name) if name is not None and is_ufm(name) else (name, "")
        return CarrierChoice(
            name, settings, hosts, self.command_line(), url, partial(open_ufm, ufm_options=self.command_options.ufm)
        )

    def command_line(self) -> str:
        """Return the command line to repeat this request: the plan or operation, and the permissions."""
        if self.plan is not None:
            return f"ibkeys {self.command}"  # without --via: a command that edits a policy has no such option
        words = ["ibkeys", *(["apply", str(self.path)] if self.path is not None else ["resume", str(self.operation)])]
        permitted = {"--allow-removals": self.permissions.removals, "--allow-break": self.permissions.breaks}
        return shlex.join([*words, *(word for word, given in permitted.items() if given)])


def end_record(request: ApplyRequest) -> int:
    """Close an earlier apply, and return the exit code.

    This is for an apply whose values another program or administrator has changed since, or whose ports are gone.
    Raises UsageError for any other apply, and Refused without confirmation.
    """
    from ibkeys.apply.closing import RecordEnding

    with (
        open_fabric(request.command_options.where, changing=True) as fabric,
        writer_of(fabric, "apply", request.command_options.consent, request.operation) as writer,
    ):
        ending = RecordEnding(writer, request.via(), operation=request.operation, say=exits.note)
        return end_overtaken(
            request.command_options.consent,
            ending.why_it_may_end(),
            ending.close,
            f"operation {request.operation}, and ports that are there are left: `ibkeys journal` says what goes on",
        )


def carry_out(request: ApplyRequest, confirm_within: int | None) -> int:
    """Apply a plan, or resume an earlier apply, and return the exit code.

    *confirm_within*: the seconds within which the change must be confirmed; None if it needs no confirmation. Raises
    UsageError for a plan that cannot be read and for options that the method does not have; FileFormatError for a plan
    with a mistake; Refused for an interlock, and if the user does not confirm the plan; and the errors of the change.
    """
    from ibkeys.apply.apply_plan import ApplyHooks
    from ibkeys.apply.confirm import add_confirmation
    from ibkeys.change.interrupts import Interrupts
    from ibkeys.plan.document_reader import read_plan

    command_options = request.command_options
    where, consent = command_options.where, command_options.consent
    partition_plan = read_plan(request.path) if request.path is not None else request.plan
    awaits_confirmation = confirm_within is not None and not consent.dry_run
    guardian = _guardian(request, confirm_within) if confirm_within is not None and awaits_confirmation else None
    try:
        with open_fabric(where, changing=True) as fabric:
            interrupts, bar = Interrupts(survive_hangup=awaits_confirmation), StepsBar(where.debug)
            if guardian is not None:
                hand_over(guardian, where, fabric)
            hooks = ApplyHooks(interrupts.check, bar)
            if confirm_within is not None:
                wait = wait_for_enter(interrupts)
                add_confirmation(hooks, confirm_within, guardian, wait, exits.note, bar.stop, discard_typed)
            with writer_of(fabric, request.command, consent, request.operation, request.subject) as writer:
                plan = _plan(request, writer, partition_plan, hooks)
                shown = ManyPortsChange(writer, plan, consent, command_options.format, request.each, interrupts, bar)
                return shown.carry_out()
    finally:
        if guardian is not None and guardian.close():
            exits.note("the change is not rolled back yet: a background process tries again for about an hour")


def _plan(
    request: ApplyRequest, writer: ChangeWriter, partition_plan: PartitionPlan | None, hooks: ApplyHooks
) -> ApplyPlan:
    from ibkeys.apply.apply import plan_apply, plan_resume
    from ibkeys.apply.carriers import carrier_for

    if request.operation is not None:
        return plan_resume(writer, request.permissions, hooks, via=request.via(), operation=request.operation)
    assert partition_plan is not None
    carrier = carrier_for(writer, request.via(), partition_plan)
    if request.rewrite and not carrier.can_rewrite:
        raise UsageError(f"--rewrite is for a change through OpenSM, and the method is {carrier.name}: omit it")
    require_typed_method(request.command_options.consent, carrier.choice)
    plan = plan_apply(writer, partition_plan, request.permissions, hooks, carrier, most_unrehearsed())
    plan.questions += request.questions
    plan.objections[:0] = request.objections
    return plan


def _guardian(request: ApplyRequest, seconds: int) -> Guardian | None:
    """Start the process that rolls the change back if this process dies, and return it.

    *seconds*: how long the change waits for its confirmation. Returns None for a journal in memory, which dies with
    this process.
    """
    from ibkeys.apply.confirm import rollback_arguments, start_guardian

    command_options = request.command_options
    stores = stores_of(command_options.where)
    if stores.journal is None:
        return None
    words = rollback_arguments(request.through.sm_wait)
    command = command_for_child(words, command_options.where, stores, command_options.sm_hosts, command_options.ufm)
    return start_guardian(stores.journal, command, seconds)

"""Apply a plan to the fabric; an earlier apply that goes on does so in the same way."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ibkeys.cli import exits, options
from ibkeys.cli.changing import end_overtaken, writer_of
from ibkeys.cli.guarding import command_for_child, wait_for_enter
from ibkeys.cli.help.command import command
from ibkeys.cli.listing.folding import gives_each
from ibkeys.cli.opening import open_fabric, stores_of
from ibkeys.cli.options import Changing, Folding, SmHosts, ViaOptions, Where
from ibkeys.cli.partitions.many_ports import Bar, ManyPortsChange
from ibkeys.cli.sm.hosts import hosts_of
from ibkeys.cli.sm.ufm import UfmOptions, open_ufm, ufm_options
from ibkeys.cli.types import Number
from ibkeys.errors import UsageError

if TYPE_CHECKING:
    from ibkeys.apply.apply import Permissions
    from ibkeys.apply.apply_plan import ApplyHooks, ApplyPlan, FinishedApply
    from ibkeys.apply.carriers import Via
    from ibkeys.change.confirming.guardian import Guardian
    from ibkeys.change.interrupts import Interrupts
    from ibkeys.change.writer import Writer
    from ibkeys.plan.model import PartitionPlan
    from ibkeys.store.journal import Operation
    from ibkeys.store.paths import StorePaths


@command("apply")
@click.argument("plan", required=False, type=click.Path(path_type=Path), metavar="[PLAN]")
@options.allow_removals
@options.allow_break
@options.option(
    "--first",
    env=False,
    type=Number(1, 65535),
    metavar="N",
    help="Change only the next N leaf switches; `ibkeys resume` continues.",
)
@options.confirm_within("Roll back unless confirmed within S seconds.")
@options.replaced("--resume", "resume", is_flag=True)
@options.replaced("--overtaken", "resume --overtaken", is_flag=True)
@options.replaced("--confirm", "confirm")
@options.opensm
@options.flag("--rewrite", help="With --via opensm: let OpenSM rewrite every table first; see the interlock drift.")
@options.sm_hosts
@ufm_options
@options.changing
@options.folding
@options.format
@options.fabric
def apply(
    where: Where,
    ufm: UfmOptions,
    consent: Changing,
    sm_hosts: SmHosts,
    through: ViaOptions,
    folding: Folding,
    format: str,
    plan: Path | None,
    allow_removals: bool,
    allow_break: bool,
    first: int | None,
    confirm_within: int | None,
    rewrite: bool,
) -> int:
    """Apply a plan to the fabric.

    PLAN is the file that `ibkeys plan --out` wrote. If an OpenSM is master, use --via opensm: the plan's policy
    replaces OpenSM's own, and OpenSM writes the tables. If UFM runs it, use --via ufm:URL. Without --via the change
    lasts only while no subnet manager runs. During the change, no pair of ports is disconnected or connected unless the
    plan names it. Every value is saved in the journal before it is overwritten, and the result is verified by a fresh
    read. `ibkeys undo` rolls back.
    """
    from ibkeys.apply.apply import Permissions

    if plan is None:
        raise UsageError(
            "nothing to apply: give a PLAN that `ibkeys plan --out PLAN` wrote; `ibkeys resume` finishes an earlier "
            "apply"
        )
    if through.via not in (None, "direct") and first is not None:
        raise UsageError("--first counts leaf switches, but OpenSM and UFM apply a change to all of them: omit it")
    if rewrite and through.via != "opensm":
        raise UsageError("--rewrite needs --via opensm")
    each = gives_each(folding, format)
    permissions = Permissions(allow_removals, allow_break, first)
    asked = ApplyRequest(where, consent, each, format, permissions, through, sm_hosts, ufm, plan, rewrite)
    return carry_out(asked, confirm_within)


@dataclass(frozen=True, slots=True)
class ApplyRequest:
    """What the command line asks of an apply: of a new one ``path``, the file of its plan; of an earlier one its
    ``operation``."""

    where: Where
    consent: Changing
    each: bool
    format: str
    permissions: Permissions
    through: ViaOptions
    sm_hosts: SmHosts
    ufm: UfmOptions
    path: Path | None = None
    rewrite: bool = False
    operation: int | None = None

    def via(self) -> Via:
        """Return which way it shall go."""
        from ibkeys.apply.by_sm.course import Settings
        from ibkeys.apply.carriers import Via
        from ibkeys.ufm.access import is_ufm

        settings = Settings(self.through.sm_wait, self.permissions.breaks, self.rewrite)
        hosts, name = hosts_of(self.where, self.sm_hosts), self.through.via
        name, url = ("ufm", name) if name is not None and is_ufm(name) else (name, "")
        return Via(name, settings, hosts, self.command(), url, partial(open_ufm, given=self.ufm))

    def command(self) -> str:
        """Return what was typed, as far as it says what is to be done."""
        words = ["ibkeys", *(["apply", str(self.path)] if self.path is not None else ["resume", str(self.operation)])]
        permitted = {"--allow-removals": self.permissions.removals, "--allow-break": self.permissions.breaks}
        return shlex.join([*words, *(word for word, given in permitted.items() if given)])


def _read(path: Path) -> PartitionPlan:
    from ibkeys.plan.document_reader import read_plan

    try:
        return read_plan(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None


def end_record(asked: ApplyRequest) -> int:
    """End the record of an earlier apply, because somebody else has changed what it set, or its ports are gone."""
    from ibkeys.apply.closing import Ending

    with (
        open_fabric(asked.where, changing=True) as fabric,
        writer_of(fabric, "apply", asked.consent, asked.operation) as writer,
    ):
        ending = Ending(writer, asked.via(), operation=asked.operation, say=exits.note)
        return end_overtaken(
            asked.consent,
            ending.refuse,
            ending.close,
            f"operation {asked.operation}, and ports that are there are left: `ibkeys journal` says what goes on",
        )


def carry_out(asked: ApplyRequest, confirm_within: int | None) -> int:
    """Apply a plan, or go on with an earlier apply. *confirm_within*: the seconds in which somebody has to confirm it,
    None if it needs no confirmation."""
    from ibkeys.apply.apply_plan import ApplyHooks
    from ibkeys.change.interrupts import Interrupts

    where, consent = asked.where, asked.consent
    document = _read(asked.path) if asked.path is not None else None
    waits = confirm_within is not None and not consent.dry_run
    guardian = _guardian(asked, confirm_within) if confirm_within is not None and waits else None
    try:
        with open_fabric(where, changing=True) as fabric:
            interrupts, bar = Interrupts(survive_hangup=waits), Bar(where.debug)
            if guardian is not None and where.m_key and not where.m_key.startswith("@"):
                guardian.keep_key(fabric.ring.for_all)
            run = ApplyHooks(interrupts.check, bar)
            if confirm_within is not None:
                _arm(run, confirm_within, interrupts, bar, guardian)
            with writer_of(fabric, "apply", consent, asked.operation) as writer:
                apply_plan = _plan(asked, writer, document, run)
                shown = ManyPortsChange(writer, apply_plan, consent, asked.format, asked.each, interrupts, bar)
                return shown.carry_out()
    finally:
        if guardian is not None and guardian.leave():
            exits.note("it is not rolled back yet: a background process tries again for about an hour")


def _plan(asked: ApplyRequest, writer: Writer, document: PartitionPlan | None, run: ApplyHooks) -> ApplyPlan:
    from ibkeys.apply.apply import plan_apply, plan_resume
    from ibkeys.apply.carriers import carrier_of

    if asked.operation is not None:
        return plan_resume(writer, asked.permissions, run, via=asked.via(), operation=asked.operation)
    assert document is not None
    return plan_apply(writer, document, asked.permissions, run, carrier_of(writer, asked.via()))


def _guardian(asked: ApplyRequest, seconds: int) -> Guardian | None:
    """Start the process that rolls back when this one dies; a journal in memory dies with it, so there is none."""
    from ibkeys.change.confirming.confirmation import is_unconfirmed, may_go_back
    from ibkeys.change.confirming.guardian import Guardian

    stores = stores_of(asked.where)
    journal = stores.journal
    if journal is None:
        return None
    command = undo_command(asked.where, stores, asked.sm_hosts, asked.ufm)
    return Guardian(command, partial(is_unconfirmed, journal), seconds, partial(may_go_back, journal))


def undo_command(where: Where, stores: StorePaths, sm_hosts: SmHosts, ufm: UfmOptions | None = None) -> list[str]:
    """Return the command line of an ``undo`` that asks nothing, without the operation and the M_Key."""
    from ibkeys.change.consent import INTERLOCKS

    overrides = [f"--override={name}" for name in INTERLOCKS]
    words = ["undo", "--unconfirmed", "--yes", "--force", "--at-once", "--allow-break", *overrides]
    return command_for_child(words, where, stores, sm_hosts, ufm)


def _arm(run: ApplyHooks, seconds: int, interrupts: Interrupts, bar: Bar, guardian: Guardian | None) -> None:
    """Let a run wait for its confirmation, here and, should this process die, in the guardian."""
    from ibkeys.apply.confirm import confirm_or_go_back

    def began(operation: Operation) -> None:
        if guardian is not None and operation.id is not None:
            guardian.began(operation.id, len(operation.journal.find(operation.id).starts))

    def ended(finished: FinishedApply) -> None:
        bar.stop()
        if guardian is not None:
            guardian.send("waiting")
        confirm_or_go_back(finished, seconds, time.monotonic, wait_for_enter(interrupts), exits.note)

    run.began, run.ended, run.confirm_within = began, ended, seconds

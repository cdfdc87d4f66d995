"""Make a plan true on the fabric; finish, confirm."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ibkeys.cli import exits, options
from ibkeys.cli.changing import writer_of
from ibkeys.cli.opening import journal_of, open_fabric, stores_of
from ibkeys.cli.options import Changing, Where
from ibkeys.cli.partitions.many_ports import Bar, ManyPortsChange, wait_for_enter
from ibkeys.cli.types import Number
from ibkeys.errors import UsageError

if TYPE_CHECKING:
    from ibkeys.apply.apply import Permissions
    from ibkeys.apply.apply_plan import ApplyHooks, FinishedApply
    from ibkeys.apply.guardian import Guardian
    from ibkeys.change.interrupts import Interrupts
    from ibkeys.plan.model import PartitionPlan
    from ibkeys.store.journal import Operation
    from ibkeys.store.paths import StorePaths

MOST_SECONDS: Final = 86_400


@click.command("apply")
@click.argument("plan", required=False, type=click.Path(path_type=Path), metavar="[PLAN]")
@options.option(
    "--allow-removals", env=False, is_flag=True, help="Remove P_Keys where the plan says so; full to limited is one."
)
@options.option("--allow-break", env=False, is_flag=True, help="Cut the pairs that the plan names for a moment.")
@options.option(
    "--first", env=False, type=Number(1, 65535), metavar="N", help="At most N leaf switches now; --resume goes on."
)
@options.option("--resume", env=False, is_flag=True, help="Finish the last apply that was interrupted or stopped.")
@options.option(
    "--confirm-within",
    env=False,
    type=Number(1, MOST_SECONDS),
    metavar="S",
    help="Go back unless confirmed within S seconds.",
)
@options.option(
    "--confirm", env=False, type=Number(1, 2**31), metavar="ID", help="Confirm the apply that waits for it."
)
@options.changing
@options.format
@options.fabric
def apply(
    where: Where,
    consent: Changing,
    format: str,
    plan: Path | None,
    allow_removals: bool,
    allow_break: bool,
    first: int | None,
    resume: bool,
    confirm_within: int | None,
    confirm: int | None,
) -> int:
    """Make a plan true on the fabric.

    PLAN is the file that `ibkeys plan --out` wrote. Additions go out everywhere first, then removals; where a partition
    is reused, who leaves it comes before who enters it. What is overwritten is in the journal before each Set, and
    everything is verified by a fresh read. `ibkeys undo` goes back.
    """
    from ibkeys.apply.apply import Permissions

    if confirm is not None:
        others = plan, first, confirm_within
        if any(each is not None for each in others) or resume or allow_removals or allow_break or consent.dry_run:
            raise UsageError("--confirm ID stands alone: it confirms what another apply has made")
        return _confirm(where, confirm)
    if plan is None and not resume:
        raise UsageError("nothing to apply: name a PLAN, as `ibkeys plan --out PLAN` makes it, or --resume")
    document = _read(plan) if plan is not None else None
    permissions = Permissions(allow_removals, allow_break, first)
    return _apply(where, consent, format, document, permissions, resume, confirm_within)


def _read(path: Path) -> PartitionPlan:
    from ibkeys.plan.document_reader import read_plan

    try:
        return read_plan(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None


def _confirm(where: Where, operation: int) -> int:
    from ibkeys.apply.confirm import confirm
    from ibkeys.store.journal import Journal

    with Journal(journal_of(where), create=False) as journal:
        fresh = confirm(journal, operation)
    exits.write(f"operation {operation} is confirmed" if fresh else f"operation {operation} was confirmed already")
    return exits.DONE


def _apply(
    where: Where,
    consent: Changing,
    format: str,
    plan: PartitionPlan | None,
    permissions: Permissions,
    resume: bool,
    confirm_within: int | None,
) -> int:
    from ibkeys.apply.apply import plan_apply, plan_resume
    from ibkeys.apply.apply_plan import ApplyHooks
    from ibkeys.change.interrupts import Interrupts

    waits = confirm_within is not None and not consent.dry_run
    guardian = _guardian(where, confirm_within) if confirm_within is not None and waits else None
    try:
        with open_fabric(where, changing=True) as fabric:
            interrupts, bar = Interrupts(survive_hangup=waits), Bar(where.debug)
            if guardian is not None and where.m_key and not where.m_key.startswith("@"):
                guardian.keep_key(fabric.ring.for_all)
            run = ApplyHooks(interrupts.check, bar)
            if confirm_within is not None:
                _arm(run, confirm_within, interrupts, bar, guardian)
            with writer_of(fabric, "apply", consent) as writer:
                if resume:
                    apply_plan = plan_resume(writer, permissions, run, plan)
                else:
                    assert plan is not None
                    apply_plan = plan_apply(writer, plan, permissions, run)
                return ManyPortsChange(writer, apply_plan, consent, format, interrupts, bar).carry_out()
    finally:
        if guardian is not None:
            guardian.leave()


def _guardian(where: Where, seconds: int) -> Guardian | None:
    """Start the process that goes back when this one dies; a journal in memory dies with it, so there is none."""
    from ibkeys.apply.guardian import Guardian

    stores = stores_of(where)
    if stores.journal is None:
        return None
    return Guardian(undo_command(where, stores), stores.journal, seconds)


def undo_command(where: Where, stores: StorePaths) -> list[str]:
    """Return the command line of an ``undo`` that asks nothing, without the operation and the M_Key."""
    from ibkeys.change.consent import INTERLOCKS

    values = {
        "Ca": where.ca,
        "Port": where.port,
        "backend": where.backend,
        "at": where.at,
        "timeout": where.timeout,
        "retries": where.retries,
        "outstanding_smps": where.outstanding_smps,
        "m_key": where.m_key if where.m_key and where.m_key.startswith("@") else None,
        "security-keys": where.security_keys,
        "keystore": stores.keystore,
        "journal": stores.journal,
        "node-name-map": where.node_name_map,
        "config": where.config,
    }
    return [
        *(sys.executable, "-m", "ibkeys", "undo", "--yes", "--force", "--allow-break"),
        *(f"--override={name}" for name in INTERLOCKS),
        *(f"--{name}={value}" for name, value in values.items() if value is not None),
        *(["--trust-topology"] if where.trust_topology else []),
    ]


def _arm(run: ApplyHooks, seconds: int, interrupts: Interrupts, bar: Bar, guardian: Guardian | None) -> None:
    """Let a run wait for its confirmation, here and, should this process die, in the guardian."""
    from ibkeys.apply.confirm import confirm_or_go_back

    def began(operation: Operation) -> None:
        if guardian is not None and operation.id is not None:
            guardian.began(operation.id)

    def ended(finished: FinishedApply) -> None:
        bar.stop()
        if guardian is not None:
            guardian.send("waiting")
        confirm_or_go_back(finished, seconds, time.monotonic, wait_for_enter(interrupts), _say)

    run.began, run.ended = began, ended


def _say(text: str) -> None:
    exits.warn(text, "note")

"""Restore what an operation overwrote."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

import click

from ibkeys.cli import options
from ibkeys.cli.changing import writer_of
from ibkeys.cli.help.command import command
from ibkeys.cli.listing.folding import gives_each
from ibkeys.cli.opening import open_fabric
from ibkeys.cli.options import Changing, Folding, SmHosts, Where
from ibkeys.cli.partitions.many_ports import Bar, ManyPortsChange
from ibkeys.cli.sm.hosts import hosts_of
from ibkeys.cli.sm.ufm import UfmOptions, open_ufm, ufm_options
from ibkeys.cli.types import Number


@dataclass(frozen=True, slots=True)
class _Choices:
    """What the rollback may do, and how long the subnet manager is waited for."""

    allow_break: bool
    at_once: bool
    sm_wait: int
    unconfirmed: bool


_choices: Final = options.group(
    "choices",
    _Choices,
    options.option(
        "--allow-break",
        env=False,
        is_flag=True,
        help="Allow the temporary loss of connectivity that undo lists.",
    ),
    options.option(
        "--at-once",
        env=False,
        is_flag=True,
        help="Through OpenSM or UFM: restore the former policy in one step, even if that briefly disconnects pairs.",
    ),
    options.wait_for_sm,
    options.option(
        "--unconfirmed",
        env=False,
        is_flag=True,
        hidden=True,
        help="Nobody confirmed the operation: no port is overwritten that somebody else has changed.",
    ),
)


@command("undo")
@click.argument("operation", required=False, type=Number(1, 2**31), metavar="[ID]")
@_choices
@options.sm_hosts
@ufm_options
@options.changing
@options.folding
@options.format
@options.fabric
def undo(
    where: Where,
    ufm: UfmOptions,
    consent: Changing,
    sm_hosts: SmHosts,
    folding: Folding,
    format: str,
    operation: int | None,
    choices: _Choices,
) -> int:
    """Restore what an operation overwrote.

    Restores P_Key tables (byte for byte) and enforcement bits that apply, pkey-set, pkey-add, pkey-remove or
    enforce-set changed. ID is the number that `ibkeys journal` shows. Without it, the last operation that is not yet
    undone is taken. The undo is itself an operation: undoing it repeats the change. A change through OpenSM is undone
    through OpenSM, with the same policies in reverse. Counters that were cleared cannot be restored; for M_Keys use the
    mkey commands.
    """
    from ibkeys.apply.apply_plan import ApplyHooks
    from ibkeys.apply.by_sm.settings import Settings
    from ibkeys.apply.carriers import Via
    from ibkeys.apply.undo import plan_undo
    from ibkeys.change.interrupts import Interrupts

    each = gives_each(folding, format)
    with open_fabric(where, changing=True) as fabric, writer_of(fabric, "undo", consent) as writer:
        interrupts, bar = Interrupts(), Bar(where.debug)
        settings = Settings(choices.sm_wait, choices.allow_break, at_once=choices.at_once)
        via = Via(None, settings, hosts_of(where, sm_hosts), open_ufm=partial(open_ufm, given=ufm))
        hooks = ApplyHooks(interrupts.check, bar)
        apply_plan = plan_undo(
            writer, operation, hooks, via=via, breaks=choices.allow_break, unconfirmed=choices.unconfirmed
        )
        return ManyPortsChange(writer, apply_plan, consent, format, each, interrupts, bar).carry_out()

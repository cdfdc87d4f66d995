"""Restore the P_Key tables, enforcement bits and policies that an operation overwrote."""

from __future__ import annotations

from functools import partial

from ibkeys.cli.changing import writer_of
from ibkeys.cli.listing.folding import gives_each
from ibkeys.cli.opening import open_fabric
from ibkeys.cli.options import Changing, Folding, SmHosts, Where
from ibkeys.cli.partitions.many_ports import Bar, ManyPortsChange
from ibkeys.cli.sm.hosts import hosts_of
from ibkeys.cli.sm.ufm import UfmOptions, open_ufm


def restore(
    where: Where,
    ufm: UfmOptions,
    consent: Changing,
    sm_hosts: SmHosts,
    folding: Folding,
    format: str,
    operation: int | None,
    sm_wait: int,
    *,
    allow_break: bool,
    at_once: bool = False,
    unconfirmed: bool = False,
) -> int:
    """Restore what *operation* overwrote, None: the last one that was not undone. *allow_break* and *at_once*: as the
    options of `ibkeys undo`; *unconfirmed*: nobody confirmed it."""
    from ibkeys.apply.apply_plan import ApplyHooks
    from ibkeys.apply.by_sm.settings import Settings
    from ibkeys.apply.carriers import Via
    from ibkeys.apply.undo import plan_undo
    from ibkeys.change.interrupts import Interrupts

    each = gives_each(folding, format)
    with open_fabric(where, changing=True) as fabric, writer_of(fabric, "undo", consent) as writer:
        interrupts, bar = Interrupts(), Bar(where.debug)
        settings = Settings(sm_wait, allow_break, at_once=at_once)
        via = Via(None, settings, hosts_of(where, sm_hosts), open_ufm=partial(open_ufm, given=ufm))
        hooks = ApplyHooks(interrupts.check, bar)
        plan = plan_undo(writer, operation, hooks, via=via, breaks=allow_break, unconfirmed=unconfirmed)
        return ManyPortsChange(writer, plan, consent, format, each, interrupts, bar).carry_out()

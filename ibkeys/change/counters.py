"""Clearing the violation counters M_KeyViolations, P_KeyViolations and Q_KeyViolations (IBA 14.2.5.6)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from ibkeys.change.edits import CountersEdit
from ibkeys.change.pending_set import PendingSet
from ibkeys.change.plan import Change, Plan
from ibkeys.change.target import PortTarget
from ibkeys.change.write_order import in_order, rank_of
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import MadStatusError, MKeyNeeded, NoReply, SendRefused
from ibkeys.fabric.handle import PortHandle
from ibkeys.mad.attributes import counted_violations
from ibkeys.topology.model import Trouble
from ibkeys.topology.nodes import Port


def plan_clear(writer: ChangeWriter, ports: Sequence[PortHandle], clear: Sequence[Port] = ()) -> Plan:
    """Plan to write 0 to every counter that is not 0. *clear*: ports whose counters a sweep of this run found to be 0.

    The local port and the SM's port are written last, so that the others can still be reached until then. Of
    several ports, those that cannot be read or hide their M_Key are left out and listed in ``Plan.troubles``. For a
    single port the error is raised: NoReply, MadStatusError, SendRefused, MKeyNeeded.
    """
    plan = Plan(writer.command, completes=[*clear])
    sets: list[PendingSet] = []
    for port in ports:
        try:
            shown = port.read_port_info()
            counts = counted_violations(shown)
            target = PortTarget.of(port) if counts else None
        except (NoReply, MadStatusError, SendRefused, MKeyNeeded) as error:
            if len(ports) == 1:
                raise
            plan.troubles.append(Trouble(port.port, str(error)))
            continue
        writer.note_master_sm_lid(port)
        plan.completes.append(port.port)
        if target is not None:
            edit = CountersEdit(target, dict.fromkeys(counts, 0), shown, writer.consent.covers("stale"))
            sets.append(PendingSet(edit))
            plan.changes += [Change(port.port, name, None, count, 0) for name, count in counts.items()]
    if not sets:
        return plan
    plan.stages = list(in_order((each, rank_of(writer, each.target.port)) for each in sets))
    place = {each.target.port: at for at, each in enumerate(chain.from_iterable(plan.stages))}
    plan.changes.sort(key=lambda change: place[change.port])
    plan.objections = writer.objection_to_active_sm("its own Set(PortInfo) may collide with this one")
    return plan

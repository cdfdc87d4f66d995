"""Clearing the violation counters M_KeyViolations, P_KeyViolations and Q_KeyViolations (IBA 14.2.5.6)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from ibkeys.change.plan import Change, Plan
from ibkeys.change.portinfo_write import write_port_info
from ibkeys.change.writer import Writer
from ibkeys.errors import IbkeysError, MadStatusError, MKeyNeeded, NoReply, NotStored, Refused, SendRefused
from ibkeys.fabric.handle import PortHandle
from ibkeys.mad.attributes import PortInfo
from ibkeys.topology.model import Trouble

Work = tuple[PortHandle, PortInfo, dict[str, int]]
"""A port, its PortInfo as shown, and the counters to be cleared with what they had counted."""

COUNTERS: Final = ("m_key_violations", "p_key_violations", "q_key_violations")


def plan_clear(writer: Writer, ports: Sequence[PortHandle]) -> Plan:
    """Plan to write 0 to every counter that is not 0.

    The own port and the SM's port come last, so that the tool can still back out while they work as before. Of several
    ports one that cannot be read, or hides its M_Key, is left out and stands in ``Plan.troubles``; a single one raises.
    """
    plan = Plan(writer.command)
    work: list[Work] = []
    for port in ports:
        try:
            shown = port.read_port_info()
            counts = {attr: getattr(shown, attr) for attr in COUNTERS if getattr(shown, attr)}
            if counts:
                writer.key_for_set(port, _end_port_info(port))
        except (NoReply, MadStatusError, SendRefused, MKeyNeeded) as error:
            if len(ports) == 1:
                raise
            plan.troubles.append(Trouble(port.port, str(error)))
            continue
        writer.note_master_sm_lid(port)
        if counts:
            work.append((port, shown, counts))
    if not work:
        return plan
    work = _in_safe_order(writer, work)
    plan.changes = [
        Change(port.port, attr, None, str(count), "0") for port, _, counts in work for attr, count in counts.items()
    ]
    plan.objections = writer.objection_to_active_sm("a Set(PortInfo) of its own may cross this one")
    plan.perform = partial(_perform, writer, plan, work)
    return plan


def _end_port_info(port: PortHandle) -> PortInfo:
    info = port.port.end_port.port_info
    assert info is not None
    return info


def _in_safe_order(writer: Writer, work: list[Work]) -> list[Work]:
    own = writer.fabric.local().port_guid

    def rank(item: Work) -> tuple[bool, bool]:
        port = item[0].port
        return port.port_guid == own, writer.holds_sm(port)

    return sorted(work, key=rank)


def _perform(writer: Writer, plan: Plan, work: list[Work]) -> None:
    failed: list[IbkeysError] = []
    for port, shown, counts in work:
        try:
            _clear(writer, port, shown, counts)
        except (NoReply, MadStatusError, NotStored, SendRefused, MKeyNeeded, Refused) as error:
            failed.append(error)
            if len(work) > 1:
                plan.troubles.append(Trouble(port.port, str(error)))
    if len(work) == 1 and failed:
        raise failed[0]


def _clear(writer: Writer, port: PortHandle, shown: PortInfo, counts: dict[str, int]) -> None:
    def proof(before: PortInfo, stored: PortInfo) -> str:
        # A violation may be counted between the Set and the read: a smaller number proves the write as well as 0 does.
        return "; ".join(
            f"{PortInfo.rows[attr].name} is still {getattr(stored, attr)}"
            for attr in counts
            if getattr(stored, attr) >= getattr(before, attr) > 0
        )

    write_port_info(writer, port, shown, dict.fromkeys(counts, 0), proof)

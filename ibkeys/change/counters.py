"""Clearing the violation counters M_KeyViolations, P_KeyViolations and Q_KeyViolations (IBA 14.2.5.6)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from ibkeys.change.plan import Change, Plan
from ibkeys.change.portinfo_write import write_port_info
from ibkeys.change.writer import Writer
from ibkeys.errors import IbkeysError, MadStatusError, NoReply, NotStored, SendRefused
from ibkeys.fabric.session import PortHandle
from ibkeys.mad.attributes import PortInfo

COUNTERS: Final = ("m_key_violations", "p_key_violations", "q_key_violations")


def plan_clear(writer: Writer, ports: Sequence[PortHandle]) -> Plan:
    """Plan to write 0 to every counter that is not 0. Ports that cannot be read raise when there is one, else are noted.

    The own port and the SM's port come last, so that the tool can still back out while they work as before.
    """
    plan = Plan(writer.command)
    work: list[tuple[PortHandle, PortInfo, dict[str, int]]] = []
    for port in _in_safe_order(writer, ports):
        shown = port.read_port_info()
        counts = {attr: getattr(shown, attr) for attr in COUNTERS if getattr(shown, attr)}
        if counts:
            work.append((port, shown, counts))
            plan.changes += [Change(port.port, attr, None, str(count), "0") for attr, count in counts.items()]
    if not work:
        return plan
    plan.objections = writer.objection_to_active_sm("a Set(PortInfo) of its own may cross this one")
    plan.perform = partial(_perform, writer, work)
    return plan


def _in_safe_order(writer: Writer, ports: Sequence[PortHandle]) -> list[PortHandle]:
    own = writer.fabric.local().port_guid
    sm_lid = writer.subnet_manager.lid if len(ports) > 1 else 0
    return sorted(ports, key=lambda port: (port.port.port_guid == own, bool(sm_lid) and port.port.lid == sm_lid))


def _perform(writer: Writer, work: Sequence[tuple[PortHandle, PortInfo, dict[str, int]]]) -> None:
    failed: list[IbkeysError] = []
    for port, shown, counts in work:
        try:
            _clear(writer, port, shown, counts)
        except (NoReply, MadStatusError, NotStored, SendRefused) as error:
            failed.append(error)
    if len(failed) == 1:
        raise failed[0]
    if failed:
        raise NotStored(f"{len(failed)} of {len(work)} ports were not cleared; the first: {failed[0]}")


def _clear(writer: Writer, port: PortHandle, shown: PortInfo, counts: dict[str, int]) -> None:
    def proof(before: PortInfo, stored: PortInfo) -> str:
        # A violation may be counted between the Set and the read: a smaller number proves the write as well as 0 does.
        return "; ".join(
            f"{PortInfo.rows[attr].name} is still {getattr(stored, attr)}"
            for attr in counts
            if getattr(stored, attr) >= getattr(before, attr) > 0
        )

    write_port_info(writer, port, shown, dict.fromkeys(counts, 0), proof)

"""Checks of the counters: of violations in PortInfo, and PortCounters of the performance agents."""

from __future__ import annotations

from ibkeys.discovery.port_counters import enforcing_ports
from ibkeys.errors import IbkeysError
from ibkeys.hardware.check import CheckAnswer, as_assumed, check, not_checked, seen
from ibkeys.hardware.reading import FabricReading
from ibkeys.mad.attributes import VIOLATION_COUNTERS, PortInfo
from ibkeys.printable import counted


@check("counters.violations", "unknown", "how many ports have counted violations is recorded")
def violations(reading: FabricReading) -> CheckAnswer:
    """Return for each violation counter how many ports have it above 0, and how many at its highest value."""
    infos = reading.port_infos
    values = {row.attr: sum(bool(row.decode(info.raw)) for info in infos) for row in VIOLATION_COUNTERS}
    full = {row.attr: sum(row.decode(info.raw) == row.max for info in infos) for row in VIOLATION_COUNTERS}
    text = ", ".join(f"{PortInfo.rows[name].name} at {number}" for name, number in values.items())
    return seen(f"of {counted(len(infos), 'port')} not 0: {text}", not_zero=values, at_the_end=full)


@check("counters.agent", "standard", "the performance agent of the local port answers PortCounters by class version 1")
def agent(reading: FabricReading) -> CheckAnswer:
    """Get PortCounters of the local port by its LID."""
    own = reading.swept_port
    if own is None or not own.lid:
        return not_checked("the local port has no LID, and the agent is asked by LID")
    [(_, counters)] = reading.fabric.read_port_counters([own])
    if isinstance(counters, IbkeysError):
        return as_assumed(False, str(counters))
    return as_assumed(True, "it answers", link_downed=counters.link_downed_counter)


@check("counters.constraint-errors", "standard", "switch ports that enforce partitions have their constraint errors")
def constraint_errors(reading: FabricReading) -> CheckAnswer:
    """Get PortXmitConstraintErrors and PortRcvConstraintErrors of the switch ports that enforce partitions."""
    ports = enforcing_ports(reading.topology.ports())
    if not ports:
        return not_checked("no switch port enforces partitions")
    read = reading.fabric.read_constraint_errors(ports)
    failed = [errors.error for errors in read.values() if errors.error is not None]
    dropped = sum(bool(errors.received or errors.transmitted) for errors in read.values())
    text = f"{counted(len(ports), 'port')}, {len(failed)} without an answer, {dropped} with dropped packets"
    return as_assumed(not failed, text, ports=len(ports), failed=len(failed), dropped=dropped)

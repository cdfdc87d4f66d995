"""Checks of directed-route SMPs at the port from which a program sends them (Linux smi.c)."""

from __future__ import annotations

from ibkeys.mad import offsets as at
from ibkeys.mad.const import DIRECTED_ROUTE, MAD_SIZE
from ibkeys.sim.nodes import SimPort


def begins_here(mad: bytes, port: SimPort) -> bool:
    """Return whether a directed route can start, or continue, at *port* (Linux smi.c: smi_handle_dr_smp_send)."""
    mad = mad.ljust(MAD_SIZE, b"\0") if len(mad) < MAD_SIZE else mad
    hops, pointer = mad[at.HOP_COUNT], mad[at.HOP_POINTER]
    is_switch = port.node.is_switch
    if hops > 63:
        return False
    if not mad[at.STATUS][0] & at.RESPONSE:
        if hops and not pointer:
            return is_switch or mad[at.INITIAL_PATH][1] == port.number
        return pointer in (hops, hops + 1) or (is_switch and pointer < hops)
    if hops and pointer == hops + 1:
        return is_switch or mad[at.RETURN_PATH][hops] == port.number
    return pointer < 2 or (is_switch and pointer <= hops)


def as_carried(mad: bytes) -> bytes:
    """Return *mad* as the `MadCarrier` expects it, with HopPointer 0 in a directed-route SMP."""
    if mad[at.MGMT_CLASS] != DIRECTED_ROUTE or not mad[at.HOP_POINTER]:
        return mad
    return mad[: at.HOP_POINTER] + b"\0" + mad[at.HOP_COUNT :]


def is_local(mad: bytes) -> bool:
    """Return whether *mad* is a directed-route SMP without hops, which the local driver executes."""
    return mad[at.MGMT_CLASS] == DIRECTED_ROUTE and not mad[at.HOP_COUNT]

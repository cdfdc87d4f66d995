"""Reading PortCounters of many ports from their performance management agents (IBA 16.1)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Self

from ibkeys.client.gmp import GmpPath
from ibkeys.client.smp import SmpClient, Task, Timing
from ibkeys.errors import IbkeysError, MalformedMad, Unreachable
from ibkeys.mad.const import Method, MgmtClass
from ibkeys.mad.performance import DATA_OFFSET, PORT_COUNTERS, PortCounters
from ibkeys.topology.enforcement import ENFORCEMENT_BYTE, INBOUND, OUTBOUND
from ibkeys.topology.nodes import Port

CountersOrError = PortCounters | IbkeysError
"""The counters of a port, or the error of reading them."""


@dataclass(frozen=True, slots=True)
class ConstraintErrors:
    """The constraint errors of a switch port (IBA 16.1.3.5). Partition enforcement is one of the reasons to count them.

    ``received``: received packets that were dropped; ``transmitted``: packets that were not sent. Both are None if they
    could not be read, for the reason in ``error``.
    """

    received: int | None
    transmitted: int | None
    error: str | None = None

    @classmethod
    def of(cls, reading: CountersOrError) -> Self:
        """Return the constraint errors in *reading*, or the error of reading them."""
        if isinstance(reading, IbkeysError):
            return cls(None, None, str(reading))
        return cls(reading.port_rcv_constraint_errors, reading.port_xmit_constraint_errors)


def enforcing_ports(ports: Iterable[Port]) -> list[Port]:
    """Return the external switch ports among *ports* whose PortInfo has an enforcement bit set."""
    return [
        port
        for port in ports
        if port.is_external and port.info is not None and port.info[ENFORCEMENT_BYTE] & (INBOUND | OUTBOUND)
    ]


def read_port_counters(client: SmpClient, path: GmpPath, ports: Iterable[Port]) -> list[tuple[Port, CountersOrError]]:
    """Get PortCounters of each of *ports*, many at a time. Return each port, in the order of *ports*, with its counters
    or the error.

    The agent is addressed by LID: the error of a port without a LID (PortInfo not read, or no LID assigned yet) is
    Unreachable. An external port of a switch is queried through port 0. The caller must have registered the agent for
    class 0x04.
    """
    port_list = list(ports)
    readings: dict[int, CountersOrError] = {}

    def task(place: int, port: Port) -> Task:
        readings[place] = yield from ask_port_counters(path, client.timing, port, ("PMA", port.lid))

    with client.bounded():
        client.run([task(place, port) for place, port in enumerate(port_list)])
    return [(port, readings[place]) for place, port in enumerate(port_list)]


def ask_port_counters(path: GmpPath, timing: Timing, port: Port, node: Hashable) -> Task:
    """Task: get PortCounters of *port*, through port 0 if it is an external port of a switch; return them, or the
    error. No error is raised.

    *node*: the node for which the scheduler counts the request. The error of a port without a LID is Unreachable.
    """
    lid = port.lid
    if not lid:
        return Unreachable(f"{port}: it has no LID, so its PortCounters cannot be asked for")
    try:
        answer: bytes = yield path.request(
            _build_port_counters_get(port.num), lid, timing.timeout, timing.retries, node
        )
    except IbkeysError as error:
        return error
    counters = PortCounters(answer[DATA_OFFSET : DATA_OFFSET + PortCounters.size])
    if counters.port_select != port.num:
        return MalformedMad(f"{port}: asked for its PortCounters, got those of port {counters.port_select}")
    return counters


def _build_port_counters_get(port_num: int) -> bytes:
    """Return a PerformanceGet(PortCounters) for one port of the agent's node; 256 bytes, TransactionID 0."""
    head = bytes((1, MgmtClass.PERF_MGMT, 1, Method.GET)) + bytes(12) + PORT_COUNTERS.to_bytes(2)
    return head.ljust(DATA_OFFSET, b"\0") + PortCounters.new(port_select=port_num).raw.ljust(256 - DATA_OFFSET, b"\0")

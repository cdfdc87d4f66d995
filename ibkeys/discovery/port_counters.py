"""PortCounters of many ports, from their performance management agents (IBA 16.1)."""

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
    """The constraint errors of a switch port, which count packets that partition enforcement dropped, among others.

    Received packets that were refused, and packets that were not sent (IBA 16.1.3.5). None and ``error``: not readable.
    """

    received: int | None
    transmitted: int | None
    error: str | None = None

    @classmethod
    def of(cls, reading: CountersOrError) -> Self:
        """Return the counters from PortCounters, or the error of reading them."""
        if isinstance(reading, IbkeysError):
            return cls(None, None, str(reading))
        return cls(reading.port_rcv_constraint_errors, reading.port_xmit_constraint_errors)


def enforcing_ports(ports: Iterable[Port]) -> list[Port]:
    """Return those of *ports* that are switch ports with an enforcement bit set."""
    return [
        port
        for port in ports
        if port.is_external and port.info is not None and port.info[ENFORCEMENT_BYTE] & (INBOUND | OUTBOUND)
    ]


def read_port_counters(client: SmpClient, path: GmpPath, ports: Iterable[Port]) -> list[tuple[Port, CountersOrError]]:
    """Get PortCounters of each of *ports*, many at a time; return them in the order of *ports*, an error for each that
    failed.

    The agent is addressed by LID: a port without a LID (PortInfo not read, or none assigned yet) is Unreachable. An
    external port of a switch is queried through port 0. The agent for class 0x04 must be registered.
    """
    wanted = list(ports)
    readings: dict[int, CountersOrError] = {}

    def task(place: int, port: Port) -> Task:
        readings[place] = yield from ask_port_counters(path, client.timing, port, ("PMA", port.lid))

    with client.bounded():
        client.run([task(place, port) for place, port in enumerate(wanted)])
    return [(port, readings[place]) for place, port in enumerate(wanted)]


def ask_port_counters(path: GmpPath, timing: Timing, port: Port, node: Hashable) -> Task:
    """Task: get PortCounters of *port*, through port 0 if it is an external port of a switch; return them, or the
    error.

    *node*: the node to which the scheduler counts the request. A port without a LID is Unreachable.
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

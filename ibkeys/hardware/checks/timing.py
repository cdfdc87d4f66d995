"""Checks of the response times of agents. No agent gets more SMPs at once than in a sweep."""

from __future__ import annotations

from typing import Final

from ibkeys.client.scheduler import PER_NODE
from ibkeys.errors import IbkeysError
from ibkeys.fabric.handle import PortHandle
from ibkeys.hardware.check import CheckAnswer, as_assumed, check, not_checked, seen
from ibkeys.hardware.reading import FabricReading
from ibkeys.mad.attributes import NodeInfo
from ibkeys.mad.const import Method

_GETS: Final = 20
_ROUNDS: Final = 8


def _measure(reading: FabricReading, handle: PortHandle) -> CheckAnswer:
    """Get NodeInfo `_GETS` times, one after the other, and return the shortest, median and longest time."""
    now = reading.fabric.umad.now
    times = []
    for _ in range(_GETS):
        started = now()
        handle.get(NodeInfo)
        times.append(1000 * (now() - started))
    times.sort()
    least, middle, most = (round(ms, 3) for ms in (times[0], times[_GETS // 2], times[-1]))
    return seen(f"{least} to {most} ms, half of them within {middle} ms", least=least, median=middle, most=most)


@check("timing.local-port", "unknown", "the time of a Get from the local port is recorded")
def local_port(reading: FabricReading) -> CheckAnswer:
    """Measure the local port."""
    return _measure(reading, reading.handle)


@check("timing.neighbour", "unknown", "the time of a Get from the port at the other end of the cable is recorded")
def neighbour(reading: FabricReading) -> CheckAnswer:
    """Measure the node at the other end of the cable."""
    handle = _neighbour(reading)
    return _measure(reading, handle) if handle is not None else not_checked("no node was found there")


def _neighbour(reading: FabricReading) -> PortHandle | None:
    peer = reading.neighbour
    return reading.fabric.handle(peer.end_port) if peer is not None else None


@check("timing.at-once", "simulator", f"a node answers {PER_NODE} SMPs that are in flight at once, and loses none")
def at_once(reading: FabricReading) -> CheckAnswer:
    """Send the neighbour as many Gets at a time as a sweep does, without retries."""
    handle = _neighbour(reading)
    if handle is None:
        return not_checked("no node was found at the other end of the cable")
    client, lost = reading.fabric.client, 0
    for _ in range(_ROUNDS):
        # A different *node* for each Get: for the scheduler they go to different nodes, so none waits for a lost one.
        gets = [
            client.request(Method.GET, NodeInfo, 0, handle.route, node=object(), m_key=handle.m_key, retries=0)
            for _ in range(PER_NODE)
        ]
        lost += sum(isinstance(outcome, IbkeysError) for outcome in client.ask(gets))
    return as_assumed(not lost, f"{_ROUNDS * PER_NODE} Gets, {lost} not answered", lost=lost)


@check("timing.sweep", "unknown", "time, SMPs and lost answers of a sweep with all P_Key tables are recorded")
def sweep(reading: FabricReading) -> CheckAnswer:
    """Return how long the sweep took, and how many SMPs this run has sent in all."""
    found, counts = reading.topology, reading.fabric.client.statistics
    seconds = round(reading.sweep_seconds, 3)
    text = (
        f"{len(found.nodes)} nodes in {seconds} s; in all {counts.sent} SMPs, {counts.timeouts} timeouts, "
        f"{counts.strays} late or foreign answers, at most {counts.widest} in flight"
    )
    return seen(text, seconds=seconds, smps=counts.sent, timeouts=counts.timeouts, strays=counts.strays)

"""Whether raw packets get from one end port to another: they carry no P_Key; only filters of switch ports drop them.

Source: IBA 14.2.5.4 and 14.2.5.6 (FilterRawInbound and -Outbound of PortInfo; their capabilities in SwitchInfo).
Filters of the switch ports that the two ports are linked to count, and those between switches as with enforcement: they
decide if they drop packets on every route or on none; otherwise the answer is unknown (`ibkeys.reach.between`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ibkeys.keys.pkey import DEFAULT_FULL, DEFAULT_INBOUND_CHECK
from ibkeys.mad.attributes import PortInfo, SwitchInfo
from ibkeys.mad.fields import NumberRow
from ibkeys.reach.between import StoppedPackets
from ibkeys.reach.links import CheckingPort, LinkChecks, SwitchLinks
from ibkeys.topology.enforcement import Direction, inactive_end, leaf_of
from ibkeys.topology.forwarding import follow
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port

_FILTERS: Final[dict[Direction, tuple[NumberRow, NumberRow]]] = {
    "inbound": (PortInfo.filter_raw_inbound, SwitchInfo.filter_raw_inbound_cap),
    "outbound": (PortInfo.filter_raw_outbound, SwitchInfo.filter_raw_outbound_cap),
}
"""By direction: the PortInfo field that enables the filter, and the SwitchInfo field of its capability."""


@dataclass(frozen=True, slots=True)
class RawFilter:
    """A switch port that drops raw packets. ``field``: the PortInfo field of its filter."""

    port: Port
    field: str


@dataclass(frozen=True, slots=True)
class RawPath:
    """Whether raw packets get from one end port to another.

    ``passes``: the answer. None: the route decides, or a switch port on the route was not read or is not known.

    ``dropped_by``: switch ports that drop raw packets on every route. ``may_be_dropped_by``: switch ports between
    switches that drop raw packets on some routes.
    """

    passes: bool | None
    dropped_by: tuple[RawFilter, ...] = ()
    may_be_dropped_by: tuple[RawFilter, ...] = ()


class RawPackets:
    """The filters of raw packets in *fabric*. *by_tables*: see `StoppedPackets`."""

    def __init__(self, fabric: Topology, by_tables: bool = True) -> None:
        # A filter drops every packet, as an empty table does. So any P_Key gives the same answer, by either reading of
        # the inbound check.
        self._between = StoppedPackets(SwitchLinks(fabric, _checks_of), DEFAULT_INBOUND_CHECK, by_tables)

    def path(self, source: Port, destination: Port) -> RawPath:
        """Return whether raw packets from *source* reach *destination*, and which switch ports drop them.

        If the link of either port is not Active, or the route by the forwarding tables loses the packets, no packet
        arrives, and no filter is returned.
        """
        if inactive_end(source) is not None or inactive_end(destination) is not None:
            return RawPath(False)
        if lid := destination.lid:
            route = follow(source, lid, destination)
            if self._between.is_by_tables and route.arrives is False:
                return RawPath(False)
            if route.end == "LID of another port":
                return RawPath(None)
        leaves: tuple[tuple[Port | None, Direction], ...]
        leaves = (leaf_of(source), "inbound"), (leaf_of(destination), "outbound")
        on_the_way = [(leaf, direction) for leaf, direction in leaves if leaf is not None]
        drops = [
            RawFilter(leaf, _FILTERS[direction][0].name) for leaf, direction in on_the_way if _filters(leaf, direction)
        ]
        crossing = self._between.crossing(source, destination, DEFAULT_FULL)
        between = tuple(RawFilter(port, _FILTERS[direction][0].name) for port, direction in crossing.stops)
        if drops or crossing.passes is False:
            return RawPath(False, (*drops, *(between if crossing.passes is False else ())))
        if crossing.passes is None:
            return RawPath(None, (), between)
        is_unknown = not (source.says_peer and destination.says_peer) or any(
            leaf.info is None for leaf, _ in on_the_way
        )
        return RawPath(None if is_unknown else True)


def _checks_of(port: Port, direction: Direction) -> LinkChecks:
    if port.info is None:
        return (CheckingPort(port, direction, None),)
    return (CheckingPort(port, direction, {}),) if _filters(port, direction) else ()


def _filters(port: Port, direction: Direction) -> bool:
    """Return whether a switch port has the filter on; False if its switch reports that it cannot filter."""
    field, cap = _FILTERS[direction]
    if port.info is None or not field.decode(port.info):
        return False
    switch = port.node.switch_info_raw
    return switch is None or bool(cap.decode(switch))

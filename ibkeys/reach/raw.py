"""Whether raw packets get from one end port to another: they carry no P_Key; only filters of switch ports drop them.

Source: IBA 14.2.5.4 and 14.2.5.6 (FilterRawInbound and -Outbound of PortInfo; their capabilities in SwitchInfo). Only
the switch ports that the two ports are linked to are looked at, as with enforcement.
"""

from __future__ import annotations

from dataclasses import dataclass

from ibkeys.mad.attributes import PortInfo, SwitchInfo
from ibkeys.mad.fields import NumberRow
from ibkeys.topology.enforcement import inactive_end, leaf_of
from ibkeys.topology.nodes import Port


@dataclass(frozen=True, slots=True)
class RawFilter:
    """A switch port that drops raw packets. ``field``: by which field of its PortInfo."""

    port: Port
    field: str


@dataclass(frozen=True, slots=True)
class RawWay:
    """``passes``: whether raw packets get through; None: a switch port on the way was not read, or is not known."""

    passes: bool | None
    dropped_by: tuple[RawFilter, ...]


def raw_way(source: Port, destination: Port) -> RawWay:
    """Return whether raw packets from *source* get to *destination*, and which switch ports drop them. They do not, and
    no filter drops them, where the link of one of the two is not Active."""
    if inactive_end(source) is not None or inactive_end(destination) is not None:
        return RawWay(False, ())
    inbound = leaf_of(source), PortInfo.filter_raw_inbound, SwitchInfo.filter_raw_inbound_cap
    outbound = leaf_of(destination), PortInfo.filter_raw_outbound, SwitchInfo.filter_raw_outbound_cap
    on_the_way = [(leaf, field, cap) for leaf, field, cap in (inbound, outbound) if leaf is not None]
    drops = tuple(RawFilter(leaf, field.name) for leaf, field, cap in on_the_way if _filters(leaf, field, cap))
    if drops:
        return RawWay(False, drops)
    is_unknown = not (source.says_peer and destination.says_peer) or any(leaf.info is None for leaf, *_ in on_the_way)
    return RawWay(None if is_unknown else True, ())


def _filters(port: Port, field: NumberRow, cap: NumberRow) -> bool:
    """Whether a switch port has the filter on, and its switch does not say that it cannot filter."""
    if port.info is None or not field.decode(port.info):
        return False
    switch = port.node.switch_info_raw
    return switch is None or bool(cap.decode(switch))

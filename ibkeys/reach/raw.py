"""Whether raw packets get from one end port to another: they carry no P_Key; only filters of switch ports drop them.

Source: facts/pkey.md 2 and 4 (FilterRawInbound, FilterRawOutbound of PortInfo; their capabilities in SwitchInfo). Only
the switch ports that the two ports are linked to are looked at, as with enforcement.
"""

from __future__ import annotations

from dataclasses import dataclass

from ibkeys.topology.enforcement import leaf_of
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
    """Return whether raw packets from *source* get to *destination*, and which switch ports drop them."""
    on_the_way = [
        (leaf, field)
        for leaf, field in ((leaf_of(source), "inbound"), (leaf_of(destination), "outbound"))
        if leaf is not None
    ]
    drops = tuple(RawFilter(leaf, f"FilterRaw{field.title()}") for leaf, field in on_the_way if _filters(leaf, field))
    if drops:
        return RawWay(False, drops)
    is_unknown = not (source.says_peer and destination.says_peer) or any(leaf.info is None for leaf, _ in on_the_way)
    return RawWay(None if is_unknown else True, ())


def _filters(port: Port, direction: str) -> bool:
    """Whether a switch port has the filter on, and its switch does not say that it cannot filter."""
    info, switch = port.port_info, port.node.switch_info
    if info is None or not getattr(info, f"filter_raw_{direction}"):
        return False
    return switch is None or bool(getattr(switch, f"filter_raw_{direction}_cap"))

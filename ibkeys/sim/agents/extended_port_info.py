"""The vendor's ExtendedPortInfo (attribute 0xFF90), which says whether a link runs at FDR10.

No part of the standard, but libibnetdisc, ibportstate and OpenSM ask each port for it whose vendor and device ids are
known to have it, and take a refusal for a failure. ibsim answers it too.
"""

from __future__ import annotations

from typing import Final

from ibkeys.mad.fields import Layout, field
from ibkeys.sim.nodes import BLOCK_SIZE, EMPTY_BLOCK, Node, Port

ATTRIBUTE: Final = 0xFF90
_FDR10: Final = 1


class ExtendedPortInfo(Layout):
    """ExtendedPortInfo as ibsim answers it (ibsim's sim_mad.c). AttributeModifier: port number."""

    size = BLOCK_SIZE
    # fmt: off
    #                            name                byte width
    state_change_enable  = field("StateChangeEnable",   3, 8)
    link_speed_supported = field("LinkSpeedSupported",  7, 8)
    link_speed_enabled   = field("LinkSpeedEnabled",   11, 8)
    link_speed_active    = field("LinkSpeedActive",    15, 8)
    # fmt: on


def run_at_fdr10(port: Port) -> None:
    """Let *port* say that its link runs at FDR10."""
    info = ExtendedPortInfo.new(link_speed_supported=_FDR10, link_speed_enabled=_FDR10, link_speed_active=_FDR10)
    _tables(port.node)[ATTRIBUTE, port.number] = info.raw


def read(node: Node, ingress: int, modifier: int) -> bytes | None:
    """Return what a Get shows; None when the modifier names no port."""
    port = _named(node, ingress, modifier)
    return None if port is None else (node.tables or {}).get((ATTRIBUTE, port.number), EMPTY_BLOCK)


def write(node: Node, ingress: int, modifier: int, data: bytes) -> bytes | None:
    """Apply a Set and return what is there now: StateChangeEnable is kept, the speeds stay as the link is."""
    port = _named(node, ingress, modifier)
    if port is None:
        return None
    tables = _tables(node)
    info = bytearray(tables.get((ATTRIBUTE, port.number), EMPTY_BLOCK))
    ExtendedPortInfo.state_change_enable.copy(data, info)
    tables[ATTRIBUTE, port.number] = bytes(info)
    node.touch()
    return bytes(info)


def _tables(node: Node) -> dict[tuple[int, int], bytes]:
    if node.tables is None:
        node.tables = {}
    return node.tables


def _named(node: Node, ingress: int, modifier: int) -> Port | None:
    number = modifier & 0x7FFF_FFFF
    if number > node.num_ports:
        return None
    return node.ports[number] if number or node.is_switch else node.ports[ingress]

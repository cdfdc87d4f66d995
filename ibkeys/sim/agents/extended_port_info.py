"""The vendor's ExtendedPortInfo (attribute 0xFF90), which says whether a link runs at FDR10.

No part of the standard, but libibnetdisc, ibportstate and OpenSM ask each port for it whose vendor and device ids are
known to have it, and take a refusal for a failure. ibsim answers it too.
"""

from __future__ import annotations

from typing import Final

from ibkeys.sim.nodes import EMPTY_BLOCK, Node, Port

ATTRIBUTE: Final = 0xFF90
_STATE_CHANGE_ENABLE: Final = 3
_SPEED_BYTES: Final = (7, 11, 15)  # LinkSpeedSupported, LinkSpeedEnabled, LinkSpeedActive; 1 is FDR10


def run_at_fdr10(port: Port) -> None:
    """Let *port* say that its link runs at FDR10."""
    info = bytearray(EMPTY_BLOCK)
    for at in _SPEED_BYTES:
        info[at] = 1
    _tables(port.node)[ATTRIBUTE, port.number] = bytes(info)


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
    info[_STATE_CHANGE_ENABLE] = data[_STATE_CHANGE_ENABLE]
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

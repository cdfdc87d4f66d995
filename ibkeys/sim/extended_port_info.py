"""The vendor's ExtendedPortInfo (attribute 0xFF90), which says whether a link runs at FDR10.

No part of the standard, but libibnetdisc, ibportstate and OpenSM ask each port for it whose vendor and device ids are
known to have it, and take a refusal for a failure. ibsim answers it too.
"""

from __future__ import annotations

from typing import Final

from ibkeys.sim import sma
from ibkeys.sim.nodes import EMPTY_BLOCK, Port

ATTRIBUTE: Final = 0xFF90
_STATE_CHANGE_ENABLE: Final = 3


def get(request: sma.Request) -> sma.Answer:
    """Answer a Get: the links here never run at FDR10, so nothing is supported."""
    port = _named(request)
    if port is None:
        return sma.INVALID, EMPTY_BLOCK
    return sma.OK, (port.node.tables or {}).get((ATTRIBUTE, port.number), EMPTY_BLOCK)


def set_(request: sma.Request) -> sma.Answer:
    """Answer a Set: StateChangeEnable is kept; a speed cannot be enabled that is not supported."""
    port = _named(request)
    if port is None:
        return sma.INVALID, EMPTY_BLOCK
    info = bytearray(EMPTY_BLOCK)
    info[_STATE_CHANGE_ENABLE] = request.data[_STATE_CHANGE_ENABLE]
    if port.node.tables is None:
        port.node.tables = {}
    port.node.tables[ATTRIBUTE, port.number] = bytes(info)
    port.node.subnet.touched_nodes.add(port.node)
    return sma.OK, bytes(info)


def _named(request: sma.Request) -> Port | None:
    number, node = request.modifier & 0x7FFF_FFFF, request.node
    if number > node.num_ports:
        return None
    return node.ports[number] if number or node.is_switch else node.ports[request.ingress]


def install() -> None:
    """Let every simulated SMA answer it."""
    sma.GET[ATTRIBUTE] = get
    sma.SET[ATTRIBUTE] = set_

"""Cables and what the two ends make of them: states, width and speed. A switch sends a trap when a link changes."""

from __future__ import annotations

from typing import Final

from ibkeys.mad.const import PortPhysicalState, PortState
from ibkeys.sim import notices
from ibkeys.sim.nodes import PHYSICAL_STATE_BYTE, STATE_BYTE, Port
from ibkeys.sim.traps import Traps

_POLLING: Final = int(PortPhysicalState.POLLING)
_DISABLED: Final = int(PortPhysicalState.DISABLED)
_SLEEP: Final = int(PortPhysicalState.SLEEP)


def physical_state(port: Port) -> int:
    """Return PortPhysicalState."""
    return port.info[PHYSICAL_STATE_BYTE] >> 4


def negotiate(port: Port, peer: Port) -> None:
    """Write the active width and speed: the best that both ends have enabled (IBA 14.2.5.6)."""
    a, b = port.info, peer.info
    # Two ends with nothing in common would stay down; here they fall back to 1x SDR, as every port can.
    width = _best(a[29] & b[29], (8, 4, 2, 16)) or 1
    speed = _best(a[35] & b[35] & 0x0F, (4, 2)) or 1
    extended = _best(a[63] & b[63] & 0x0F, (8, 4, 2, 1))
    beyond_ndr = a[56] & b[56] & 0x01
    for info in (a, b):
        info[31] = width
        info[35] = info[35] & 0x0F | speed << 4
        info[62] = info[62] & 0x0F | (0 if beyond_ndr else extended) << 4
        info[56] = info[56] & 0x1F | beyond_ndr << 5


def _best(common: int, order: tuple[int, ...]) -> int:
    return next((bit for bit in order if common & bit), 0)


def connect(port: Port, peer: Port, traps: Traps) -> None:
    """Put a cable between two free ports and let the link come up as far as hardware does: Initialize."""
    port.peer, peer.peer = peer, port
    negotiate(port, peer)
    bring_up(port, traps)


def bring_up(port: Port, traps: Traps) -> None:
    """Bring the link to Initialize/LinkUp unless there is no cable or an end is disabled or asleep."""
    peer = port.peer
    if peer is None or {physical_state(port), physical_state(peer)} & {_DISABLED, _SLEEP}:
        return
    for end in (port, peer):
        end.set_states(PortState.INITIALIZE, PortPhysicalState.LINK_UP)
        _changed(end, "link-up", traps)


def take_down(port: Port, traps: Traps, own_state: int = _POLLING) -> None:
    """Let both ends fall to Down; *port* gets *own_state*, the other end polls unless it was disabled or asleep."""
    peer = port.peer
    was_up = port.info[STATE_BYTE] & 0xF != PortState.DOWN
    port.set_states(PortState.DOWN, own_state)
    if peer is not None:
        peer_state = physical_state(peer)
        peer.set_states(PortState.DOWN, peer_state if peer_state in (_DISABLED, _SLEEP) else _POLLING)
    if was_up:
        for end in (port, peer):
            if end is not None:
                end.count("link_downed_counter")
                _changed(end, "link-down", traps)


def _changed(port: Port, kind: str, traps: Traps) -> None:
    """Note that the link of *port* went up or down; a switch latches it and sends trap 128."""
    port.record(kind)
    node = port.node
    if node.switch_info is not None:
        node.switch_info[11] |= 0x04
        node.touch()
        traps.send(node.ports[0], notices.link_state_change(node.ports[0]))


def disconnect(port: Port, traps: Traps) -> Port | None:
    """Pull the cable out of *port*; returns the port at its other end."""
    peer = port.peer
    if peer is None:
        return None
    state = physical_state(port)
    take_down(port, traps, state if state in (_DISABLED, _SLEEP) else _POLLING)
    port.peer = peer.peer = None
    return peer

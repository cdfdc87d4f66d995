"""Plugging and pulling cables, and the state of a link at both ends: port states, width and speed.

A switch sends a trap when the state of a link changes.
"""

from __future__ import annotations

from typing import Final

from ibkeys.errors import UsageError
from ibkeys.mad.attributes import PortInfo, SpeedsAboveNdr, SwitchInfo
from ibkeys.mad.const import PortPhysicalState, PortState
from ibkeys.sim import notices
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.traps import Traps

_POLLING: Final = int(PortPhysicalState.POLLING)
_DISABLED: Final = int(PortPhysicalState.DISABLED)
_XDR: Final = 1
_SLEEP: Final = int(PortPhysicalState.SLEEP)


class Cables:
    """Plugs and pulls cables. *traps*: sends the traps of switches. ``unplugged``: port → the port at the other end of
    the cable that was pulled out of it last."""

    def __init__(self, traps: Traps) -> None:
        self.unplugged: dict[SimPort, SimPort] = {}
        self._traps = traps

    def unplug(self, port: SimPort) -> SimPort | None:
        """Pull the cable out of *port*: both ends fall to Down. Returns the port at its other end, None without a
        cable. Raises UsageError for port 0 of a switch."""
        _refuse_port_0(port)
        peer = port.peer
        if peer is not None:
            take_down(port, self._traps, state_without_link(port))
            port.peer = peer.peer = None
            self.unplugged[port], self.unplugged[peer] = peer, port
            for end in (port, peer):
                end.touch()
        return peer

    def plug(self, port: SimPort, peer: SimPort) -> None:
        """Put a cable between two ports; the link comes up to Initialize. Raises UsageError if a port has a cable
        already, or is port 0 of a switch."""
        for end in (port, peer):
            _refuse_port_0(end)
        for end in (port, peer):
            if end.peer is not None or port is peer:
                raise UsageError(f"{end} has a cable already")
        port.peer, peer.peer = peer, port
        negotiate(port, peer)
        for end in (port, peer):
            end.touch()
        bring_up(port, self._traps)


def _refuse_port_0(port: SimPort) -> None:
    if port.number == 0:
        raise UsageError(f"{port} is inside the switch: no cable goes there")


def negotiate(port: SimPort, peer: SimPort) -> None:
    """Write the active width and speed of both ends: the best that both have enabled (IBA 14.2.5.6)."""
    ends = port.info, peer.info
    a, b = (PortInfo(bytes(info)) for info in ends)
    above_ndr = all(SpeedsAboveNdr.link_speed_ext_enabled2.decode(info) & _XDR for info in ends)
    # A real link between ends with nothing in common would stay down; here it runs at 1x SDR, which every port can.
    width = _best(a.link_width_enabled & b.link_width_enabled, (8, 4, 2, 16)) or 1
    speed = _best(a.link_speed_enabled & b.link_speed_enabled, (4, 2)) or 1
    extended = _best(a.link_speed_ext_enabled & b.link_speed_ext_enabled, (8, 4, 2, 1))
    for info in ends:
        PortInfo.link_width_active.patch(info, width)
        PortInfo.link_speed_active.patch(info, speed)
        PortInfo.link_speed_ext_active.patch(info, 0 if above_ndr else extended)
        SpeedsAboveNdr.link_speed_ext_active2.patch(info, _XDR if above_ndr else 0)


def _best(common: int, order: tuple[int, ...]) -> int:
    return next((bit for bit in order if common & bit), 0)


def bring_up(port: SimPort, traps: Traps) -> None:
    """Bring both ends of the link of *port* to Initialize/LinkUp, unless there is no cable, or an end is disabled or
    asleep."""
    peer = port.peer
    if peer is None or {port.physical_state, peer.physical_state} & {_DISABLED, _SLEEP}:
        return
    for end in (port, peer):
        end.set_states(PortState.INITIALIZE, PortPhysicalState.LINK_UP)
        _record_change(end, "link-up", traps)


def take_down(port: SimPort, traps: Traps, own_state: int = _POLLING) -> None:
    """Let both ends of the link of *port* fall to Down. *own_state*: the PortPhysicalState of *port* then; that of the
    other end is `state_without_link`."""
    peer = port.peer
    was_up = port.state != PortState.DOWN
    port.set_states(PortState.DOWN, own_state)
    if peer is not None:
        peer.set_states(PortState.DOWN, state_without_link(peer))
    if was_up:
        for end in (port, peer):
            if end is not None:
                end.count("link_downed_counter")
                _record_change(end, "link-down", traps)


def state_without_link(port: SimPort) -> int:
    """Return the PortPhysicalState of *port* after its link falls: Polling, unless it is disabled or asleep already."""
    state = port.physical_state
    return state if state in (_DISABLED, _SLEEP) else _POLLING


def _record_change(port: SimPort, kind: str, traps: Traps) -> None:
    """Record the event *kind* of the link of *port*. A switch also sets PortStateChange and sends trap 128."""
    port.record(kind)
    node = port.node
    if node.switch_info is not None:
        SwitchInfo.port_state_change.patch(node.switch_info, 1)
        node.touch()
        traps.send(node.ports[0], notices.link_state_change(node.ports[0]))

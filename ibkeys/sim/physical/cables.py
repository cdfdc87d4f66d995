"""The cables of a simulated subnet: plugged and pulled by commands; a pulled cable remembers its other end."""

from __future__ import annotations

from ibkeys.errors import UsageError
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.physical import links
from ibkeys.sim.traps import Traps


class Cables:
    """Plugs and pulls cables; *traps* reports it to the SM. ``unplugged``: the former other end of a port's cable."""

    def __init__(self, traps: Traps) -> None:
        self.unplugged: dict[SimPort, SimPort] = {}
        self._traps = traps

    def unplug(self, port: SimPort) -> SimPort | None:
        """Pull the cable out of *port*: both ends fall to Down. Returns the other end. Raises UsageError."""
        _refuse_port_0(port)
        peer = port.peer
        if peer is not None:
            links.take_down(port, self._traps, links.state_without_link(port))
            port.peer = peer.peer = None
            self.unplugged[port], self.unplugged[peer] = peer, port
            for end in (port, peer):
                end.touch()
        return peer

    def plug(self, port: SimPort, peer: SimPort) -> None:
        """Put a cable between two free ports; the link comes up to Initialize. Raises UsageError."""
        for end in (port, peer):
            _refuse_port_0(end)
        for end in (port, peer):
            if end.peer is not None or port is peer:
                raise UsageError(f"{end} has a cable already")
        port.peer, peer.peer = peer, port
        links.negotiate(port, peer)
        for end in (port, peer):
            end.touch()
        links.bring_up(port, self._traps)


def _refuse_port_0(port: SimPort) -> None:
    if port.number == 0:
        raise UsageError(f"{port} is inside the switch: no cable goes there")

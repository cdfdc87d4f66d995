"""Port GUIDs that several nodes show: the GUID does not tell which node is genuine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ibkeys.grouping import gathered
from ibkeys.topology.nodes import Port


def shared_port_guids(ports: Iterable[Port]) -> Mapping[int, list[Port]]:
    """Return the port GUIDs that end ports of different nodes show, with these ports.

    Several ports of one CA with one port GUID are planes of one XDR port, and share it by right.
    """
    found = gathered((port.guid, port) for port in ports if port.guid)
    return {guid: places for guid, places in found.items() if any(place.node is not places[0].node for place in places)}


def others_that_show_it(port: Port, shared: Mapping[int, list[Port]]) -> str | None:
    """Return in words the ports of other nodes that show the port GUID of *port*; None when there is none."""
    others = [str(place) for place in shared.get(port.guid, ()) if place.node is not port.node]
    return ", ".join(others) or None

"""Port GUIDs that several nodes show: the GUID does not tell which node is genuine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ibkeys.errors import UsageError
from ibkeys.grouping import gathered
from ibkeys.topology.nodes import Port

if TYPE_CHECKING:
    from ibkeys.topology.model import Topology


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


def refuse_uncertain(ports: Iterable[Port], fabric: Topology) -> None:
    """Raise UsageError for a port whose GUID is not known, or not certain: a policy would not name this port."""
    shared = shared_port_guids(fabric.end_ports())
    for port in ports:
        if not port.guid:
            raise UsageError(f"{port}: its port GUID could not be read, and a policy names ports by it")
        doubt, others = fabric.doubtful.get(port), others_that_show_it(port, shared)
        if doubt or others:
            raise UsageError(
                f"{port}: its port GUID 0x{port.guid:016x} is not certain: {doubt or f'{others} show it too'}"
            )

"""Finding a port in the model of a fabric, by what a user or script calls it. Sends nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ibkeys.client.address import Address, DirectedAddress, GuidAddress, LidAddress, NameAddress
from ibkeys.errors import AddressError, Unreachable, UsageError
from ibkeys.near import did_you_mean_one_of, near_nodes
from ibkeys.topology.model import Node, Port, Topology
from ibkeys.topology.plausible import check_port_numbers


def find_port(fabric: Topology, address: Address, portnum: int | None) -> Port:
    """Return the port that *address* and *portnum* mean; without *portnum* port 0 of a switch, else the port reached.

    Raises AddressError (several nodes match), UsageError (no such port number), Unreachable (nothing has it).
    """
    ports = find_ports(fabric, address)
    near = ""
    if isinstance(address, NameAddress) and not ports:
        near = did_you_mean_one_of(near_nodes(address.name, (node.description or "" for node in fabric.nodes)))
    return pick(fabric, ports, portnum, str(address), near)


def find_ports(fabric: Topology, address: Address) -> list[Port]:
    """Return the end ports of the one node that *address* names; none where nothing has it. Raises AddressError."""
    if isinstance(address, LidAddress):
        port = fabric.find_lid(address.lid)
        return [port] if port else []
    if isinstance(address, DirectedAddress):
        return list(_on_route(fabric, address.path))
    if isinstance(address, GuidAddress):
        ports = fabric.find_guid(address.guid)
    else:
        ports = [port for node in fabric.find_name(address.name) for port in node.ports.values() if port.is_end_port]
        ports = [port for port in ports if port.node.is_switch or port.path is not None]
    nodes = {id(port.node): port.node for port in ports}
    if len(nodes) > 1:
        what = "name" if isinstance(address, NameAddress) else "GUID"
        raise AddressError(f"{address} is the {what} of {len(nodes)} nodes: {candidates(nodes.values())}")
    return ports


def pick(fabric: Topology | None, ports: Sequence[Port], portnum: int | None, what: str, near: str = "") -> Port:
    """Return port *portnum* of the node whose end ports *ports* are; *what* names it in the errors of `find_port`, and
    *near* ends the one that says there is none.

    Raises as that, and ImpossibleValue if the node's own port numbers make no sense.
    """
    if not ports:
        troubles = len(fabric.troubles) if fabric else 0
        hint = f" ({troubles} ports could not be read: see discover)" if troubles else ""
        if fabric and fabric.unasked:
            why = next(trouble for trouble in fabric.troubles if trouble.port is fabric.unasked[0].near)
            hint = f" ({len(fabric.unasked)} places were not asked; {why.port}: {why.error})"
        raise Unreachable(f"{what}: nothing on this subnet has it{hint}{near}")
    node = ports[0].node
    first = min(ports, key=lambda port: port.num)
    check_port_numbers(node, first)
    num = first.num if portnum is None or (portnum == 0 and not node.is_switch) else portnum
    if not 0 <= num <= node.num_ports:
        raise no_such_port(first, num)
    port = node.port(num)
    if not node.is_switch and port.path is None:
        raise Unreachable(
            f"port {num} of {node.description or hex(node.guid)!r}: no link of this subnet reaches it; "
            "if it is on another subnet, ask it by its LID from there"
        )
    return port


def _on_route(fabric: Topology, path: tuple[int, ...]) -> Iterator[Port]:
    """Follow *path* along the links that a sweep proved and yield the end port where it ends."""
    if not fabric.nodes:
        return
    node = fabric.nodes[0]
    port = node.port(0) if node.is_switch else next((port for port in node.ports.values() if port.path == ()), None)
    for hop in path:
        out = node.ports.get(hop)
        if out is None or out.peer is None or (not node.is_switch and out.path != ()):
            return
        port = out.peer
        node = port.node
    if port is not None:
        yield port.end_port


def no_such_port(port: Port, num: int) -> UsageError:
    """Return the error for a port number that the node does not have."""
    count = port.node.num_ports
    return UsageError(f"{port}: there is no port {num}, the node has {count} port{'s' if count != 1 else ''}")


def candidates(nodes: Iterable[Node]) -> str:
    """Return *nodes* in words, for a message that asks which of them was meant."""
    listed = [f"0x{node.guid:016x} ({node.type_name}, route {','.join(map(str, (0, *node.path)))})" for node in nodes]
    more = f", and {len(listed) - 8} more" if len(listed) > 8 else ""
    return ", ".join(listed[:8]) + more + "; name one by its GUID (-G) or route (-D)"

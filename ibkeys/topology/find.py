"""Finding a port in the model of a fabric, by the address that a user or script gives. Sends nothing."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ibkeys.client.address import Address, DirectedAddress, GuidAddress, LidAddress, NameAddress
from ibkeys.errors import AddressError, Unreachable
from ibkeys.printable import clean, counted
from ibkeys.similar_names import did_you_mean_one_of, near_nodes, split_description
from ibkeys.topology.impossible_values import check_port_numbers
from ibkeys.topology.names.patterns import is_pattern
from ibkeys.topology.nodes import Node, Port

if TYPE_CHECKING:
    from ibkeys.topology.searched_fabric import SearchableFabric

_NAMED: Final = 8
"""A message names at most so many nodes."""


ALIAS_MEANS: Final = "upstream OpenSM gives an alias nothing; NVIDIA's applies it to the virtual port"
"""The effect of a policy's item that names an alias GUID, as text."""


class SeveralNodes(AddressError):
    """A host's name stands for several nodes, where only one may be named. ``ports``: the end ports of all of them."""

    def __init__(self, message: str, ports: Sequence[Port]) -> None:
        super().__init__(message)
        self.ports = list(ports)
        self.candidates = _words_of(port.node for port in ports)


def find_aliases(fabric: SearchableFabric, guids: Iterable[int]) -> dict[int, tuple[Port, int]]:
    """Return those of *guids* that are alias GUIDs, each with the first end port that has it and its index in GUIDInfo.

    An alias GUID is a GUID in the GUIDInfo of an end port that is no port's own GUID; index 0 of GUIDInfo is the port's
    own GUID (IBA 14.2.5.5). Ports whose GUIDInfo was not read are not searched.
    """
    ends = list(fabric.end_ports())
    wanted = set(guids) - {0, *(port.guid for port in ends)}
    found: dict[int, tuple[Port, int]] = {}
    for port in ends if wanted else ():
        for index, (guid,) in enumerate(struct.iter_unpack(">Q", port.guid_info or b"")):
            if index and guid in wanted:
                found.setdefault(guid, (port, index))
    return found


def find_port(fabric: SearchableFabric, address: Address, portnum: int | None) -> Port:
    """Return the port that *address* and *portnum* mean; without *portnum* port 0 of a switch, else the port with the
    address.

    Raises AddressError (several nodes match: SeveralNodes where they are those of one host; or a name that no node has
    is a pattern), UsageError (no such port number), Unreachable (no port has the address, or no link of this subnet
    reaches the port), ImpossibleValue (the node's own port numbers make no sense).
    """
    ports = find_ports(fabric, address)
    near: Sequence[str] = ()
    if isinstance(address, NameAddress) and not ports:
        if is_pattern(address.name):
            raise AddressError(f"{address}: a pattern may stand for several ports; name the one port that is meant")
        near = near_nodes(address.name, (node.description or "" for node in fabric.nodes))
    return pick(fabric, ports, portnum, str(address), near)


def find_ports(fabric: SearchableFabric, address: Address) -> list[Port]:
    """Return the end ports that *address* means: one port for a LID or route, the ports with a port GUID, or all end
    ports of one node for a name or node GUID. An empty list if there is none.

    A name is a whole NodeDescription or the host's part of it. A node chooses its NodeDescription, so one that is only
    the host's name does not go before the other nodes of that host. Raises AddressError where several nodes match,
    SeveralNodes where they are those of one host.
    """
    if isinstance(address, LidAddress):
        port = fabric.find_lid(address.lid)
        return [port] if port else []
    if isinstance(address, DirectedAddress):
        return list(_on_route(fabric, address.path))
    if isinstance(address, GuidAddress):
        ports = fabric.find_guid(address.guid)
    else:
        found = dict.fromkeys([*fabric.find_name(address.name), *_of_host(fabric, address.name)])
        ports = [port for node in found for port in node.ports.values() if port.is_end_port]
        ports = [port for port in ports if port.node.is_switch or port.path is not None]
        is_host = any(port.node.description != address.name for port in ports)
        if is_host and len({port.node for port in ports}) > 1:
            ports.sort(key=lambda port: port.node.description or "")
            raise SeveralNodes(_of_one_host(address, list(dict.fromkeys(port.node for port in ports))), ports)
    nodes = {id(port.node): port.node for port in ports}
    if len(nodes) > 1:
        what = "name" if isinstance(address, NameAddress) else "GUID"
        error = AddressError(f"{address} is the {what} of {len(nodes)} nodes: {candidates(nodes.values())}")
        error.candidates = _words_of(nodes.values())
        raise error
    return ports


def pick(
    fabric: SearchableFabric | None, ports: Sequence[Port], portnum: int | None, what: str, near: Sequence[str] = ()
) -> Port:
    """Return port *portnum* of the node that has the end ports *ports*.

    *what* names the node in the errors; *near* are similar names, for the message that nothing was found. Raises
    UsageError, Unreachable and ImpossibleValue as `find_port` does.
    """
    if not ports:
        error = Unreachable(f"{what}: {_not_found(fabric)}{did_you_mean_one_of(near)}")
        error.candidates = tuple(near)
        raise error
    node = ports[0].node
    first = min(ports, key=lambda port: port.num)
    check_port_numbers(first)
    port = node.port(first.number_meant(portnum))
    if not node.is_switch and port.path is None:
        raise Unreachable(
            f"port {port.num} of {node.description or hex(node.guid)!r}: no link of this subnet reaches it; "
            "if it is on another subnet, query it by its LID from there"
        )
    return port


def _not_found(fabric: SearchableFabric | None) -> str:
    """Return the message for a port that was not found: there is no such port, or it may be in a part of the fabric
    that was not read.
    """
    troubles = fabric.troubles if fabric else []
    unasked = fabric.unasked if fabric else []
    unread = [trouble for trouble in troubles if trouble.is_behind]
    if unasked:
        place = unasked[0].near
        why, count, missing = next(each for each in troubles if each.port is place), len(unasked), "queried"
    elif unread:
        why, count, missing = unread[0], len(unread), "read"
    else:
        hint = f" ({counted(len(troubles), 'port')} could not be read: see discover)" if troubles else ""
        return f"no port on this subnet matches{hint}"
    were = f"{counted(count, 'place')} {'was' if count == 1 else 'were'} not {missing}"
    return f"not found, but {were}, so it may be there: {why.port}: {why.error}"


def _on_route(fabric: SearchableFabric, path: tuple[int, ...]) -> Iterator[Port]:
    """Follow *path* along the links of a sweep and yield the end port where it ends."""
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


def _of_host(fabric: SearchableFabric, host: str) -> list[Node]:
    return [node for node in fabric.nodes if node.description and split_description(node.description)[0] == host]


def _of_one_host(address: NameAddress, nodes: Sequence[Node]) -> str:
    """Return the message that the host which *address* names has several nodes: *nodes*, with their full names."""
    names = list(dict.fromkeys(node.description or "" for node in nodes))
    if len(names) < len(nodes) or address.name in names:
        return f"{address} stands for {len(nodes)} nodes: {candidates(nodes)}"
    rest = f" (all of them: names {clean(address.name)})" if len(names) > _NAMED else ""
    return f"{address} stands for {len(nodes)} nodes{rest}{did_you_mean_one_of(names, _NAMED)}"


def _words_of(nodes: Iterable[Node]) -> tuple[str, ...]:
    """Return for each node a word that finds it alone: its name, or its GUID or route where others have the same
    name."""
    each = list(dict.fromkeys(nodes))
    names = Counter(name for node in each for name in {node.description, split_description(node.description or "")[0]})
    guids = Counter(node.guid for node in each)
    return tuple(
        (node.description if names[node.description] == 1 else None)
        or (f"0x{node.guid:016x}" if guids[node.guid] == 1 else ",".join(map(str, (0, *node.path))))
        for node in each
    )


def candidates(nodes: Iterable[Node]) -> str:
    """Return *nodes* in words, for a message that asks which node was meant."""
    listed = [f"0x{node.guid:016x} ({node.type_name}, route {','.join(map(str, (0, *node.path)))})" for node in nodes]
    more = f", and {len(listed) - _NAMED} more (all of them: names)" if len(listed) > _NAMED else ""
    return ", ".join(listed[:_NAMED]) + more + "; name one by its GUID (-G) or route (-D)"

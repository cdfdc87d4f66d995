"""Replaced adapters: which node took over from which, and the port GUIDs, port by port.

The former node is no longer on the fabric. Its ports are known from an earlier snapshot, from the key store, or by one
port GUID alone. A GUID or a name never makes a new node the replacement of another: root on a host can choose
both. The caller names the pair, or shows the pair that `likely_pairs` found, and asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ibkeys.arguments import given
from ibkeys.client.address import parse_guid
from ibkeys.errors import Refused, UsageError
from ibkeys.keys.guid import is_spelled_as_guid
from ibkeys.printable import clean, counted, named
from ibkeys.topology.directory import Directory, guids_of
from ibkeys.topology.find import find_aliases
from ibkeys.topology.matching import unseen_in
from ibkeys.topology.model import Topology
from ibkeys.topology.moves import Move
from ibkeys.topology.nodes import LinkEnd, Node, Port
from ibkeys.topology.recabling import what_moved
from ibkeys.topology.shared_guids import refuse_uncertain

OLD_ANSWERS: Final = "old-answers"
"""The name of the refusal to replace a node that is still there."""
REPLACED_ADAPTER: Final = "replaced-adapter"
"""The interlock of a pair of which something is unusual or not known."""


@dataclass(frozen=True, slots=True)
class PortInStore:
    """A port of the key store: its port GUID; the GUID of its node and its port number, None if not known."""

    port_guid: int
    node_guid: int | None
    num: int | None


@dataclass(frozen=True, slots=True)
class FormerNode:
    """A node that is no longer on the fabric, or some of its ports.

    ``name``: its name, or its GUID if that is all that is known. ``guid``: the node GUID, None if not known. ``ports``:
    port number → port GUID. ``lone``: the port GUID of a port whose number is not known, None otherwise.
    ``num_ports``: None if not known. ``places``: port GUID → the switch port that the port was linked to, where it is
    known. ``node``: the node in the earlier snapshot, None without one.
    """

    name: str
    guid: int | None
    ports: Mapping[int, int] = field(default_factory=dict)
    lone: int | None = None
    num_ports: int | None = None
    places: Mapping[int, LinkEnd] = field(default_factory=dict)
    node: Node | None = None

    @property
    def port_guids(self) -> tuple[int, ...]:
        """The port GUIDs that are known, in the order of the port numbers."""
        return tuple(self.ports.values()) if self.lone is None else (self.lone,)

    @property
    def guids(self) -> tuple[int, ...]:
        """The node GUID, if known, and the port GUIDs."""
        return tuple(dict.fromkeys([*filter(None, [self.guid]), *self.port_guids]))

    def __str__(self) -> str:
        guid = self.guid if self.guid is not None else self.lone
        number = f"0x{guid or 0:016x}"
        return number if self.name in ("", number) else f"{clean(self.name)} ({number})"


@dataclass(frozen=True, slots=True)
class ReplacedNode:
    """A new node that takes over from a former one. ``pairs``: each former port GUID with the new port; ``left``: port
    GUIDs of former ports that have no new port. ``doubts``: each thing that is unusual or not known, in words."""

    former: FormerNode
    new: Node
    pairs: tuple[tuple[int, Port], ...]
    left: tuple[int, ...] = ()
    doubts: tuple[str, ...] = ()

    @property
    def port_guids(self) -> dict[int, int]:
        """Former port GUID → new port GUID."""
        return {former: port.guid for former, port in self.pairs}

    @property
    def guids(self) -> dict[int, int]:
        """Former GUID → new GUID, of the node and its ports. If a GUID is that of the node and of a port, it names the
        node."""
        node = {} if self.former.guid is None else {self.former.guid: self.new.guid}
        return self.port_guids | node

    def __str__(self) -> str:
        return f"{self.former} -> {clean(self.new.description or '')} (0x{self.new.guid:016x})"


# --- the former node --------------------------------------------------------------------------------------------------


def former_in_snapshot(baseline: Topology, word: str) -> FormerNode:
    """Return the node that *word* names in an earlier snapshot; a port GUID means this port alone, unless it is the
    node GUID too.

    Raises AddressError for a word that names no node; UsageError for one that names several, and for a port whose GUID
    could not be read.
    """
    ports = _ports_of_one_node(baseline, word)
    return _former(ports[0].node, ports)


def former_in_store(guid: int, stored: Iterable[PortInStore], neighbors: Mapping[LinkEnd, LinkEnd]) -> FormerNode:
    """Return the node with the node GUID *guid*, or the port with this port GUID, as the key store has it; if it has
    neither, the port with this GUID alone. *neighbors*: one end of a known link → the other end.
    """
    rows = [each for each in stored if guid in (each.node_guid, each.port_guid)]
    of_node = {each.num: each.port_guid for each in rows if each.node_guid == guid and each.num is not None}
    own = {each.num: guid for each in rows if each.port_guid == guid and each.num is not None}
    ports = dict(sorted((of_node or own).items()))
    node_guid = next((each.node_guid for each in rows if each.node_guid is not None), None)
    guids = [*ports.values()] or [guid]
    is_switch = 0 in ports
    places = {} if is_switch else {end[0]: far for end, far in neighbors.items() if end[0] in guids}
    return FormerNode(f"0x{guid:016x}", node_guid, ports, None if ports else guid, None, places)


def _former(node: Node, ports: Sequence[Port]) -> FormerNode:
    for port in ports:
        if not port.guid:
            raise UsageError(f"{port}: its port GUID could not be read in the earlier snapshot")
    places = {port.guid: port.peer.link_end for port in ports if port.peer is not None and port.peer.is_external}
    return FormerNode(
        node.description or "",
        node.guid,
        {port.num: port.guid for port in sorted(ports, key=lambda port: port.num)},
        None,
        node.num_ports,
        {} if node.is_switch else places,
        node,
    )


def _ports_of_one_node(fabric: Topology, word: str) -> list[Port]:
    if is_spelled_as_guid(word):
        guid = parse_guid(word).guid
        ports = [port for port in fabric.end_ports() if port.node.guid == guid]
        ports = ports or [port for port in fabric.end_ports() if port.guid == guid]
    else:
        ports = []
    ports = ports or Directory(fabric).find(word)
    nodes = list(dict.fromkeys(port.node for port in ports))
    if len(nodes) > 1:
        raise UsageError(f"{clean(word)!r} names {len(nodes)} nodes, and one adapter is replaced: {guids_of(nodes)}")
    return ports


# --- pairs ------------------------------------------------------------------------------------------------------------


def likely_pairs(before: Topology, now: Topology) -> Iterator[Move]:
    """Yield the moves by which a node with a new GUID is at the place of another, with its name, while the former GUID
    is gone: the likely replacements between two sweeps."""
    return (move for move in what_moved(before, now).moved if move.is_likely_replacement)


def pair_of_move(move: Move, before: Topology, now: Topology) -> ReplacedNode:
    """Return the replacement that a move of `likely_pairs` shows. Raises the errors of `replace_by`."""
    node = move.pairs[0][0].node
    ports = [port for port in before.end_ports() if port.node is node]
    new = move.pairs[0][1].node
    return replace_by(_former(node, ports), [port for port in now.end_ports() if port.node is new], now, before)


def find_new(former: FormerNode, now: Topology, before: Topology) -> list[Port]:
    """Return the ports of the node that likely took the place of *former*. Raises UsageError if there is none."""
    for move in likely_pairs(before, now):
        if move.pairs[0][0].node is former.node:
            return [port for port in now.end_ports() if port.node is move.pairs[0][1].node]
    other = next((move for move in what_moved(before, now).moved if former.node in move.nodes), None)
    hint = f"; at its place is {guids_of([other.pairs[0][1].node])}, with another name" if other is not None else ""
    raise UsageError(f"no new node with its name is at the place of {former}{hint}: name the new one, too")


def new_ports(now: Topology, word: str) -> list[Port]:
    """Return the ports of the new node that *word* names, as `former_in_snapshot` does for the former one."""
    return _ports_of_one_node(now, word)


def replace_by(
    former: FormerNode, ports: Sequence[Port], now: Topology, before: Topology | None = None
) -> ReplacedNode:
    """Return the replacement of *former* by *ports* of one node on the fabric *now*, port by port.

    *before*: the earlier snapshot, None without one. Raises Refused (`OLD_ANSWERS`) if a GUID of *former* is on the
    fabric; UsageError for a port whose GUID is not known or not certain, for nodes of different types, and if it is not
    clear which port takes over from which.
    """
    new = ports[0].node
    _refuse_present(former, now)
    refuse_uncertain(ports, now)
    if former.node is not None and former.node.type != new.type:
        raise UsageError(
            f"{former} was a {former.node.type_name}, and 0x{new.guid:016x} is a {new.type_name}: "
            "each takes over only from its own kind"
        )
    pairs, left = _pair_ports(former, ports)
    return ReplacedNode(former, new, pairs, left, tuple(_doubts(former, new, pairs, left, now, before)))


def _pair_ports(former: FormerNode, ports: Sequence[Port]) -> tuple[tuple[tuple[int, Port], ...], tuple[int, ...]]:
    if len(former.port_guids) == len(ports) == 1:
        return ((former.port_guids[0], ports[0]),), ()
    if former.lone is not None:
        choices = named([f"0x{port.guid:016x} (port {port.num})" for port in ports])
        raise UsageError(
            f"the key store has no node or port 0x{former.lone:016x}: name a port GUID of the policy, if this is none, "
            f"and one port of the new node, {choices}; or an earlier snapshot ({given('--baseline')})"
        )
    by_number = {port.num: port for port in ports}
    pairs = tuple((guid, by_number[num]) for num, guid in former.ports.items() if num in by_number)
    if not pairs:
        numbers = named([str(num) for num in former.ports])
        raise UsageError(f"the new node has no port {numbers}: name one port GUID of each")
    return pairs, tuple(guid for num, guid in former.ports.items() if num not in by_number)


def _refuse_present(former: FormerNode, now: Topology) -> None:
    wanted = {*former.guids}
    for port in now.end_ports():
        if wanted & {port.guid, port.node.guid}:
            raise Refused(
                f"nothing was changed: {former} was not replaced, for {port} answers with its GUID; if that is another "
                "node with this GUID, remove it first: it has the P_Keys of the former one",
                OLD_ANSWERS,
            )
    for guid, (port, index) in find_aliases(now, wanted).items():
        raise Refused(
            f"nothing was changed: {former} was not replaced, for 0x{guid:016x} is alias GUID {index} of {port}",
            OLD_ANSWERS,
        )


def _doubts(
    former: FormerNode,
    new: Node,
    pairs: Sequence[tuple[int, Port]],
    left: Sequence[int],
    now: Topology,
    before: Topology | None,
) -> Iterator[str]:
    """Yield a text for each thing about a pair that is unusual or not known."""
    if former.num_ports is not None and former.num_ports != new.num_ports:
        yield f"{former} had {counted(former.num_ports, 'port')}, and the new node has {new.num_ports}"
    if left:
        yield f"no port takes over from {named([f'0x{guid:016x}' for guid in left])}, which stay as they are"
    for guid, port in pairs:
        place = former.places.get(guid)
        if place is not None and port.peer is not None and port.peer.link_end != place:
            yield f"{port} is at another place than 0x{guid:016x} was: behind {port.peer}"
        if port.virtual_ports in ("on", "unknown"):
            yield f"{port} has or may have virtual ports, whose GUIDs and P_Keys are not replaced"
        if any(port.guid_info[8:] if port.guid_info is not None else b""):
            yield f"{port} has alias GUIDs, which are not replaced"
        old = None if former.node is None else former.node.ports.get(port.num)
        if old is not None and (old.virtual_ports == "on" or any((old.guid_info or b"")[8:])):
            yield f"0x{guid:016x} had virtual ports or alias GUIDs, which are not replaced"
    if before is not None:
        known = [port for port in before.end_ports() if new.guid == port.node.guid]
        if known:
            yield f"0x{new.guid:016x} is not new: it was {known[0]} in the earlier snapshot"
        if former.node in unseen_in(now, before):
            yield f"{former} may still be there: what is at its former place did not answer"
    elif silent := sum(trouble.is_behind for trouble in now.troubles):
        yield f"{former} may still be there: {counted(silent, 'node')} behind a link did not answer"

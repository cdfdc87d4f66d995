"""The ports that a user names for a policy: words such as ``'tank*'``, and the GUIDs that the policy then has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, cast

from ibkeys.change.consent import Objection
from ibkeys.client.address import parse_guid
from ibkeys.grouping import grouped
from ibkeys.keys.guid import is_set_of_guids, is_spelled_as_guid
from ibkeys.partitions.editing.changes import KnownPorts
from ibkeys.partitions.membership import PortKind
from ibkeys.partitions.model import Keyword
from ibkeys.printable import Detail, counted, named
from ibkeys.topology.directory import Directory, require_distinct
from ibkeys.topology.model import Topology
from ibkeys.topology.names.folded import FoldedNames
from ibkeys.topology.nodes import Port
from ibkeys.topology.shared_guids import refuse_uncertain

KEYWORDS: Final[tuple[Keyword, ...]] = ("ALL", "ALL_CAS", "ALL_SWITCHES", "ALL_ROUTERS", "SELF")


@dataclass(frozen=True, slots=True)
class PortsOfWords:
    """The ports that words stand for.

    ``guids``: the port GUIDs by the word that stands for them; keywords are left out. ``known``: the names and types of
    all ports of the fabric, by GUID. ``ports``: all end ports of the fabric, by GUID. ``objections``: the interlocks
    that the ports trigger. ``notes``: facts about the ports for the user; ``warnings``: possible faults of the ports.
    """

    guids: dict[str, list[int]]
    known: KnownPorts
    ports: dict[int, Port]
    objections: tuple[Objection, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @classmethod
    def none(cls) -> PortsOfWords:
        """Return the result for no words, without a fabric."""
        return cls({}, KnownPorts(), {})


def look_up(topology: Topology, words: Sequence[str]) -> PortsOfWords:
    """Look *words* up on a fabric, and return the ports that they stand for.

    A GUID that no port has is accepted with a warning: its host may not be connected yet. Raises AddressError for a
    name that no node has or that several nodes have; UsageError for a port whose GUID is not certain.
    """
    names = [word for word in words if word not in KEYWORDS]
    directory = Directory(topology)
    absent = {word: guid for word in names if (guid := _absent_guid(directory, word)) is not None}
    ports = directory.find_all(word for word in names if word not in absent)
    for listed in ports.values():
        require_distinct(listed)
    refuse_uncertain((port for listed in ports.values() for port in listed), topology)
    guids = {word: [port.guid for port in listed] for word, listed in ports.items()}
    return PortsOfWords(
        guids | {word: [guid] for word, guid in absent.items()},
        known_ports(directory.ports),
        by_guid(topology),
        (),
        tuple(_notes_on_selected(ports, FoldedNames(port.identity() for port in directory.ports))),
        tuple(_nobody_has(absent.values())),
    )


def known_ports(ports: Iterable[Port]) -> KnownPorts:
    """Return the names and node types of *ports* by their GUIDs.

    If a node has several ports, the names have the port number.
    """
    known = [port for port in ports if port.guid]
    labels = {port.guid: _label(port) for port in known if port.node.description}
    return KnownPorts(labels, {port.guid: cast(PortKind, port.node.type_name) for port in known})


def _label(port: Port) -> str:
    """Return the name of a port's node, with the port number if the node is no switch and has several ports."""
    several = not port.node.is_switch and port.node.num_ports > 1
    return (port.node.description or "") + (f" port {port.num}" if several else "")


def by_guid(topology: Topology) -> dict[int, Port]:
    """Return the end ports by their port GUIDs."""
    return {port.guid: port for port in topology.end_ports() if port.guid}


def keywords_of(words: Iterable[str]) -> list[Keyword]:
    """Return the keywords among *words*, ordered so that a later keyword overrides an earlier one for its ports."""
    all_words = set(words)
    return [word for word in KEYWORDS if word in all_words]


def _absent_guid(directory: Directory, word: str) -> int | None:
    if not is_spelled_as_guid(word) or is_set_of_guids(word):
        return None
    guid = parse_guid(word).guid
    return None if directory.fabric.find_guid(guid) else guid


def unread_in(topology: Topology) -> list[str]:
    """Return a warning if a part of the fabric could not be read: a name may belong to more ports."""
    unread = counted(len(topology.troubles), "thing")
    text = f"{unread} could not be read, so a name may belong to more ports: see discover"
    return [text] if topology.troubles else []


def _nobody_has(guids: Iterable[int]) -> list[str]:
    names = [f"0x{guid:016x}" for guid in guids]
    return [f"{named(names)}: no port that was read has this GUID"] if names else []


def _notes_on_selected(ports: dict[str, list[Port]], names: FoldedNames) -> Iterator[str]:
    """Yield notes on words that stand for several ports of a host, and on selected switches."""
    for word, listed in ports.items():
        hosts = grouped(listed, lambda port: (port.node.description or "").split(" ")[0])
        several_each = [own for own in hosts.values() if len(own) > 1]
        several = [port.identity() for own in several_each for port in own]
        if several and not (word.lower().startswith("0x") or is_spelled_as_guid(word)):
            listed_names = ", ".join(names.words(several))
            what = "a host" if len(several_each) == 1 else "hosts"
            yield Detail(f"{word}: {what} with several ports; all of them are selected: {listed_names}")
    switches = {port: port.identity() for listed in ports.values() for port in listed if port.node.is_switch}
    if switches:
        listed_names = ", ".join(names.words(switches.values()))
        are = "are" if len(switches) > 1 else "is"
        yield f"{len(switches)} of the selected ports {are} of a switch: {listed_names}"

"""Looking up the words of a command line: the ports whose GUIDs a policy is to name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from ibkeys.cli import exits
from ibkeys.cli.tools.names import exempt_guids
from ibkeys.errors import UsageError
from ibkeys.grouping import grouped
from ibkeys.keys.guid import is_set_of_guids, is_spelled_as_guid
from ibkeys.printable import clean, named
from ibkeys.topology.names.folded import FoldedNames

if TYPE_CHECKING:
    from ibkeys.change.consent import Objection
    from ibkeys.partitions.editing.changes import KnownPorts
    from ibkeys.partitions.editing.partition_name import PartitionName
    from ibkeys.partitions.membership import PortKind
    from ibkeys.partitions.model import Keyword
    from ibkeys.topology.directory import Directory
    from ibkeys.topology.model import Topology
    from ibkeys.topology.nodes import Port

KEYWORDS: Final[tuple[Keyword, ...]] = ("ALL", "ALL_CAS", "ALL_SWITCHES", "ALL_ROUTERS", "SELF")


def parse_partition(text: str) -> PartitionName:
    """Return the PARTITION of a command line: ``lustre``, ``0x21`` or ``lustre=0x21``.

    Raises UsageError, EncodeError.
    """
    from ibkeys.cli.types import parse_p_key
    from ibkeys.partitions.editing.partition_name import PartitionName

    name, equals, key = text.partition("=")
    if not equals and text.lower().startswith("0x"):
        name, key = "", text
    base = parse_p_key(key).partition if key else None
    if base == 0 or (equals and not key) or not text:
        raise UsageError(f"{clean(text)!r} is not a partition: give its name, its P_Key (0x21), or both (lustre=0x21)")
    return PartitionName(name.strip() or None, base)


@dataclass(frozen=True, slots=True)
class PortsOfWords:
    """The ports that words stand for.

    ``guids``: the port GUIDs by the word that stands for them; keywords are left out. ``known``: the names and types of
    all ports of the fabric, by GUID. ``ports``: all end ports of the fabric, by GUID. ``objections``: the interlocks
    that the ports trigger.
    """

    guids: dict[str, list[int]]
    known: KnownPorts
    ports: dict[int, Port]
    objections: tuple[Objection, ...] = ()

    @classmethod
    def none(cls) -> PortsOfWords:
        """Return the result for no words, without a fabric."""
        from ibkeys.partitions.editing.changes import KnownPorts

        return cls({}, KnownPorts(), {})


def look_up(topology: Topology, words: Sequence[str]) -> PortsOfWords:
    """Look *words* up on a fabric, and return the ports that they stand for. Write notes about these to standard error.

    A GUID that no port has is accepted with a warning: its host may not be connected yet. Raises AddressError for a
    name that no node has or that several nodes have; UsageError for a port whose GUID is not certain.
    """
    from ibkeys.topology.directory import Directory, require_distinct

    names = [word for word in words if word not in KEYWORDS]
    exempt_guids(names)
    directory = Directory(topology)
    absent = {word: guid for word in names if (guid := _absent_guid(directory, word)) is not None}
    ports = directory.find_all(word for word in names if word not in absent)
    for listed in ports.values():
        require_distinct(listed)
    _refuse_uncertain(directory, [port for listed in ports.values() for port in listed])
    _note_selected_ports(ports, FoldedNames(port.identity() for port in directory.ports))
    if absent:
        exits.warn(f"{named([f'0x{guid:016x}' for guid in absent.values()])}: no port that was read has this GUID")
    guids = {word: [port.guid for port in listed] for word, listed in ports.items()}
    return PortsOfWords(
        guids | {word: [guid] for word, guid in absent.items()}, known_ports(directory.ports), by_guid(topology)
    )


def known_ports(ports: Iterable[Port]) -> KnownPorts:
    """Return the names and node types of *ports* by their GUIDs.

    If a node has several ports, the names have the port number.
    """
    from ibkeys.cli.showing import short_name
    from ibkeys.partitions.editing.changes import KnownPorts

    known = [port for port in ports if port.guid]
    labels = {port.guid: short_name(port) for port in known if port.node.description}
    return KnownPorts(labels, {port.guid: cast("PortKind", port.node.type_name) for port in known})


def by_guid(topology: Topology) -> dict[int, Port]:
    """Return the end ports by their port GUIDs."""
    return {port.guid: port for port in topology.end_ports() if port.guid}


def keywords_of(words: Iterable[str]) -> list[Keyword]:
    """Return the keywords among *words*, ordered so that a later keyword overrides an earlier one for its ports."""
    all_words = set(words)
    return [word for word in KEYWORDS if word in all_words]


def _absent_guid(directory: Directory, word: str) -> int | None:
    from ibkeys.client.address import parse_guid

    if not is_spelled_as_guid(word) or is_set_of_guids(word):
        return None
    guid = parse_guid(word).guid
    return None if directory.fabric.find_guid(guid) else guid


def _refuse_uncertain(directory: Directory, ports: Sequence[Port]) -> None:
    from ibkeys.topology.shared_guids import others_that_show_it, shared_port_guids

    shared = shared_port_guids(directory.ports)
    for port in ports:
        if not port.guid:
            raise UsageError(f"{port}: its port GUID could not be read, and a policy names ports by it")
        doubt = directory.fabric.doubtful.get(port)
        others = others_that_show_it(port, shared)
        if doubt or others:
            raise UsageError(
                f"{port}: its port GUID 0x{port.guid:016x} is not certain: {doubt or f'{others} show it too'}"
            )


def _note_selected_ports(ports: dict[str, list[Port]], names: FoldedNames) -> None:
    """Write notes about words that stand for several ports of a host, and about selected switches."""
    for word, listed in ports.items():
        hosts = grouped(listed, lambda port: (port.node.description or "").split(" ")[0])
        several = [port.identity() for own in hosts.values() if len(own) > 1 for port in own]
        if several and not (word.lower().startswith("0x") or is_spelled_as_guid(word)):
            listed_names = ", ".join(names.words(several))
            exits.note(f"{word}: hosts with several ports; all their ports are selected: {listed_names}")
    switches = {port: port.identity() for listed in ports.values() for port in listed if port.node.is_switch}
    if switches:
        listed_names = ", ".join(names.words(switches.values()))
        exits.note(
            f"{len(switches)} of the selected ports {'are' if len(switches) > 1 else 'is'} of a switch: {listed_names}"
        )

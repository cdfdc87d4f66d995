"""Hosts that are down, so that no sweep finds their names: the names by which the journal, the policy and the node name
map know them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ibkeys.automation.named_ports import PortsOfWords
from ibkeys.fabric.live import LiveFabric
from ibkeys.fabric.recorded import RecordedFabric
from ibkeys.keys.guid import is_spelled_as_guid
from ibkeys.partitions.editing.changes import KnownPorts
from ibkeys.partitions.model import Policy
from ibkeys.printable import clean, named
from ibkeys.similar_names import split_description
from ibkeys.store.journal.journal import Journal
from ibkeys.topology.directory import NoPortFound
from ibkeys.topology.model import Topology

_COMMENTED: Final = re.compile(r"(?P<items>[^#]*)#\s*(?P<name>.*\S)\s*")
_GUID: Final = re.compile(r"0[xX][0-9a-fA-F]{5,16}\b")
_WITH_PORT: Final = re.compile(r"(.+) port [0-9]+")


@dataclass(frozen=True, slots=True)
class RecordedNames:
    """Names of nodes that are known without a sweep. ``ports``: by port GUID; ``nodes``: by node GUID."""

    ports: Mapping[int, str] = field(default_factory=dict)
    nodes: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def known_to(cls, source: LiveFabric | RecordedFabric, policy: Policy) -> RecordedNames:
        """Return the names in the comments of *policy* and, for a live fabric, in its journal and its node name map.
        Raises StoreError."""
        of_comments = names_in_comments(policy.data or b"")
        if not isinstance(source, LiveFabric):
            return cls(of_comments)
        with Journal.read(source.stores.journal) as journal:
            of_journal = {guid: name for guid, (name, _) in journal.nodes().items()}
        return cls({**of_comments, **of_journal}, source.node_names)

    def advised(self, error: NoPortFound) -> NoPortFound:
        """Return *error* with advice on how to name a host that is down, and with the GUIDs of that host, if they are
        known."""
        known = [text for word in error.words for text in self.guids_of(word)]
        advice = "a host that is down is named by its port GUIDs"
        return error.advised(f"{advice}: {named(known)}" if known else f"{advice}, which `ibstat -p` shows on the host")

    def without(self, topology: Topology) -> RecordedNames:
        """Return the names of the GUIDs that are not in *topology*."""
        ports = {port.guid for port in topology.end_ports()}
        nodes = {node.guid for node in topology.nodes}
        return RecordedNames(
            {guid: name for guid, name in self.ports.items() if guid not in ports},
            {guid: name for guid, name in self.nodes.items() if guid not in nodes},
        )

    def guids_of(self, word: str) -> list[str]:
        """Return, in words, the GUIDs that had the name *word*."""
        return [
            f"{clean(name)} had {what} {', '.join(f'0x{guid:016x}' for guid in guids)}"
            for names, what in ((self.ports, "port GUID"), (self.nodes, "node GUID"))
            for name, guids in _by_name(names).items()
            if word in (name, split_description(name)[0])
        ]


def names_in_comments(text: bytes) -> dict[int, str]:
    """Return the comment of each line of a policy that has one GUID, as `ibkeys partition-add` writes it, by GUID."""
    found: dict[int, str] = {}
    for line in text.decode("utf-8", "replace").splitlines():
        match = _COMMENTED.fullmatch(line)
        guids = _GUID.findall(match["items"]) if match is not None else []
        if match is not None and len(guids) == 1:
            found[int(guids[0], 16)] = match["name"]
    return found


def _by_name(names: Mapping[int, str]) -> dict[str, list[int]]:
    """Return the GUIDs of each name, which loses the number of the port."""
    found: dict[str, list[int]] = {}
    for guid, name in sorted(names.items()):
        with_port = _WITH_PORT.fullmatch(name)
        found.setdefault(with_port[1] if with_port is not None else name, []).append(guid)
    return found


def find_replaced(
    source: LiveFabric | RecordedFabric,
    policy: Policy,
    topology: Topology,
    old: str,
    find: Callable[[Topology], PortsOfWords],
) -> PortsOfWords:
    """Return what *find* finds on the fabric. The NoPortFound of *old*, the name of a former adapter, says which GUIDs
    had this name and are gone. Raises the errors of *find*, and StoreError."""
    try:
        return find(topology)
    except NoPortFound as error:
        if error.words != (old,):
            raise
        known = RecordedNames.known_to(source, policy).without(topology).guids_of(old)
        raise (error.advised(f"{named(known)}: give that GUID") if known else error) from None


def look_up_also_absent(
    source: LiveFabric | RecordedFabric,
    policy: Policy,
    topology: Topology,
    words: Sequence[str],
    find_ports: Callable[[Topology, Sequence[str]], PortsOfWords],
) -> PortsOfWords:
    """Look *words* up with *find_ports*. A GUID that no port of the fabric has gets the name that is recorded for it.

    The NoPortFound of a name says how a host that is down is named. Raises the errors of *find_ports*, and StoreError.
    """
    try:
        found = find_ports(topology, words)
    except NoPortFound as error:
        if all(word.isdigit() or is_spelled_as_guid(word) for word in error.words):
            raise
        raise RecordedNames.known_to(source, policy).advised(error) from None
    absent = {guid for guids in found.guids.values() for guid in guids} - found.ports.keys()
    if not absent:
        return found
    recorded = RecordedNames.known_to(source, policy).ports
    names = {guid: recorded[guid] for guid in absent if guid in recorded}
    return replace(found, known=KnownPorts({**names, **found.known.labels}, found.known.kinds))

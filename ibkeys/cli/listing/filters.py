"""The filters of showing commands: ``--node``, ``--partition``, ``--nonzero`` and others choose ports of a sweep."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ibkeys.cli.addresses import NodeSet
from ibkeys.cli.listing.partition_names import is_number, partition_number
from ibkeys.cli.options import Filters
from ibkeys.cli.types import parse_p_key
from ibkeys.errors import AddressError, Unreachable
from ibkeys.grouping import grouped
from ibkeys.printable import counted
from ibkeys.topology.port_id import LookedAt

if TYPE_CHECKING:
    from ibkeys.fabric.snapshot import Snapshot
    from ibkeys.topology.directory import Directory
    from ibkeys.topology.model import Topology, Trouble
    from ibkeys.topology.nodes import Node, Port
    from ibkeys.topology.port_id import PortKey


class PortFilter:
    """The filters of a command line. A port must match each option that was given, by one of the option's values.

    *also*: a filter that only one command has. A port whose value could not be read does not match; the command lists
    it with the errors. Raises EncodeError for an invalid P_Key.
    """

    def __init__(self, filters: Filters, also: Callable[[Port], bool] | None = None) -> None:
        self._filters = filters
        self._also = also
        self._p_keys = {parse_p_key(text) for text in filters.p_key}
        self._partitions = {parse_p_key(text).partition for text in filters.partition if is_number(text)}
        self.partition_names = [text for text in filters.partition if not is_number(text)]
        self._nodes: Collection[Node] | None = None
        self._numbers: Collection[int] | None = None
        self._names_each = False
        self._changed: Collection[PortKey] | None = None

    @property
    def is_given(self) -> bool:
        """Return whether any filter is given."""
        return self._also is not None or self._filters.is_given

    @property
    def needs_tables(self) -> bool:
        """Return whether P_Key tables must be read for the filters."""
        return bool(self._p_keys or self._partitions or self.partition_names)

    @property
    def since(self) -> Path | None:
        """Return the snapshot of --changed-since; None without it."""
        return Path(self._filters.changed_since) if self._filters.changed_since is not None else None

    def take_partitions(self, names: Mapping[int, str]) -> None:
        """Look up the partitions that are given by name. *names*: those that are known, by their 15 bits. Raises
        UsageError, EncodeError."""
        self._partitions |= {partition_number(text, names) for text in self.partition_names}
        self.partition_names = []

    def look_up(self, *fabrics: Topology, several: NodeSet | None = None) -> None:
        """Look up the nodes of ``--node``, and the nodes of ADDR if it stands for *several* (else None).

        Each word must match a node in at least one of *fabrics*. Raises AddressError for a word that matches none, and
        for a node that lacks one of the port numbers; Unreachable for a word that may name a node that was not read;
        UsageError for a partition whose name was not looked up.
        """
        from ibkeys.topology.directory import Directory
        from ibkeys.topology.names.patterns import is_wild

        if self.partition_names:
            self.take_partitions({})
        words = [*((several.word,) if several is not None else ()), *self._filters.node]
        if words:
            self._names_each = not any(map(is_wild, words))
            directories = [Directory(fabric) for fabric in fabrics]
            self._nodes = {port.node for word in words for port in _find(directories, word)}
        if several is not None and several.numbers is not None:
            _refuse_absent(
                several.numbers, [port for fabric in fabrics for port in fabric.ports() if self.is_about(port)]
            )
            self._numbers = several.numbers

    def compare(self, before: Snapshot, now: Snapshot) -> None:
        """Find the ports for ``--changed-since``: those that changed from *before* to *now*.

        *now*: a snapshot of the fabric that the command lists.
        """
        from ibkeys.fabric.compare import compare

        comparison = compare(before, now)
        new = {node.guid for node in comparison.nodes_added}
        relinked = {end.id.key for ends in comparison.links_added for end in ends}
        self._changed = (
            {each.port.id.key for each in comparison.changes}
            | relinked
            | {port.id.key for port in now.fabric.ports() if port.node.guid in new}
        )

    def is_about(self, port: Port) -> bool:
        """Return whether the filters by node, port number and kind of node choose *port*, whatever its values are."""
        node = port.node
        if self._nodes is not None and node not in self._nodes:
            return False
        if self._numbers is not None and port.num not in self._numbers:
            return False
        return not ((self._filters.hosts and node.type_name != "ca") or (self._filters.switch and not node.is_switch))

    def concerns(self, trouble: Trouble) -> bool:
        """Return whether *trouble* is at a node that the filters choose, or may be at such a node.

        The node behind a silent port is not known. It can be ruled out only if every ``--node`` is a name without
        wildcards, because then each of these nodes was found elsewhere.
        """
        return self.is_about(trouble.port) or (trouble.is_behind and not self._names_each)

    def keeps(self, port: Port) -> bool:
        """Return whether *port* passes all filters."""
        filters = self._filters
        return (
            self.is_about(port)
            and (not self.needs_tables or self._has_p_key(port))
            and (not filters.level or _level(port) in filters.level)
            and (not filters.nonzero or has_counted(port))
            and (self._changed is None or port.id.key in self._changed)
            and (self._also is None or self._also(port))
        )

    def chosen_ports(self, topology: Topology) -> list[Port]:
        """Return the ports of *topology* that pass the filters; all ports without filters."""
        if not self.is_given and self._nodes is None:
            return list(topology.ports())
        return [port for port in topology.ports() if self.keeps(port)]

    def counts_of(self, topology: Topology) -> LookedAt | None:
        """Return how many ports of *topology* pass the filters, and how many ports it has; None without filters."""
        if not self.is_given:
            return None
        passes = [self.keeps(port) for port in topology.ports()]
        return LookedAt(sum(passes), len(passes))

    def _has_p_key(self, port: Port) -> bool:
        keys = [key for _, key in port.occupied or ()]
        in_partition = not self._partitions or any(key.partition in self._partitions for key in keys)
        return in_partition and (not self._p_keys or any(key in self._p_keys for key in keys))


def _find(directories: Sequence[Directory], word: str) -> list[Port]:
    """Return the ports that *word* names in any of *directories*. Raises AddressError if it is in none; Unreachable if
    it may be at a place that was not read."""
    from ibkeys.topology.directory import NoPortFound

    ports, not_found = [], None
    for directory in directories:
        try:
            ports += directory.find(word)
        except NoPortFound as error:
            not_found = error
    if not_found is not None and not ports:
        if any(trouble.is_behind for directory in directories for trouble in directory.fabric.troubles):
            raise Unreachable(str(not_found)) from not_found
        raise not_found
    return ports


def _refuse_absent(numbers: Collection[int], ports: Iterable[Port]) -> None:
    """Raise AddressError if a node of *ports* lacks one of the port *numbers*."""
    for node, own in grouped(ports, lambda port: port.node).items():
        missing = sorted(set(numbers) - {port.num for port in own})
        if missing:
            name = repr(node.description or hex(node.guid))
            lacking = [num for num in missing if num > node.num_ports or (num == 0 and not node.is_switch)]
            listed = ", ".join(map(str, lacking or missing))
            if lacking:
                raise AddressError(f"{name} has {counted(node.num_ports, 'port')}, and no port {listed}")
            raise AddressError(f"no link reaches port {listed} of {name}")


def _level(port: Port) -> int | None:
    info = port.end_port.port_info
    return info.m_key_protect_bits if info is not None else None


def has_counted(port: Port) -> bool:
    """Return whether a port has counted a violation of a key; False if its PortInfo was not read."""
    from ibkeys.mad.attributes import counted_violations

    info = port.port_info
    return info is not None and bool(counted_violations(info))

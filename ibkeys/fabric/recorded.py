"""A snapshot used instead of an open fabric, for code that only reads. Nothing is sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ibkeys.arguments import number, refuse_wrong
from ibkeys.classkeys.asking import PortQuestion
from ibkeys.classkeys.reading import ClassKeyReading, NotAsked
from ibkeys.client.address import AddressLike, as_address
from ibkeys.closing import Closing
from ibkeys.discovery.port_counters import ConstraintErrors, CountersOrError
from ibkeys.discovery.tables import unread_aliases
from ibkeys.discovery.wanted import OnFound, Wanted, wanted_of
from ibkeys.errors import NotRecorded
from ibkeys.fabric.readable_port import ReadablePort
from ibkeys.fabric.snapshot import Snapshot
from ibkeys.keys.pkey import PKey
from ibkeys.mad.attributes import GUIDInfo, PortInfo, SwitchInfo
from ibkeys.mad.classes.gmp import KeyClass
from ibkeys.topology.find import find_port
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port

_IF_WANTED: Final = {
    "P_KeyTable": "p_keys",
    "VirtualizationInfo": "p_keys",
    "GUIDInfo": "guid_info",
    "SMInfo": "sm_info",
}


class RecordedFabric(Closing):
    """A `Source` made of *snapshot*: it answers as an open fabric does, from the recorded values. Nothing is sent.

    *node_names*: names by node GUID that replace the recorded names. ``warnings``: those about the file.
    """

    def __init__(self, snapshot: Snapshot, node_names: Mapping[int, str] | None = None) -> None:
        self.snapshot = snapshot
        self.warnings: list[str] = []
        for node in snapshot.fabric.nodes:
            node.description = (node_names or {}).get(node.guid, node.description)

    @property
    def holds_m_keys(self) -> bool:
        """Whether the M_Keys that are read here are keys, and not their fingerprints."""
        return self.snapshot.about.has_keys

    def sweep(self, p_keys: bool = False, progress: OnFound | None = None, wanted: Wanted | None = None) -> Topology:
        """Return the recorded fabric, with only those troubles whose attribute such a sweep reads."""
        fabric = self.snapshot.fabric
        wanted = wanted_of(p_keys, progress, wanted)
        not_asked = {attribute for attribute, name in _IF_WANTED.items() if not getattr(wanted, name)}
        troubles = [each for each in fabric.troubles if each.attribute not in not_asked]
        return Topology(fabric.nodes, troubles, list(fabric.notes))

    def read_alias_guids(self, found: Topology, named: Iterable[int]) -> None:
        """Add a trouble to *found* for each port whose alias GUIDs could not be read, if one of the GUIDs *named* is
        not a port GUID.

        All other alias GUIDs are in the snapshot already.
        """
        known, ports = set(map(id, found.troubles)), unread_aliases(found, named)
        unread = (each for each in self.snapshot.fabric.troubles if each.attribute == GUIDInfo.name)
        found.troubles += [each for each in unread if each.port in ports and id(each) not in known]

    def read_routes(self, found: Topology, pairs: Iterable[tuple[Port, Port]]) -> None:
        """Do nothing: a snapshot has all blocks of forwarding tables, or none."""

    def find_port(self, address: AddressLike = None, portnum: int | None = None) -> RecordedPort:
        """Return one recorded port. Raises AddressError, UsageError, Unreachable, ImpossibleValue."""
        refuse_wrong({"portnum": portnum}, {"portnum": number(0, 254)})
        return self.handle(find_port(self.snapshot.fabric, as_address(address), portnum))

    def handle(self, port: Port) -> RecordedPort:
        """Return one recorded port that `sweep` gave."""
        return RecordedPort(self.snapshot, port)

    def read_port_counters(
        self, ports: Iterable[Port], pkey_index: int | None = None
    ) -> list[tuple[Port, CountersOrError]]:
        """Return NotRecorded for each port: a snapshot holds of PortCounters only ``Snapshot.constraint_errors``."""
        taken = self.snapshot.about.started
        return [(port, NotRecorded(f"{port}: PortCounters are not in a snapshot (taken {taken})")) for port in ports]

    def read_constraint_errors(
        self, ports: Iterable[Port], pkey_index: int | None = None
    ) -> dict[Port, ConstraintErrors]:
        """Return the recorded constraint errors of each port. A port that did not enforce partitions has none, and gets
        the reason. *pkey_index* is not used: nothing is sent."""
        known, taken = self.snapshot.constraint_errors, self.snapshot.about.started
        why = f"a snapshot has them only for ports that enforced partitions (taken {taken})"
        return {port: known.get(port) or ConstraintErrors(None, None, why) for port in ports}

    def class_key_questions(
        self, ports: Iterable[Port], classes: Iterable[KeyClass], *, ask_unkeyed: bool = False
    ) -> list[PortQuestion]:
        """Return one query for each end port and class, none of which is to be sent."""
        taken = self.snapshot.about.started
        why_not = NotAsked("other", f"a snapshot has no more than was read when it was taken ({taken})")
        wanted = list(classes)
        return [PortQuestion(port, of, why_not=why_not) for port in ports if port.is_end_port for of in wanted]

    def ask_class_keys(self, questions: Sequence[PortQuestion], pkey_index: int | None = None) -> list[ClassKeyReading]:
        """Return the recorded readings; those that were not recorded are ``not-asked``."""
        known = {(each.port, each.of): each for each in self.snapshot.class_keys or ()}
        return [
            known.get((each.port, each.of.name))
            or ClassKeyReading(each.port, each.of.name, "not-asked", each.why_not.why if each.why_not else "")
            for each in questions
        ]

    def take_snapshot(self, progress: OnFound | None = None) -> Snapshot:
        """Return the snapshot itself."""
        return self.snapshot

    def close(self) -> None:
        """Do nothing: the file was read as a whole, so nothing is open."""


@dataclass(frozen=True, slots=True)
class RecordedPort(ReadablePort):
    """The recorded values of one port, with the reads of `ibkeys.fabric.handle.PortHandle`.

    Each read raises NotRecorded for a value that could not be read when the snapshot was taken.
    """

    snapshot: Snapshot
    port: Port

    def read_port_info(self) -> PortInfo:
        """Return PortInfo; for an external port of a switch that of port 0 must be recorded too."""
        for each in (self.port.end_port, self.port):
            if each.info is None:
                raise self._missing("PortInfo", each)
        assert self.port.info is not None
        return PortInfo(self.port.info)

    def read_switch_info(self) -> SwitchInfo | None:
        """Return SwitchInfo; None when the node is not a switch."""
        if self.port.node.is_switch and self.port.node.switch_info is None:
            raise self._missing("SwitchInfo", self.port.end_port)
        return self.port.node.switch_info

    def read_capacity(self) -> int:
        """Return how many entries the P_Key table has; 0 when a switch has no tables for its external ports."""
        capacity = self.port.capacity
        if capacity is None and self.port.is_end_port:
            raise NotRecorded(f"{self.port}: PartitionCap of NodeInfo is in none of the imported files")
        if capacity is None:
            raise self._missing("SwitchInfo", self.port.end_port)
        return capacity

    def read_p_keys(self) -> tuple[PKey, ...]:
        """Return the whole P_Key table."""
        keys = self.port.p_keys
        if keys is None:
            raise self._missing("P_KeyTable", self.port)
        return keys

    def read_virtualization(self) -> None:
        """Do nothing: the snapshot has all that can be known of virtual ports."""

    def _missing(self, attribute: str, port: Port) -> NotRecorded:
        why = next(
            (each.error for each in self.snapshot.fabric.troubles if (each.port, each.attribute) == (port, attribute)),
            "it was not queried",
        )
        taken = self.snapshot.about.started
        return NotRecorded(f"{port}: {attribute} was not read when the snapshot was taken ({taken}): {why}")

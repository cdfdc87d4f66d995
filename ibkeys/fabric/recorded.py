"""A snapshot in the place of an open fabric, for whoever only reads. Nothing is sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ibkeys.client.address import Address
from ibkeys.discovery.sweep import Progress, Wanted
from ibkeys.errors import NotRecorded
from ibkeys.fabric.live import as_address
from ibkeys.fabric.snapshot import Snapshot
from ibkeys.keys.pkey import PKey
from ibkeys.mad.attributes import PortInfo, SwitchInfo
from ibkeys.topology.find import find_port
from ibkeys.topology.model import Port, Topology

_IF_WANTED: Final = {"P_KeyTable": "p_keys", "GUIDInfo": "guid_info", "SMInfo": "sm_info"}


class RecordedFabric:
    """Answers `sweep` and `find_port` as `ibkeys.fabric.live.Fabric` does, from what *snapshot* holds.

    *node_names*: names by node GUID that take the place of the recorded ones.
    """

    def __init__(self, snapshot: Snapshot, node_names: dict[int, str] | None = None) -> None:
        self.snapshot = snapshot
        for node in snapshot.fabric.nodes:
            node.description = (node_names or {}).get(node.guid, node.description)

    @property
    def holds_m_keys(self) -> bool:
        """Whether an M_Key that is read here is one, and not its fingerprint."""
        return self.snapshot.about.has_keys

    def sweep(self, p_keys: bool = False, progress: Progress | None = None, wanted: Wanted | None = None) -> Topology:
        """Return the recorded fabric; of what could not be read only that which such a sweep asks for."""
        fabric = self.snapshot.fabric
        wanted = wanted or Wanted(p_keys=p_keys)
        not_asked = {attribute for attribute, name in _IF_WANTED.items() if not getattr(wanted, name)}
        troubles = [each for each in fabric.troubles if each.attribute not in not_asked]
        return Topology(fabric.nodes, troubles, list(fabric.notes))

    def find_port(self, where: Address | str | int | None = None, portnum: int | None = None) -> RecordedPort:
        """Return one recorded port. Raises AddressError, UsageError, Unreachable."""
        return RecordedPort(self.snapshot, find_port(self.snapshot.fabric, as_address(where), portnum))


@dataclass(frozen=True, slots=True)
class RecordedPort:
    """What was recorded of one port, with the reads of `ibkeys.fabric.live.PortHandle`.

    Each read raises NotRecorded for what could not be read when the snapshot was taken.
    """

    snapshot: Snapshot
    port: Port

    def read_port_info(self) -> PortInfo:
        """Return PortInfo; of an external port of a switch that of port 0 must be there too."""
        for each in (self.port.end_port, self.port):
            if each.info is None:
                raise self._missing("PortInfo", each)
        assert self.port.info is not None
        return PortInfo(self.port.info)

    def read_switch_info(self) -> SwitchInfo | None:
        """Return SwitchInfo; None when the node is no switch."""
        if self.port.node.is_switch and self.port.node.switch_info is None:
            raise self._missing("SwitchInfo", self.port.end_port)
        return self.port.node.switch_info

    def read_p_keys(self) -> tuple[PKey, ...]:
        """Return the whole P_Key table."""
        keys = self.port.p_keys
        if keys is None:
            raise self._missing("P_KeyTable", self.port)
        return keys

    def _missing(self, attribute: str, port: Port) -> NotRecorded:
        why = next(
            (each.error for each in self.snapshot.fabric.troubles if (each.port, each.attribute) == (port, attribute)),
            "it was not asked",
        )
        taken = self.snapshot.about.started
        return NotRecorded(f"{port}: {attribute} was not read when the snapshot was taken ({taken}): {why}")

"""A snapshot: all values that one sweep read of a fabric's keys. `ibkeys.fabric.snapshot_file` writes and reads files
of it.

The fabric in it is the model that every sweep makes, so whatever works on the result of a sweep works on a snapshot. In
a snapshot from a file without keys, the M_Key field of PortInfo holds the key's fingerprint: 0 is 0, equal keys are
equal, and nothing else can be learned from it.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass, field

from ibkeys.classkeys.reading import ClassKeyReading
from ibkeys.discovery.port_counters import ConstraintErrors
from ibkeys.discovery.wanted import EVERYTHING, OnFound
from ibkeys.fabric.live import LiveFabric
from ibkeys.fabric.probes import SaProbe, read_constraint_errors
from ibkeys.fabric.sa_view import SaView
from ibkeys.keys.fingerprint import Fingerprints
from ibkeys.keys.guessable import Trait, guessable_traits
from ibkeys.keys.mkey import MKey
from ibkeys.mad.attributes import PortInfo, SMInfo
from ibkeys.store.sqlite import UtcClock, timestamp, utc_now
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port
from ibkeys.version import __version__


@dataclass(frozen=True, slots=True)
class SnapshotOrigin:
    """The time, place and tool of a snapshot.

    ``started`` and ``finished`` are UTC, ISO 8601. ``host``: the name of the computer. ``ca_name``, ``port``,
    ``port_guid``, ``lid`` and ``sm_lid`` (MasterSMLID): of the local port of the tool. ``simulated``: no real fabric.
    ``has_keys``: whether the snapshot has the M_Keys themselves; if not, it has their fingerprints. ``fingerprints``:
    the ID of the secret of the fingerprints.
    """

    tool_version: str
    started: str
    finished: str
    host: str
    ca_name: str
    port: int
    port_guid: int
    lid: int
    sm_lid: int
    simulated: bool
    has_keys: bool
    fingerprints: str


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """A file of another tool from which a snapshot was made.

    ``kind``: its format. ``written``: when it was written (UTC, ISO 8601). ``is_sm``: whether its data is the subnet
    manager's, not the answers of ports. ``m_keys``: the number of ports whose M_Key is in it.
    """

    name: str
    kind: str
    written: str
    is_sm: bool
    m_keys: int


@dataclass(slots=True)
class Snapshot:
    """One fabric at one time.

    ``m_key_traits``: the traits that make a port's M_Key guessable, for end ports whose key was read.
    ``constraint_errors``: of switch ports that enforce. ``sa_probes``: the answers, by question. ``sa_view``: the SA's
    records about every port; None if it was not queried. ``class_keys``: the ports' answers about keys of other
    classes; None if none was queried. ``fingerprints``: those of M_Keys, made with the secret of this snapshot; None if
    that secret is not available. ``files``: the files that it was imported from, none for a sweep; ``origins``: which
    of these files an attribute of a port is from.
    """

    fabric: Topology
    about: SnapshotOrigin
    m_key_traits: dict[Port, tuple[Trait, ...]] = field(default_factory=dict)
    constraint_errors: dict[Port, ConstraintErrors] = field(default_factory=dict)
    sa_probes: dict[str, SaProbe] = field(default_factory=dict)
    sa_view: SaView | None = None
    class_keys: list[ClassKeyReading] | None = None
    fingerprints: Fingerprints | None = None
    files: Sequence[ImportedFile] = ()
    origins: dict[tuple[Port, str], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for (port, attribute), file in self.origins.items():
            if self.files[file].is_sm:
                port.attributes_from_sm |= {attribute}

    def number_of(self, key: MKey) -> int | None:
        """Return the number that represents *key* in this snapshot's M_Key fields; None when it cannot be
        determined."""
        if self.about.has_keys:
            return key.reveal()
        return self.fingerprints.of(key) if self.fingerprints is not None else None

    def fingerprint_of(self, port: Port) -> str | None:
        """Return the fingerprint of the M_Key in a port's PortInfo, for people; None if no M_Key was read, if it is 0,
        or if the snapshot has the key but not its ``fingerprints``."""
        info = port.end_port.info
        if info is None or not PortInfo(info).m_key or (self.about.has_keys and self.fingerprints is None):
            return None
        return fingerprint_text(self.fingerprint_number(info))

    def fingerprint_number(self, port_info: bytes) -> int:
        """Return the fingerprint of the M_Key in *port_info*, as a number; 0 for the key 0.

        A snapshot that holds keys needs its ``fingerprints``.
        """
        shown = int.from_bytes(port_info[:8])
        if not self.about.has_keys:
            return shown
        assert self.fingerprints is not None, "fingerprints made with a secret that is not available"
        return self.fingerprints.of(MKey(shown))


def take_snapshot(
    fabric: LiveFabric, fingerprints: Fingerprints, progress: OnFound | None = None, clock: UtcClock = utc_now
) -> Snapshot:
    """Sweep the fabric for everything a snapshot holds, and return it with the keys as they were read.

    SMPs: those of `discover` with P_Key tables, and apart from them GUIDInfo of every end port and SMInfo of every port
    whose IsSM bit is set; then PortCounters of every switch port that enforces. Raises the errors of
    `LiveFabric.sweep`.
    """
    started = timestamp(clock)
    found = fabric.sweep(progress=progress, wanted=EVERYTHING)
    constraint_errors = read_constraint_errors(fabric, found)
    local = fabric.local()
    about = SnapshotOrigin(
        __version__,
        started,
        timestamp(clock),
        socket.gethostname(),
        local.ca_name,
        local.port,
        local.port_guid,
        local.base_lid,
        local.sm_lid,
        fabric.is_simulated,
        True,
        fingerprints.id,
    )
    return Snapshot(found, about, traits_of(found), constraint_errors, fingerprints=fingerprints)


def traits_of(fabric: Topology) -> dict[Port, tuple[Trait, ...]]:
    """Return the traits that make the M_Keys of end ports guessable, for each end port whose M_Key was read and is
    not 0."""
    guids = {node.guid for node in fabric.nodes} | {port.guid for port in fabric.end_ports()}
    sm_keys = {SMInfo(port.sm_info).sm_key for port in fabric.end_ports() if port.sm_info is not None}
    sm_key = next((key for key in sm_keys if key), 0)
    seen: dict[int, tuple[Trait, ...]] = {}
    found = {}
    for port in fabric.end_ports():
        key = PortInfo(port.info).m_key if port.info is not None else 0
        if key:
            if key not in seen:
                seen[key] = guessable_traits(MKey(key), guids, sm_key)
            found[port] = seen[key]
    return found


def fingerprint_text(value: int) -> str:
    """Return a fingerprint as people see it: 16 hex digits, without the 0x of a key."""
    return f"{value:016x}"

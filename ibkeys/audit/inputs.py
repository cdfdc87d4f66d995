"""The input of an audit: a snapshot, and the files to compare it with. An input that was not given is None."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

from ibkeys import arguments
from ibkeys.arguments import ArgumentRule, refuse_wrong
from ibkeys.fabric.snapshot import Snapshot
from ibkeys.grouping import grouped
from ibkeys.keys.mkey import MKey
from ibkeys.keys.pkey import DEFAULT_INBOUND_CHECK, FULL_BIT, PARTITION_MASK, InboundCheck
from ibkeys.mad.attributes import PortInfo
from ibkeys.mad.fields import NumberRow
from ibkeys.managers.host_facts import HostFacts
from ibkeys.managers.opensm.process import OpensmConfig
from ibkeys.managers.ufm.sm_settings import UfmSmSettings
from ibkeys.partitions.membership import EndPort, PortKind, Resolution, resolve, uncertain_partitions
from ibkeys.partitions.model import Policy
from ibkeys.reach.forms import by_partition
from ibkeys.reach.reach import Reach
from ibkeys.store.keystore.key_table import KeyState
from ibkeys.topology.enforcement import leaf_of
from ibkeys.topology.matching import MatchKey, match_key, ports_of
from ibkeys.topology.model import Topology, Trouble
from ibkeys.topology.moves import Moves
from ibkeys.topology.nodes import Port
from ibkeys.topology.recabling import what_moved

BETWEEN_SWITCHES: Final = "between_switches"
"""The key, in evidence, of the ports on links between switches that leave a result open."""
_KINDS: Final[dict[str, PortKind]] = {"switch": "switch", "router": "router"}


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The limits that rules compare with.

    ``max_share``: how many nodes may have the same M_Key. ``lease_limit``: the longest lease in seconds.
    ``sweep_interval``: seconds between the SM's sweeps; None: those of an OpenSM that runs on this host, if any.
    ``fill``: the used share of a P_Key table, 0 to 1, at which the table counts as nearly full.
    """

    max_share: int = 1
    lease_limit: int = 3600
    sweep_interval: int | None = None
    fill: float = 0.9

    def __post_init__(self) -> None:
        """Check the values. Raises UsageError if one has a wrong type or is out of bounds."""
        refuse_wrong({name: getattr(self, name) for name in _THRESHOLD_RULES}, _THRESHOLD_RULES)


_THRESHOLD_RULES: Final = {
    **dict.fromkeys(
        ("max_share", "lease_limit"), ArgumentRule(lambda value: type(value) is int and value >= 0, "a number from 0")
    ),
    "sweep_interval": arguments.number(0, 0xFFFF),
    "fill": ArgumentRule(lambda value: type(value) in (int, float) and 0 <= value <= 1, "a share, 0 to 1"),
}
"""The rules for the values of `Thresholds`."""


@dataclass(frozen=True, slots=True)
class StoredPort:
    """One port in the key store.

    ``keys``: the port's keys with their states, in the order in which they are tried. ``protect_bits``: the ProtectBits
    of the first of these keys that has some recorded.
    """

    protect_bits: int | None
    keys: Sequence[tuple[KeyState, MKey]]


@dataclass(frozen=True, slots=True)
class StoreView:
    """The contents of the key store.

    ``ports``: by port GUID. ``changing``: GUIDs of the ports of an unfinished mkey-deploy, mkey-rotate or mkey-remove.
    """

    ports: Mapping[int, StoredPort]
    changing: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class AuditedHost:
    """The host that the audit runs on. ``guid2mkey``: the GUIDs in each such file, None if it cannot be read."""

    facts: HostFacts
    guid2mkey: Mapping[Path, frozenset[int] | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PKeyTableFacts:
    """One P_Key table, taken apart once for all ports with an equal table.

    ``entries``: index → P_Key, the empty ones left out. ``bases``: partition → the P_Keys of it. ``odd``: indexes of
    0x8000, which is neither a valid key nor an empty entry. ``twice``: P_Keys at several indexes.
    """

    entries: Mapping[int, int]
    bases: Mapping[int, frozenset[int]]
    odd: tuple[int, ...]
    twice: tuple[int, ...]

    @classmethod
    def of(cls, raw: bytes) -> PKeyTableFacts:
        """Take a table apart."""
        values = struct.unpack(f">{len(raw) // 2}H", raw)
        entries = {index: value for index, value in enumerate(values) if value & PARTITION_MASK}
        return cls(
            entries,
            by_partition(entries.values()),
            tuple(index for index, value in enumerate(values) if value == FULL_BIT),
            tuple(value for value, count in Counter(entries.values()).items() if count > 1),
        )

    @property
    def packed(self) -> frozenset[int]:
        """The P_Keys that OpenSM packs into a leaf port's table: a limited P_Key is left out if its full form is in the
        table.
        """
        return frozenset(max(keys) for keys in self.bases.values())

    def index_of(self, key: int) -> int:
        """Return the first index of a P_Key."""
        return next(index for index, value in self.entries.items() if value == key)


@dataclass(frozen=True)
class AuditInput:
    """All data that a rule may use.

    ``policy``: a policy that OpenSM accepts; ``allow_both``: whether OpenSM applies it with allow_both_pkeys.
    ``registry``: partition → its owner. ``inventory``: the GUIDs that belong here. ``sm_guids``: the port GUIDs that
    may run a subnet manager. ``inbound_check``: which incoming packets switches are assumed to check. ``host``: None if
    this host was not examined. ``ufm``: UFM's keys for its SM; None: UFM was not queried.
    """

    snapshot: Snapshot
    policy: Policy | None = None
    allow_both: bool = False
    baseline: Snapshot | None = None
    store: StoreView | None = None
    host: AuditedHost | None = None
    registry: Mapping[int, str] | None = None
    inventory: frozenset[int] | None = None
    sm_guids: frozenset[int] | None = None
    inbound_check: InboundCheck = DEFAULT_INBOUND_CHECK
    thresholds: Thresholds = field(default_factory=Thresholds)
    ufm: UfmSmSettings | None = None

    # --- the fabric --------------------------------------------------------------------------------------------------

    @property
    def fabric(self) -> Topology:
        """The nodes, ports and links that were read."""
        return self.snapshot.fabric

    @cached_property
    def end_ports(self) -> list[Port]:
        """The end ports: those that have a LID and an M_Key of their own."""
        return list(self.fabric.end_ports())

    @cached_property
    def external_ports(self) -> list[Port]:
        """The external ports of switches."""
        return [port for port in self.fabric.ports() if port.is_external]

    @cached_property
    def leaf_links(self) -> list[tuple[Port, Port]]:
        """(switch port, end port) for each CA or router port that hangs on a switch."""
        pairs = ((leaf_of(port), port) for port in self.end_ports)
        return [(leaf, port) for leaf, port in pairs if leaf is not None]

    @cached_property
    def hidden(self) -> list[Trouble]:
        """The troubles at links whose far end did not answer. Each trouble names the near port of its link."""
        return [trouble for trouble in self.fabric.troubles if trouble.is_behind]

    @cached_property
    def _troubles(self) -> dict[tuple[Port, str], Trouble]:
        return {(trouble.port, trouble.attribute): trouble for trouble in self.fabric.troubles}

    def trouble(self, port: Port, attribute: str) -> Trouble | None:
        """Return why an attribute of a port was not read; None when that is not recorded."""
        return self._troubles.get((port, attribute))

    @cached_property
    def _table_of(self) -> Callable[[bytes], PKeyTableFacts]:
        return cache(PKeyTableFacts.of)

    def table(self, port: Port) -> PKeyTableFacts | None:
        """Return a port's P_Key table; None when it was not read."""
        return self._table_of(port.p_key_raw) if port.p_key_raw is not None else None

    @cached_property
    def identity(self) -> Callable[[Port], Mapping[str, Any]]:
        """A function that returns the JSON fields that identify a port in every document. It makes them once for each
        port.
        """
        return cache(Port.identity)

    @cached_property
    def planes(self) -> list[list[Port]]:
        """The planes of each XDR port: the ports of one CA or router that share a port GUID, by number."""
        ports = (port for port in self.end_ports if port.guid and not port.node.is_switch)
        found = grouped(ports, lambda port: (id(port.node), port.guid))
        return [ports for ports in found.values() if len(ports) > 1]

    @cached_property
    def reach(self) -> Reach:
        """The reach of the end ports: which of them can talk to each other."""
        return Reach(self.fabric, inbound_check=self.inbound_check)

    @property
    def running_configs(self) -> Sequence[OpensmConfig] | None:
        """The options files of the OpenSMs that run on this host. None if no OpenSM runs, or if that is not known: a
        file that no OpenSM uses proves nothing.
        """
        facts = self.host.facts if self.host is not None else None
        return facts.opensm_configs if facts is not None and facts.opensm_processes else None

    # --- subnet managers ---------------------------------------------------------------------------------------------

    @cached_property
    def sm_ports(self) -> frozenset[Port]:
        """Ports that run a subnet manager: their IsSM bit is set, or they have a LID that ports name as MasterSMLID."""
        lids = {PortInfo(port.info).master_sm_lid for port in self.end_ports if port.info is not None}
        masters = (self.fabric.find_lid(lid) for lid in lids if lid)
        return frozenset(port for port in self.end_ports if port.is_sm) | {port for port in masters if port is not None}

    @cached_property
    def master(self) -> Port | None:
        """The port of the master SM: the port that has the MasterSMLID of the local port as its LID. None when it was
        not found.
        """
        lid = self.snapshot.about.sm_lid
        return self.fabric.find_lid(lid) if lid else None

    # --- policy and baseline -----------------------------------------------------------------------------------------

    @cached_property
    def resolution(self) -> Resolution | None:
        """The members that the policy gives each partition; None without a policy."""
        if self.policy is None:
            return None
        ports = [EndPort(port.guid, _KINDS.get(port.node.type_name, "ca")) for port in self.end_ports if port.guid]
        return resolve(self.policy, ports, self.master.guid if self.master else None, self.allow_both)

    @cached_property
    def wanted(self) -> dict[int, frozenset[int]]:
        """Port GUID → the P_Keys that the policy gives it. There must be a policy."""
        assert self.resolution is not None
        shared: dict[frozenset[int], frozenset[int]] = {}
        found = {}
        for guid, keys in self.resolution.by_port.items():
            each = frozenset(int(key) for key in keys)
            found[guid] = shared.setdefault(each, each)
        return found

    @cached_property
    def uncertain_bases(self) -> frozenset[int]:
        """Partitions whose members are not known: the policy does not state them, or they depend on the SM's port, and
        no master SM was found. There must be a policy."""
        assert self.policy is not None
        return uncertain_partitions(self.policy, knows_sm=self.master is not None)

    @cached_property
    def _baseline(self) -> dict[MatchKey, Port]:
        return ports_of(self.baseline.fabric) if self.baseline is not None else {}

    def before(self, port: Port) -> Port | None:
        """Return the same port in the baseline; None when it is not there, or there is no baseline."""
        return self._baseline.get(match_key(port))

    @cached_property
    def moves(self) -> Moves:
        """The cables, hosts, HCAs and names that changed since the baseline; empty without one."""
        return what_moved(self.baseline.fabric, self.fabric) if self.baseline is not None else Moves()


def number(port: Port, row: NumberRow) -> int:
    """Return one field of the PortInfo of *port*. The PortInfo must have been read."""
    assert port.info is not None
    return row.decode(port.info)


def protect_bits(port: Port) -> int:
    """Return M_KeyProtectBits of an end port whose PortInfo was read."""
    return number(port, PortInfo.m_key_protect_bits)


def key_number(port: Port) -> int:
    """Return the M_Key of *port*, whose PortInfo was read, as the snapshot has it: the key, or a number from its
    fingerprint; 0 for none and for a hidden one.
    """
    assert port.info is not None
    return PortInfo(port.info).m_key

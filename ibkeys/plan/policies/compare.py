"""Comparing two policies on one fabric: the ports whose memberships differ, and the pairs that gain and lose
connectivity.

The present tables of the ports do not count. The functions are pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ibkeys.keys.pkey import PKey
from ibkeys.partitions.describe import groups_json
from ibkeys.partitions.membership import Resolution, end_ports_of, resolve
from ibkeys.partitions.model import DEFAULT_NAME, DEFAULT_PARTITION, MemberWord, Policy
from ibkeys.plan.planner import require_sm_port
from ibkeys.reach.count import ReachCounts, count_reach
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port
from ibkeys.topology.shared_guids import shared_port_guids

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ChangedValue(Generic[T]):
    """A value of a port that differs between two policies: ``before`` by the first, ``after`` by the second; None if a
    policy gives the port no such value.
    """

    port: Port
    before: T | None
    after: T | None


MembershipChange = ChangedValue[MemberWord]
"""The membership of a port in one partition."""
PinnedDifference = ChangedValue[PKey]
"""The P_Key that a policy pins at index 0 of a port by indx0; None if it pins none there."""


@dataclass(frozen=True, slots=True)
class PartitionDifference:
    """The differences of one partition between two policies.

    ``names``: its name by each policy, None if the partition has no member by that policy. ``standings``: the ports
    whose membership differs. ``groups``: its multicast groups by each policy, as in the document of ``policy-check``.
    """

    base: int
    names: tuple[str | None, str | None]
    standings: tuple[MembershipChange, ...]
    groups: tuple[tuple[dict[str, Any], ...], tuple[dict[str, Any], ...]]

    @property
    def name(self) -> str:
        """The name by the second policy, else by the first, else the number in hexadecimal."""
        return self.names[1] or self.names[0] or f"{self.base:04x}"

    @property
    def is_renamed(self) -> bool:
        """Whether both policies have the partition, but under different names."""
        return None not in self.names and self.names[0] != self.names[1]

    @property
    def differs(self) -> bool:
        """Whether the partition differs between the policies. It does not if it has no member by either of them."""
        return bool(self.standings) or self.is_renamed or self.groups[0] != self.groups[1]


@dataclass(frozen=True, slots=True)
class PolicyComparison:
    """All differences of two policies on a fabric.

    ``pinned``: the ports for which indx0 differs. ``reach``: the numbers of pairs that gain and lose connectivity.
    ``unmatched``: for each policy, the GUIDs that it names but that no end port of the fabric has.
    """

    partitions: tuple[PartitionDifference, ...]
    pinned: tuple[PinnedDifference, ...]
    reach: ReachCounts
    unmatched: tuple[tuple[int, ...], tuple[int, ...]]

    @property
    def differs(self) -> bool:
        """Whether the policies give any port of this fabric, or any group, different values."""
        return bool(self.partitions or self.pinned)


def compare_policies(
    before: Policy, after: Policy, fabric: Topology, sm_port_guid: int | None, allow_both: bool = False
) -> PolicyComparison:
    """Return the differences of two policies for the end ports of *fabric*, in the partitions whose members both state.

    *sm_port_guid*: the port GUID of the subnet manager, None if not known. *allow_both*: OpenSM runs with
    allow_both_pkeys. Raises FileFormatError for a policy that OpenSM would refuse; UsageError if the meaning of a
    policy depends on the subnet manager's port, but that is not known or not on the fabric.
    """
    listed = list(fabric.end_ports())
    shared = shared_port_guids(listed)  # it is not known which of their ports a policy means, so none of them counts
    ports = {port.guid: port for port in listed if port.guid and port.guid not in shared}
    for policy in (before, after):
        policy.require_accepted()
        require_sm_port(policy, sm_port_guid, ports, shared)
    ends = end_ports_of(ports.values())
    old_members, new_members = (resolve(policy, ends, sm_port_guid, allow_both) for policy in (before, after))
    old, new = _words(old_members), _words(new_members)
    bases = sorted({DEFAULT_PARTITION, *(each.base for policy in (before, after) for each in policy.partitions)})
    bases = [base for base in bases if not (before.leaves_open(base) or after.leaves_open(base))]
    partitions = (
        PartitionDifference(
            base,
            (_name(before, base, old), _name(after, base, new)),
            _differences(ports, old.get(base, {}), new.get(base, {})),
            (_groups(before, base, old), _groups(after, base, new)),
        )
        for base in bases
    )
    pinned, compared = _differences(ports, old_members.index0, new_members.index0), set(bases)

    def keys(resolution: Resolution, guid: int) -> frozenset[PKey]:
        return frozenset(key for key in resolution.by_port.get(guid, ()) if key.partition in compared)

    reach = count_reach([(keys(old_members, guid), keys(new_members, guid)) for guid in ports])
    unmatched = (tuple(rule.guid for rule in old_members.unmatched), tuple(rule.guid for rule in new_members.unmatched))
    return PolicyComparison(tuple(each for each in partitions if each.differs), pinned, reach, unmatched)


def _words(resolution: Resolution) -> dict[int, dict[int, MemberWord]]:
    """Return the membership of each port, by partition and then port GUID."""
    by_partition: dict[int, dict[int, MemberWord]] = {}
    for each in resolution.memberships:
        words = by_partition[each.base] = dict.fromkeys(each.limited, "limited")
        words.update(dict.fromkeys(each.full, "full"))
        words.update(dict.fromkeys(each.full & each.limited, "both"))
    return by_partition


def _differences(ports: Mapping[int, Port], old: Mapping[int, T], new: Mapping[int, T]) -> tuple[ChangedValue[T], ...]:
    pairs = ((port, old.get(guid), new.get(guid)) for guid, port in ports.items())
    return tuple(ChangedValue(port, before, after) for port, before, after in pairs if before != after)


def _name(policy: Policy, base: int, members: Mapping[int, object]) -> str | None:
    """Return the name of a partition by *policy*; None if it has no member, because OpenSM drops it then."""
    partition = policy.partition(base)
    if base not in members:
        return None
    return partition.name if partition is not None else DEFAULT_NAME


def _groups(policy: Policy, base: int, members: Mapping[int, object]) -> tuple[dict[str, Any], ...]:
    """Return the multicast groups of a partition as OpenSM makes them: of several groups with the same MGID, the
    first."""
    partition = policy.partition(base) if base in members else None
    by_mgid: dict[str, dict[str, Any]] = {}
    for group in groups_json(partition) if partition is not None else ():
        by_mgid.setdefault(group["mgid"], group)
    return tuple(by_mgid[mgid] for mgid in sorted(by_mgid))

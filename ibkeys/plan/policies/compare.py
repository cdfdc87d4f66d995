"""Comparing two policies on one fabric: the ports that join, leave and change, and the pairs that gain and lose
connectivity. The policies are compared, not the present tables. The functions are pure.
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
class Changed(Generic[T]):
    """The value that a port gets by the first and by the second policy; None: no value."""

    port: Port
    before: T | None
    after: T | None


MembershipChange = Changed[MemberWord]
"""The membership of a port in one partition."""
PinnedDifference = Changed[PKey]
"""The P_Key that a policy wants at index 0 of a port by indx0; None for the default one."""


@dataclass(frozen=True, slots=True)
class PartitionDifference:
    """The differences of one partition between two policies. A name is None if the partition has no member by that
    policy; groups are as in ``policy-check``."""

    base: int
    names: tuple[str | None, str | None]
    standings: tuple[MembershipChange, ...]
    groups: tuple[tuple[dict[str, Any], ...], tuple[dict[str, Any], ...]]

    @property
    def name(self) -> str:
        """The name by the second policy, else by the first."""
        return self.names[1] or self.names[0] or f"{self.base:04x}"

    @property
    def is_renamed(self) -> bool:
        """Whether both policies have it, under two names."""
        return None not in self.names and self.names[0] != self.names[1]

    @property
    def differs(self) -> bool:
        """Whether the partition differs. It does not if it has no member by either policy."""
        return bool(self.standings) or self.is_renamed or self.groups[0] != self.groups[1]


@dataclass(frozen=True, slots=True)
class PolicyComparison:
    """All differences of two policies on a fabric. ``unmatched``: for each policy the GUIDs that it names and that are
    no end port of the fabric."""

    partitions: tuple[PartitionDifference, ...]
    pinned: tuple[PinnedDifference, ...]
    reach: ReachCounts
    unmatched: tuple[tuple[int, ...], tuple[int, ...]]

    @property
    def differs(self) -> bool:
        """Whether the policies mean different things for this fabric."""
        return bool(self.partitions or self.pinned)


def compare_policies(
    before: Policy, after: Policy, fabric: Topology, sm_port_guid: int | None, allow_both: bool = False
) -> PolicyComparison:
    """Return the differences of the policies for the end ports of *fabric*, in partitions that both of them describe.

    Raises FileFormatError for a policy that OpenSM would refuse; UsageError if the meaning of a policy depends on the
    subnet manager's port, which is not known or absent.
    """
    listed = list(fabric.end_ports())
    shared = shared_port_guids(listed)  # it is not known which of them a policy means, so none counts
    ports = {port.guid: port for port in listed if port.guid and port.guid not in shared}
    for policy in (before, after):
        policy.require_accepted()
        require_sm_port(policy, sm_port_guid, ports, shared)
    ends = end_ports_of(ports.values())
    was, now = (resolve(policy, ends, sm_port_guid, allow_both) for policy in (before, after))
    old, new = _words(was), _words(now)
    bases = sorted({DEFAULT_PARTITION, *(each.base for policy in (before, after) for each in policy.partitions)})
    bases = [base for base in bases if not (before.leaves_open(base) or after.leaves_open(base))]
    partitions = (
        PartitionDifference(
            base,
            (_name(before, base, old), _name(after, base, new)),
            _changed(ports, old.get(base, {}), new.get(base, {})),
            (_groups(before, base, old), _groups(after, base, new)),
        )
        for base in bases
    )
    pinned, known = _changed(ports, was.index0, now.index0), set(bases)

    def keys(resolution: Resolution, guid: int) -> frozenset[PKey]:
        return frozenset(key for key in resolution.by_port.get(guid, ()) if key.partition in known)

    reach = count_reach([(keys(was, guid), keys(now, guid)) for guid in ports])
    unmatched = (tuple(rule.guid for rule in was.unmatched), tuple(rule.guid for rule in now.unmatched))
    return PolicyComparison(tuple(each for each in partitions if each.differs), pinned, reach, unmatched)


def _words(resolution: Resolution) -> dict[int, dict[int, MemberWord]]:
    """Return partition → port GUID → membership."""
    found: dict[int, dict[int, MemberWord]] = {}
    for each in resolution.memberships:
        words = found[each.base] = dict.fromkeys(each.limited, "limited")
        words.update(dict.fromkeys(each.full, "full"))
        words.update(dict.fromkeys(each.full & each.limited, "both"))
    return found


def _changed(ports: Mapping[int, Port], old: Mapping[int, T], new: Mapping[int, T]) -> tuple[Changed[T], ...]:
    pairs = ((port, old.get(guid), new.get(guid)) for guid, port in ports.items())
    return tuple(Changed(port, before, after) for port, before, after in pairs if before != after)


def _name(policy: Policy, base: int, members: Mapping[int, object]) -> str | None:
    """Return the name of a partition; None if it has no member, because OpenSM drops it then."""
    found = policy.partition(base)
    if base not in members:
        return None
    return found.name if found is not None else DEFAULT_NAME


def _groups(policy: Policy, base: int, members: Mapping[int, object]) -> tuple[dict[str, Any], ...]:
    """Return the multicast groups of a partition as OpenSM makes them: of several with one MGID the first."""
    found = policy.partition(base) if base in members else None
    by_mgid: dict[str, dict[str, Any]] = {}
    for group in groups_json(found) if found is not None else ():
        by_mgid.setdefault(group["mgid"], group)
    return tuple(by_mgid[mgid] for mgid in sorted(by_mgid))

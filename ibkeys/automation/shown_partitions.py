"""The partitions of a policy with their members on a fabric: the ports to which OpenSM gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from ibkeys.partitions.editing.partition_name import PartitionName, find_partition, no_partition
from ibkeys.partitions.membership import Resolution, end_ports_of, resolve
from ibkeys.partitions.model import DEFAULT_NAME, DEFAULT_PARTITION, Partition, Policy
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port
from ibkeys.topology.subnet_manager import shown_subnet_manager

NO_SM_PORT: Final = "the subnet manager's port is not known: it is missing where the policy, or OpenSM, names it"


class ShownMember(NamedTuple):
    """A port that is a member of a partition; ``both`` is possible with OpenSM's allow_both_pkeys."""

    port: Port
    membership: Literal["full", "limited", "both"]


@dataclass(frozen=True, slots=True)
class ShownPartition:
    """A partition with its ``members``, in the order of the ports of the fabric. ``partition``: its name, its P_Key
    (``base``), flags and groups. ``absent``: the port GUIDs that the policy names and no port of the fabric has."""

    partition: Partition
    members: tuple[ShownMember, ...]
    absent: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ShownPolicy:
    """The partitions of ``policy`` that are shown. ``unmatched``: GUIDs anywhere in the policy that no end port has.
    ``notes``: remarks on values that are not certain."""

    policy: Policy
    partitions: tuple[ShownPartition, ...]
    unmatched: tuple[int, ...]
    notes: tuple[str, ...] = ()


def choose_partitions(policy: Policy, wanted: PartitionName | None) -> list[Partition]:
    """Return the partition *wanted*, or all, the default partition also if the policy does not define it. Raises
    UsageError for one that does not exist."""
    default = policy.partition(DEFAULT_PARTITION) or Partition(DEFAULT_PARTITION, DEFAULT_NAME, ())
    if wanted is None:
        return [*policy.partitions, *([] if default.definitions else [default])]
    found = find_partition(policy, wanted)
    if found is None and (wanted.base == DEFAULT_PARTITION or (wanted.name, wanted.base) == (DEFAULT_NAME, None)):
        return [default]
    if found is None:
        raise no_partition(policy, wanted)
    return [found]


def show_partitions(
    policy: Policy, partitions: Sequence[Partition], topology: Topology, allow_both_pkeys: bool
) -> ShownPolicy:
    """Return *partitions* of *policy* with their members. *topology*: a sweep with SMInfo, whose alias GUIDs were read;
    *allow_both_pkeys*: that option of OpenSM."""
    sm_guid = shown_subnet_manager(topology).port_guid
    resolution = resolve(policy, end_ports_of(topology.end_ports()), sm_guid, allow_both_pkeys)
    return ShownPolicy(
        policy,
        tuple(_with_members(each, resolution, topology) for each in partitions),
        tuple(sorted({rule.guid for rule in resolution.unmatched})),
        (NO_SM_PORT,) if sm_guid is None and policy.names_the_sm else (),
    )


def _with_members(partition: Partition, resolution: Resolution, topology: Topology) -> ShownPartition:
    found = next((each for each in resolution.memberships if each.base == partition.base), None)
    full, limited = (found.full, found.limited) if found is not None else (frozenset(), frozenset())
    members = [
        ShownMember(port, "both" if port.guid in full & limited else "full" if port.guid in full else "limited")
        for port in topology.end_ports()
        if port.guid in full | limited
    ]
    absent = {rule.guid for rule in partition.rules if rule.who == "GUID"} - full - limited
    return ShownPartition(partition, tuple(members), tuple(sorted(absent)))

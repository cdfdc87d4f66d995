"""Comparing the multicast groups that a policy makes, above all the broadcast groups of IPoIB, with those of the SA.

A partition has IPoIB if it has its broadcast group. Every IPoIB interface in the partition has the MTU, rate, SL and
Q_Key of that group (RFC 4391, 5). The functions are pure. Source: opensm osm_prtn.c, osm_sa_mcmember_record.c.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, get_args

from ibkeys.keys.pkey import FULL_BIT, PARTITION_MASK
from ibkeys.mad.records import MCMemberRecord
from ibkeys.partitions.membership import end_ports_of, resolve
from ibkeys.partitions.model import (
    DEFAULT_PARTITION,
    IPOIB_Q_KEY,
    GroupFlags,
    Policy,
    broadcast_mgid,
    partition_name,
    scope_of,
    with_scope,
)
from ibkeys.partitions.words import (
    MTU_BYTES,
    RATE_GBPS,
    RATES_OF_NEWER_OPENSM,
    makes_group,
    mtu_in_words,
    rate_in_words,
    scope_in_words,
)
from ibkeys.topology.model import Topology
from ibkeys.topology.subnet_manager import find_sm_port

GroupState = Literal["as-planned", "differs", "missing", "no-member", "unexpected", "unknown"]
PROBLEMS: Final[frozenset[GroupState]] = frozenset({"differs", "missing", "unexpected"})
NOT_ASKED: Final = "the SA gave no answer, so it is not known whether the group exists"
_P_KEY_BITS: Final = 0xFFFF << 80


@dataclass(frozen=True, slots=True)
class GroupValues:
    """The values of a multicast group. ``pkey`` has the full bit; ``mtu`` and ``rate`` are codes without selectors."""

    pkey: int
    mtu: int
    rate: int
    sl: int
    q_key: int
    t_class: int
    flow_label: int

    def to_json(self) -> dict[str, Any]:
        """Return the values as the JSON document has them."""
        return {
            **asdict(self),
            "pkey": f"0x{self.pkey:04x}",
            "q_key": f"0x{self.q_key:08x}",
            "t_class": f"0x{self.t_class:02x}",
            "flow_label": f"0x{self.flow_label:05x}",
        }


_WORDS: Final = {
    "pkey": lambda value: f"P_Key 0x{value:04x}",
    "mtu": lambda value: f"MTU {mtu_in_words(value)}",
    "rate": lambda value: f"rate {rate_in_words(value)}",
    "sl": lambda value: f"SL {value}",
    "q_key": lambda value: f"Q_Key 0x{value:08x}",
    "t_class": lambda value: f"TClass 0x{value:02x}",
    "flow_label": lambda value: f"FlowLabel 0x{value:05x}",
}


@dataclass(frozen=True, slots=True)
class GroupFinding:
    """One multicast group: its values by the policy and in the SA, and the result of comparing them.

    ``base`` and ``name``: the number and name of its partition; ``name`` is None if the policy does not define that.
    ``planned``: the values by the policy, None if it makes no such group. ``found``: the values in the SA, None if the
    SA shows no such group. ``differences``: the names of the values that differ. ``state`` is one of: ``as-planned``;
    ``differs``; ``missing``: the SA lacks the group; ``no-member``: the SA lacks it rightly, because OpenSM drops a
    partition without a member; ``unexpected``: a broadcast group that the policy does not make; ``unknown``: the SA did
    not answer, or does not show the group to this requester.
    """

    mgid: int
    base: int
    name: str | None
    state: GroupState
    planned: GroupValues | None
    found: GroupValues | None
    message: str
    differences: tuple[str, ...] = ()

    @property
    def is_broadcast(self) -> bool:
        """Whether the group is the IPv4 broadcast group of a partition."""
        return _is_broadcast(self.mgid)

    @property
    def mgid_text(self) -> str:
        """The MGID as ``ff12:401b:8001::ffff:ffff``."""
        return str(ipaddress.IPv6Address(self.mgid))

    def to_json(self) -> dict[str, Any]:
        """Return the finding as the JSON document has it."""
        return {
            "mgid": self.mgid_text,
            "partition": f"0x{self.base:04x}",
            "name": self.name,
            "broadcast": self.is_broadcast,
            "state": self.state,
            "planned": self.planned.to_json() if self.planned else None,
            "found": self.found.to_json() if self.found else None,
            "differences": list(self.differences),
            "message": self.message,
        }


def compare_groups(
    policy: Policy,
    groups: Iterable[MCMemberRecord] | None,
    *,
    populated: Collection[int] | None = None,
    own_p_keys: Collection[int] | None = None,
) -> list[GroupFinding]:
    """Return a finding for each group that *policy* makes, in the order of the policy, then for each other broadcast
    group of the SA.

    *groups*: the groups of the SA (`SaClient.groups`), None if it did not answer. *populated*: the partitions with a
    member on the fabric (`populated_partitions`), None if not known. *own_p_keys*: the P_Keys of the port that queried
    the SA, None if not known. OpenSM shows a group only to ports with a P_Key of its partition, full or limited, so a
    group that it does not show to another port may exist.

    Raises FileFormatError for a policy that OpenSM would refuse.
    """
    policy.require_accepted()
    planned = _planned_groups(policy)
    found = {group.mgid: _values(group) for group in groups or ()}
    # OpenSM 3.3.23 ignores scope= for the broadcast group. Another SM may obey it: then its groups count as planned.
    for mgid, (values, scopes) in [*planned.items()]:
        for scope in sorted(scopes) if _is_broadcast(mgid) else ():
            if with_scope(mgid, scope) in found:
                planned.setdefault(with_scope(mgid, scope), (values, scopes))
    own = None if own_p_keys is None else {key & PARTITION_MASK for key in own_p_keys}
    findings = []
    state: GroupState
    for mgid, (values, _) in planned.items():
        actual, base = found.get(mgid), values.pkey & PARTITION_MASK
        differing_values = tuple(name for name in _WORDS if actual and getattr(values, name) != getattr(actual, name))
        state, message = "unknown", NOT_ASKED
        if groups is not None:
            state, message = _judge(mgid, base, values, actual, differing_values, populated, own)
        findings.append(GroupFinding(mgid, base, _name(policy, base), state, values, actual, message, differing_values))
    return findings + [
        _unexpected_finding(policy, mgid, values)
        for mgid, values in sorted(found.items())
        if mgid not in planned and _is_broadcast(mgid)
    ]


def populated_partitions(policy: Policy, fabric: Topology) -> frozenset[int] | None:
    """Return the numbers of the partitions that have a member on *fabric* by *policy*. None if a part of the fabric
    could not be read, or if the policy depends on the subnet manager's port and that is not known. Raises
    FileFormatError for a policy that OpenSM would refuse."""
    manager = find_sm_port(fabric)
    if fabric.troubles or (manager is None and policy.names_the_sm):
        return None
    ports = end_ports_of(fabric.end_ports())
    resolution = resolve(policy, ports, manager.guid if manager is not None else None)
    return frozenset(membership.base for membership in resolution.memberships)


def count_states(findings: Iterable[GroupFinding]) -> dict[str, int]:
    """Return the number of findings for each state, also for states without any."""
    counts = Counter(finding.state for finding in findings)
    return {state: counts[state] for state in get_args(GroupState)}


def _planned_groups(policy: Policy) -> dict[int, tuple[GroupValues, Collection[int]]]:
    """Return (values, scopes in its flags) of each group that a policy asks for, by MGID. Of several groups with the
    same MGID the first that OpenSM makes counts."""
    planned: dict[int, tuple[GroupValues, Collection[int]]] = {}
    for definition in policy.definitions:
        for mgid, flags, q_key in definition.made_groups():
            planned.setdefault(mgid, (_values_of_flags(definition.base, flags, q_key), flags.scopes))
    for each in policy.definitions:
        if each.ipoib:  # one that OpenSM does not make is reported as missing, with the reason
            values = _values_of_flags(each.base, each.flags, each.flags.q_key or IPOIB_Q_KEY)
            planned.setdefault(broadcast_mgid(each.base), (values, each.flags.scopes))
    return planned


def _values_of_flags(base: int, flags: GroupFlags, q_key: int) -> GroupValues:
    return GroupValues(base | FULL_BIT, flags.mtu, flags.rate, flags.sl, q_key, flags.t_class, flags.flow_label)


def _values(group: MCMemberRecord) -> GroupValues:
    return GroupValues(group.p_key, group.mtu, group.rate, group.sl, group.q_key, group.t_class, group.flow_label)


def _name(policy: Policy, base: int) -> str | None:
    partition = policy.partition(base)
    if partition is not None:
        return partition.name
    return partition_name(base, None) if base == DEFAULT_PARTITION else None


def _judge(
    mgid: int,
    base: int,
    planned: GroupValues,
    found: GroupValues | None,
    differing_values: Sequence[str],
    populated: Collection[int] | None,
    own: Collection[int] | None,
) -> tuple[GroupState, str]:
    """Return the state and the message of a finding. *own*: the partitions of the port that queried the SA, None if not
    known; the other arguments as in `compare_groups` and `GroupFinding`.
    """
    if found is not None and differing_values:
        return "differs", "; ".join(_difference(name, planned, found) for name in differing_values)
    if found is not None:
        return "as-planned", "as the policy says"
    if populated is not None and base not in populated:
        return (
            "no-member",
            "missing: no member of the partition is on the fabric, so OpenSM drops the partition with its groups",
        )
    if own is not None and base not in own:
        message = (
            f"not shown to this port, which has no P_Key of partition 0x{base:04x}: OpenSM shows a group only to ports "
            "of its partition; ask from one of them"
        )
        return "unknown", message
    message = "the SA does not know it" + (": the partition has no IPoIB" if _is_broadcast(mgid) else "")
    reasons = list(_obstacles(planned))
    if populated is None and not reasons:
        reasons.append(
            "it is not known whether a member of the partition is on the fabric, without which OpenSM drops it"
        )
    return "missing", "; ".join([message, *reasons])


def _difference(name: str, planned: GroupValues, found: GroupValues) -> str:
    words, wanted = _WORDS[name](getattr(found, name)), _WORDS[name](getattr(planned, name))
    text = f"{words}, the policy says {wanted.split(' ', 1)[1]}"
    if name == "sl" and not found.sl:
        text += " (OpenSM uses sl= only with QoS on)"
    if name == "pkey" and found.pkey == planned.pkey & PARTITION_MASK:
        text += " (a group's P_Key has the full bit)"
    return text


def _obstacles(values: GroupValues) -> Iterator[str]:
    """Yield the reasons for which OpenSM cannot make a group with these values."""
    if not makes_group(values.mtu, MTU_BYTES):
        yield f"mtu={values.mtu} is not an MTU code, and OpenSM does not create such a group"
    if not makes_group(values.rate, RATE_GBPS):
        yield f"rate={values.rate} is not a rate code, and OpenSM does not create such a group"
    elif values.rate in RATES_OF_NEWER_OPENSM:
        yield f"OpenSM 3.3.23 does not know rate={values.rate}, and does not create such a group"


def _unexpected_finding(policy: Policy, mgid: int, found: GroupValues) -> GroupFinding:
    bits = mgid >> 80 & 0xFFFF
    base = bits & PARTITION_MASK
    partition = policy.partition(base)
    if not bits & FULL_BIT:
        message = f"the P_Key bits 0x{bits:04x} of its MGID lack the full bit: no IPoIB interface asks for it"
    elif partition is None or not partition.ipoib:
        defined = partition is not None or base == DEFAULT_PARTITION
        message = "the policy does not mark this partition ipoib" if defined else "the policy has no such partition"
        message += (
            "; OpenSM makes this group by itself when it has no policy file, or refused the one it has"
            if base == DEFAULT_PARTITION
            else "; a host, or an earlier policy, made the group"
        )
    else:
        message = f"a second broadcast group of the partition, {scope_in_words(scope_of(mgid))}: the policy makes none"
    return GroupFinding(mgid, base, _name(policy, base), "unexpected", None, found, message)


def _is_broadcast(mgid: int) -> bool:
    """Return whether *mgid* is that of an IPv4 broadcast group, of any scope, with or without the full bit."""
    return with_scope(mgid, 0) & ~_P_KEY_BITS == with_scope(broadcast_mgid(0), 0) & ~_P_KEY_BITS

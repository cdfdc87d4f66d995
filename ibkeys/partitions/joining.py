"""Finding the members of a partition that can join its IPoIB broadcast group, and whether the partition keeps IPoIB
out.

An IPoIB interface runs only after it has joined the broadcast group of its partition. Without IPoIB in the policy there
is no such group, but any member may have the SA make one. A group that the subnet manager itself makes, with an MTU or
a rate above that of every member's link, exists already and cannot be joined, so it keeps all IPoIB drivers out.

Source: opensm osm_sa_mcmember_record.c (validate_port_caps refuses a join if the rate or MTU of the port is below that
of the group; observed with 3.3.23: status 0x0200). Some versions of OpenSM compare NeighborMTU and others MTUCap, so
the answer for an MTU between the two is not known. The functions are pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ibkeys.keys.pkey import FULL_BIT, PARTITION_MASK
from ibkeys.mad.const import NodeType
from ibkeys.mad.link_rates import link_rate
from ibkeys.partitions.ipoib import GroupFinding
from ibkeys.partitions.membership import end_ports_of, resolve
from ibkeys.partitions.model import GroupFlags, Policy
from ibkeys.partitions.words import MTU_BYTES, code_above, mtu_in_words, rate_in_words, rate_of_code
from ibkeys.printable import counted, named
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port
from ibkeys.topology.port_id import PortKey

_MOST_MTU: Final = max(MTU_BYTES)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A member that cannot join, and why. ``is_certain``: false if versions of OpenSM differ in this case."""

    port: Port
    reason: str
    is_certain: bool


@dataclass(frozen=True, slots=True)
class JoinFinding:
    """The members of one partition that can or cannot join its broadcast group.

    ``base`` and ``name``: the number and name of the partition. ``ipoib``: whether the policy marks it ipoib.
    ``group``: its broadcast group in the SA, None if the SA shows none. ``is_visible``: whether the SA would show the
    group to the port that queried. ``members``: the ports of channel adapters that have a link and a P_Key of the
    partition. ``refused``: the members that cannot join. ``unread``: the number of attributes of the fabric that could
    not be read, so that there may be more members.
    """

    base: int
    name: str | None
    ipoib: bool
    group: GroupFinding | None
    is_visible: bool
    members: tuple[Port, ...]
    refused: tuple[Refusal, ...]
    unread: int

    @property
    def keeps_out(self) -> bool | None:
        """Whether no member can join the group, nor have the SA make it; None if that is not known, or if there is a
        group but no member."""
        if self.group is None:
            return False if self.is_visible else None
        if not self.members and not self.unread:
            return None
        if len(self.refused) < len(self.members):
            return False
        return None if self.unread or not all(each.is_certain for each in self.refused) else True

    @property
    def message(self) -> str:
        """The result in one sentence."""
        if self.group is None:
            if not self.is_visible:
                return (
                    "it is not known whether it has a broadcast group: the SA shows it only to ports of the partition"
                )
            if self.ipoib:
                return "no broadcast group, so no interface runs"
            return f"no broadcast group, so no interface runs; but a member can have the SA make one{self._advice()}"
        if not self.members:
            return "no channel adapter is known to be in it"
        who = f"{len(self.refused)} of {counted(len(self.members), 'member')}"
        reasons = named([f"{each.port}: {each.reason}" for each in self.refused])
        if self.keeps_out:
            return f"drivers cannot join: none of {counted(len(self.members), 'member')} can join its group ({reasons})"
        if not self.refused:
            return f"all of {counted(len(self.members), 'member')} can join its group"
        sure = "cannot join" if all(each.is_certain for each in self.refused) else "cannot, or may not, join"
        return f"{who} {sure} its group ({reasons})"

    def _advice(self) -> str:
        """Return the end of a message: how the policy can keep drivers out. "" if no group can, because the members
        have the highest MTU and rate, or if these are not known."""
        infos = [info for port in self.members if (info := port.port_info) is not None]
        if not infos or self.unread:
            return ""
        if max(info.mtu_cap for info in infos) < _MOST_MTU:
            flag = f"mtu={_MOST_MTU}"
        else:
            rates = [link_rate(info) for info in infos]
            known_rates = [rate for rate in rates if rate is not None]
            code = code_above(max(known_rates)) if len(known_rates) == len(rates) else None
            if code is None:
                return ""
            flag = f"rate={code}"
        return f". A group that none of them can join prevents this: ipoib, {flag} in the policy"

    def to_json(self) -> dict[str, Any]:
        """Return the result as the JSON document has it."""
        return {
            "partition": f"0x{self.base:04x}",
            "name": self.name,
            "ipoib": self.ipoib,
            "mgid": None if self.group is None else self.group.mgid_text,
            "members": len(self.members),
            "unread": self.unread,
            "refused": [
                {**each.port.identity(), "reason": each.reason, "certain": each.is_certain} for each in self.refused
            ],
            "keeps_out": self.keeps_out,
            "message": self.message,
        }


def find_joins(
    policy: Policy, findings: Iterable[GroupFinding], fabric: Topology, own_p_keys: Collection[int]
) -> list[JoinFinding]:
    """Return a `JoinFinding` for each partition of *policy*, in the order of the policy.

    *findings*: the result of `compare_groups` with groups of the SA. *fabric*: swept with its P_Key tables.
    *own_p_keys*: the P_Keys of the port that queried the SA.
    """
    own = {key & PARTITION_MASK for key in own_p_keys}
    joinable = (each for each in findings if each.is_broadcast and each.mgid >> 80 & FULL_BIT)
    groups = {each.base: each for each in joinable if each.found is not None}
    hosts = [port for port in fabric.end_ports() if port.node.type == NodeType.CA and port.is_linked]
    unread = len(fabric.troubles)
    joins = []
    for partition in policy.partitions:
        base, group = partition.base, groups.get(partition.base)
        members = tuple(port for port in hosts if any(key.partition == base for _, key in port.occupied or ()))
        refused = tuple(each for port in members if group is not None and (each := _refusal(port, group)) is not None)
        is_visible = base in own
        joins.append(JoinFinding(base, partition.name, partition.ipoib, group, is_visible, members, refused, unread))
    return joins


def refused_members(
    policy: Policy,
    joining: Mapping[int, Collection[PortKey] | None],
    fabric: Topology,
    allow_both: bool = False,
) -> list[str]:
    """Return, in words, the members that could not join the groups that OpenSM makes of *policy*: one sentence for each
    partition with such members. *joining*: the number of a partition → the ports that are looked at, those that become
    members; None: all members, because its groups change. *fabric*: swept with PortInfo; a port that was not read is
    taken to be able to join. *allow_both*: OpenSM's allow_both_pkeys."""
    resolution = resolve(policy, end_ports_of(fabric.end_ports()), None, allow_both)
    members = {each.base: each for each in resolution.memberships}
    hosts = {port.guid: port for port in fabric.end_ports() if port.guid and port.node.type == NodeType.CA}
    sentences = []
    for partition in policy.partitions:
        flags = [flags for each in partition.definitions for _, flags, _ in each.made_groups()]
        if partition.base not in joining or not flags or partition.base not in members:
            continue
        own, new = members[partition.base], joining[partition.base]
        ports = [hosts[guid] for guid in sorted(own.full | own.limited) if guid in hosts]
        ports = [port for port in ports if new is None or (port.node.guid, port.num) in new]
        wanted = max(each.mtu for each in flags), max(flags, key=_rate).rate
        refused = [each for port in ports if port.is_linked and (each := _refusal_of(port, *wanted)) is not None]
        if refused:
            reasons = named([f"{each.port}: {each.reason}" for each in refused])
            sure = "cannot" if all(each.is_certain for each in refused) else "cannot, or may not,"
            what = "member" if new is None else "new member"
            who = f"{len(refused)} of {counted(len(ports), what)} of {partition.name}"
            sentences.append(f"{who} {sure} join its multicast group ({reasons})")
    return sentences


def _rate(flags: GroupFlags) -> float:
    return rate_of_code(flags.rate) or 0.0


def _refusal(port: Port, group: GroupFinding) -> Refusal | None:
    """Return why *port* cannot join *group*; None if it can, or if that is not known. *group* must be in the SA."""
    assert group.found is not None
    return _refusal_of(port, group.found.mtu, group.found.rate)


def _refusal_of(port: Port, mtu: int, rate: int) -> Refusal | None:
    """Return why *port* cannot join a group with these codes; None if it can, or if that is not known."""
    info = port.port_info
    if info is None:
        return None
    if info.mtu_cap < mtu or info.neighbor_mtu < mtu:
        reason = f"MTU {mtu_in_words(info.neighbor_mtu)}, {mtu_in_words(mtu)} wanted"
        return Refusal(port, reason, info.mtu_cap < mtu)
    own_rate, group_rate = link_rate(info), rate_of_code(rate)
    if group_rate is None:
        return None
    if own_rate is None:
        return Refusal(port, "the rate of its link has no known meaning", False)
    if own_rate < group_rate:
        return Refusal(port, f"rate {own_rate:g} Gb/s, {rate_in_words(rate)} wanted", True)
    return None

"""The members of a partition that can join its IPoIB broadcast group, and so whether the partition keeps drivers out.

An interface of IPoIB runs only where it has joined the broadcast group. So a partition without IPoIB has no such group;
but any member may have one made by the SA. A group that the subnet manager itself makes, with an MTU or a rate that no
member's link has, exists already and cannot be joined.

Source: opensm osm_sa_mcmember_record.c (validate_port_caps: a join is refused where the port's rate or MTU is below the
group's; observed with 3.3.23: status 0x0200). Its versions compare NeighborMTU or MTUCap, so values between the two are
unknown. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final

from ibkeys.keys.pkey import FULL_BIT, PARTITION_MASK
from ibkeys.mad.const import NodeType
from ibkeys.mad.link_rates import link_rate
from ibkeys.partitions.ipoib import GroupFinding
from ibkeys.partitions.model import Policy
from ibkeys.partitions.words import MTU_BYTES, code_above, mtu_in_words, rate_in_words, rate_of_code
from ibkeys.printable import counted, named
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port

_MOST_MTU: Final = max(MTU_BYTES)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A member that cannot join, and why. ``is_certain``: False where versions of OpenSM differ."""

    port: Port
    reason: str
    is_certain: bool


@dataclass(frozen=True, slots=True)
class Joins:
    """The joins of one partition.

    ``group``: its broadcast group in the SA, None if the SA shows none; ``is_visible``: whether the SA would show it to
    the port that queried. ``members``: the channel adapters' ports with its P_Key; ``unread``: how many attributes of
    the fabric could not be read, so that there may be more members.
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
        """Whether no member can join, now or by making the group; None where that is not known."""
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
        """Return how the policy can keep drivers out, "" if no group could, because its members have the highest
        values."""
        infos = [info for port in self.members if (info := port.port_info) is not None]
        if not infos or self.unread:
            return ""
        if max(info.mtu_cap for info in infos) < _MOST_MTU:
            flag = f"mtu={_MOST_MTU}"
        else:
            rates = [link_rate(info) for info in infos]
            known = [rate for rate in rates if rate is not None]
            code = code_above(max(known)) if len(known) == len(rates) else None
            if code is None:
                return ""
            flag = f"rate={code}"
        return f". A group that none of them can join prevents this: ipoib, {flag} in the policy"

    def to_json(self) -> dict[str, Any]:
        """Return it as the JSON document has it."""
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
) -> list[Joins]:
    """Return the joins of each partition of *policy*, in its order.

    *findings*: of `compare_groups`, with the SA's groups. *own_p_keys*: of the port that queried the SA. *fabric*: read
    with P_Key tables.
    """
    own = {key & PARTITION_MASK for key in own_p_keys}
    drivers_ask_for = (each for each in findings if each.is_broadcast and each.mgid >> 80 & FULL_BIT)
    groups = {each.base: each for each in drivers_ask_for if each.found is not None}
    hosts = [port for port in fabric.end_ports() if port.node.type == NodeType.CA and port.is_linked]
    unread = len(fabric.troubles)
    found = []
    for partition in policy.partitions:
        base, group = partition.base, groups.get(partition.base)
        members = tuple(port for port in hosts if any(key.partition == base for _, key in port.occupied or ()))
        refused = tuple(each for port in members if group is not None and (each := _refusal(port, group)) is not None)
        visible = base in own
        found.append(Joins(base, partition.name, partition.ipoib, group, visible, members, refused, unread))
    return found


def _refusal(port: Port, group: GroupFinding) -> Refusal | None:
    info, wanted = port.port_info, group.found
    assert wanted is not None
    if info is None:
        return None
    if info.mtu_cap < wanted.mtu or info.neighbor_mtu < wanted.mtu:
        least = f"MTU {mtu_in_words(info.neighbor_mtu)}, {mtu_in_words(wanted.mtu)} wanted"
        return Refusal(port, least, info.mtu_cap < wanted.mtu)
    have, need = link_rate(info), rate_of_code(wanted.rate)
    if need is None:
        return None
    if have is None:
        return Refusal(port, "the rate of its link has no known meaning", False)
    if have < need:
        return Refusal(port, f"rate {have:g} Gb/s, {rate_in_words(wanted.rate)} wanted", True)
    return None

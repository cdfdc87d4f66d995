"""Finding the flags of a policy that would be lost in UFM, before anything is sent.

The calls of ibkeys carry members, ip_over_ib and index0. mtu, rate and sl of a group are UFM's mtu_limit (2 or 4 KB),
rate_limit (Gb/s) and service_level, which only another call sets, with a restart of UFM. UFM has nothing for a scope, a
Q_Key, a TClass, a FlowLabel or a group of an ``mgid=`` line. ``defmember`` is in the membership of each member already.
Source: NVIDIA UFM REST guide; the units: public clients of UFM.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Final

from ibkeys.errors import UsageError
from ibkeys.managers.ufm.answers import QOS, UfmPartition
from ibkeys.partitions.export import flags_beside
from ibkeys.partitions.model import DEFAULT_SCOPE, IPOIB_Q_KEY, GroupFlags, Partition, Policy
from ibkeys.partitions.words import MTU_BYTES, RATE_GBPS
from ibkeys.printable import clean, named

_QOS_OF: Final = dict(zip(("mtu", "sl", "rate"), QOS, strict=True))
"""Flag of a group → the setting of UFM with the same meaning."""


def refuse_lost_flags(
    policy: Policy, partitions: Mapping[int, UfmPartition], read: Callable[[int], UfmPartition | None]
) -> None:
    """Raise UsageError if *policy* has flags that UFM would not have after the change, with their partitions.

    *partitions*: those of UFM by number, as its list has them, so without QoS. *read*: asks UFM for one partition, with
    QoS. A partition is asked for only if the policy has an mtu, rate or sl for it.
    """
    texts = []
    for partition in policy.partitions:
        entry = partitions.get(partition.base)
        if entry is not None and _has_qos(partition):
            entry = read(partition.base) or entry
        lost = list(dict.fromkeys(lost_flags(partition, entry)))
        if lost:
            texts.append(f"{', '.join(lost)} of {clean(partition.name)} ({partition.base:#x})")
    if texts:
        raise UsageError(
            "the policy has flags that UFM does not have, and a change of members does not set flags in UFM: "
            f"{named(texts)}: remove them from the policy, or set them in UFM first"
        ).explained(
            f"UFM has {', '.join(QOS)} for a partition (PUT /resources/pkeys/qos_conf, then a restart of UFM). If they "
            "equal mtu, sl and rate of the policy, these flags are not refused."
        )


def lost_flags(partition: Partition, entry: UfmPartition | None) -> Iterator[str]:
    """Yield the flags of a *partition*, as in partitions.conf, that neither UFM has nor a call gives it. *entry*: UFM's
    answer for this partition; None if UFM has none, so that the first call creates it. Flags without an effect are left
    out: OpenSM's defaults, and those of a partition without a group."""
    if entry is not None and partition.ipoib and entry.ip_over_ib is False:
        yield "ipoib"
    if not _indx0_holds(partition, entry):
        yield "indx0"
    qos = entry.qos if entry is not None else {}
    for definition in partition.definitions:
        if definition.ipoib:
            for name, text in flags_beside(definition.flags, GroupFlags()):
                if not _makes_no_difference(name, definition.flags, qos):
                    yield text
        for group in definition.groups:
            if group.refused is None:
                yield f"mgid={ipaddress.IPv6Address(group.mgid)}"


def _makes_no_difference(name: str, flags: GroupFlags, qos: Mapping[str, str]) -> bool:
    match name:
        case "scopes":
            return flags.scopes == {DEFAULT_SCOPE}
        case "q_key":
            return flags.q_key == IPOIB_Q_KEY
        case "mtu" | "rate" | "sl":
            return not getattr(flags, name) or _in_units_of_ufm(name, flags) == _number(qos.get(_QOS_OF[name]))
    return False


def _in_units_of_ufm(name: str, flags: GroupFlags) -> float | None:
    """Return the value of a flag in KB, Gb/s, or as an SL; None for a code that means nothing."""
    match name:
        case "mtu":
            return MTU_BYTES[flags.mtu] / 1024 if flags.mtu in MTU_BYTES else None
        case "rate":
            return float(RATE_GBPS[flags.rate]) if flags.rate in RATE_GBPS else None
    return float(flags.sl)


def _number(text: str | None) -> float:
    """Return the number that UFM answered; NaN, which equals nothing, if it is not known."""
    with suppress(ValueError, TypeError):
        return float(text or "nan")
    return float("nan")


def _has_qos(partition: Partition) -> bool:
    return any(
        name in _QOS_OF
        for definition in partition.definitions
        if definition.ipoib
        for name, _ in flags_beside(definition.flags, GroupFlags())
    )


def _indx0_holds(partition: Partition, entry: UfmPartition | None) -> bool:
    """Return whether each port with ``indx0`` has it in UFM after the calls, which give all members that they send the
    index0 of those that UFM has; of the policy, if UFM has no member."""
    pinning = [definition for definition in partition.definitions if definition.indx0 and definition.rules]
    if not pinning:
        return True
    members = (entry.members if entry is not None else None) or {}
    index0 = {bool(member.index0) for member in members.values()}
    if not index0:
        return all(definition.indx0 for definition in partition.definitions if definition.rules)
    return index0 == {True} or all(
        rule.guid in members and members[rule.guid].index0 for definition in pinning for rule in definition.rules
    )

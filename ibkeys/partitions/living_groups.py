"""The changes of multicast groups that OpenSM does not make at once when it reads another policy.

It keeps each group that exists as it is. It keeps a group that the policy no longer makes until its last member has
left. The groups here are those of two policies. `ibkeys compare --ipoib` asks the SM which groups it really has, and
with which values. Source: opensm osm_prtn.c (osm_prtn_add_mcgroup), osm_mcast_mgr.c; a running OpenSM, observed.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from ibkeys.partitions.model import GroupFlags, Policy
from ibkeys.printable import clean, counted, named

_KEPT: Final = "OpenSM keeps a multicast group that exists as it is"
_Values = Mapping[str, int]
"""Flag, as in partitions.conf → its value."""


@dataclass(frozen=True, slots=True)
class LivingGroups:
    """The differences between the multicast groups of two policies. ``flags``: the flags whose values differ for a
    group that both make, by partition, in words; ``gone`` and ``new``: the MGIDs of the groups that only the first one
    makes, and only the second; ``partitions``: the numbers of the partitions of ``flags`` and ``new`` that exist."""

    flags: tuple[str, ...] = ()
    gone: tuple[int, ...] = ()
    partitions: frozenset[int] = frozenset()
    new: tuple[int, ...] = ()

    @property
    def differ(self) -> bool:
        """Whether the policies differ in any group."""
        return bool(self.flags or self.gone or self.new)

    @classmethod
    def between(cls, present: Policy | None, later: Policy | None) -> LivingGroups:
        """Return the differences between *present*, the policy that OpenSM has read, and *later*. None: no file, with
        which OpenSM makes no group but that of the default partition; nothing is known of that one."""
        if present is None or later is None:
            return cls()
        had, gets = (_groups(policy) for policy in (present, later))
        differing: dict[int, dict[str, None]] = {}
        for mgid, (base, values) in had.items():
            names = [name for name, value in values.items() if mgid in gets and gets[mgid][1][name] != value]
            if names:
                differing.setdefault(base, {}).update(dict.fromkeys(names))
        called = {each.base: clean(each.name) for each in later.partitions}
        flags = [f"{', '.join(names)} of {called.get(base, f'0x{base:04x}')}" for base, names in differing.items()]
        new = {mgid: base for mgid, (base, _) in gets.items() if mgid not in had}
        gone = tuple(mgid for mgid in had if mgid not in gets)
        existing = {each.base for each in present.partitions}
        return cls(tuple(flags), gone, frozenset((*differing, *(existing & {*new.values()}))), tuple(new))

    def in_words(self) -> str:
        """Return the differences in words, for one line."""
        groups = [
            f"{counted(len(mgids), 'group')} {what}"
            for mgids, what in ((self.new, "new"), (self.gone, "gone"))
            if mgids
        ]
        return "; ".join((*self.flags, *groups))

    def notes(self, is_undo: bool = False) -> Iterator[str]:
        """Yield a note on the flags, and one on the groups that go. *is_undo*: the later policy is a former one, so the
        group may still have its values."""
        if self.flags and is_undo:
            yield (
                f"{named(self.flags)}: {_KEPT}: one that was made since the change keeps the changed values until it "
                "has ended; `ibkeys compare --ipoib` asks for them"
            )
        elif self.flags:
            yield (
                f"{named(self.flags)}: {_KEPT}; its new values hold once the group has ended, or after a restart of "
                "OpenSM, and members that cannot meet them are refused then"
            )
        if self.gone:
            groups = named([str(ipaddress.IPv6Address(mgid)) for mgid in self.gone])
            yield (f"OpenSM may keep the group {groups} until its last member has left, or until OpenSM starts again")


def partitions_with_flags(policy: Policy) -> tuple[str, ...]:
    """Return the names of the partitions of *policy* that give flags to a multicast group: one differs from its
    default."""
    return tuple(
        clean(partition.name)
        for partition in policy.partitions
        if any(
            replace(flags, scopes=frozenset()) != GroupFlags()
            for definition in partition.definitions
            for _, flags, _ in definition.made_groups()
        )
    )


def _groups(policy: Policy) -> dict[int, tuple[int, _Values]]:
    """Return, by MGID, the number of the partition and the values of each group that OpenSM makes of a policy. Of
    several definitions of a group the first one counts."""
    found: dict[int, tuple[int, _Values]] = {}
    for partition in policy.partitions:
        for definition in partition.definitions:
            for mgid, flags, q_key in definition.made_groups():
                values = {
                    "mtu": flags.mtu,
                    "rate": flags.rate,
                    "sl": flags.sl,
                    "Q_Key": q_key,
                    "TClass": flags.t_class,
                    "FlowLabel": flags.flow_label,
                }
                found.setdefault(mgid, (partition.base, values))
    return found

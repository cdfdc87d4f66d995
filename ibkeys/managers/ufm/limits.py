"""Changes that no call of UFM's REST interface can make: memberships that are refused before anything is sent.

Source: NVIDIA UFM REST guide.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from ibkeys.errors import UsageError
from ibkeys.keys.pkey import FULL_BIT, PKey
from ibkeys.managers.ufm.answers import DEFAULT_PARTITION
from ibkeys.printable import named


def refuse_impossible(
    had: Mapping[int, Collection[PKey]],
    gets: Mapping[int, Collection[PKey]],
    names: Callable[[Collection[int]], Sequence[str]],
) -> None:
    """Raise UsageError where ports would enter or leave the default partition, or get both P_Keys of one.

    *had* and *gets*: the P_Keys of each port before and after, by GUID; *names*: returns the names of ports.
    """
    changed = [guid for guid in had if _default(had[guid]) != _default(gets[guid])]
    if changed:
        raise UsageError(
            f"the plan changes who is in the default partition ({named(names(changed))}), which UFM "
            "decides by itself: plan again from a policy that leaves it as it is"
        ).explained(
            "gv.cfg default_membership says who is in the default partition; no call of UFM's REST interface changes "
            "it."
        )
    both = [
        guid
        for guid in had
        if set(gets[guid]) != set(had[guid]) and any(PKey(key ^ FULL_BIT) in gets[guid] for key in gets[guid])
    ]
    if both:
        raise UsageError(
            f"{named(names(both))} would have the full and the limited P_Key of a partition: UFM supports only "
            "one membership of each GUID in a partition"
        )


def without_room(
    before: Mapping[int, Collection[PKey]], after: Mapping[int, Collection[PKey]], rooms: Mapping[int, int]
) -> list[int]:
    """Return the ports, by GUID, whose tables are too small for an intermediate state. UFM takes one partition at a
    time, so new P_Keys stand beside the old ones for a while. *rooms*: how many P_Keys a table takes."""
    return [
        guid
        for guid, keys in after.items()
        if keys != before[guid] and len(keys) > max(rooms.get(guid, len(keys)), len(before[guid]))
    ]


def _default(keys: Collection[PKey]) -> frozenset[PKey]:
    return frozenset(key for key in keys if key.partition == DEFAULT_PARTITION)

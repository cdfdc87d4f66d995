"""Finding changes of memberships that no call of UFM's REST interface can make, before anything is sent.

Source: NVIDIA UFM REST guide.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from ibkeys.errors import UsageError
from ibkeys.keys.pkey import FULL_BIT, PKey
from ibkeys.partitions.model import DEFAULT_PARTITION
from ibkeys.printable import named


def refuse_impossible(
    before: Mapping[int, Collection[PKey]],
    after: Mapping[int, Collection[PKey]],
    names: Callable[[Collection[int]], Sequence[str]],
) -> None:
    """Raise UsageError if a port would enter or leave the default partition, or get both the full and the limited P_Key
    of a partition.

    *before*, *after*: port GUID → P_Keys before and after the change; *names*: returns the names of ports by their
    GUIDs.
    """
    changed = [guid for guid in before if _default_keys(before[guid]) != _default_keys(after[guid])]
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
        for guid in before
        if set(after[guid]) != set(before[guid]) and any(PKey(key ^ FULL_BIT) in after[guid] for key in after[guid])
    ]
    if both:
        raise UsageError(
            f"{named(names(both))} would have the full and the limited P_Key of a partition: UFM supports only "
            "one membership of each GUID in a partition"
        )


def find_full_tables(
    before: Mapping[int, Collection[PKey]], after: Mapping[int, Collection[PKey]], capacities: Mapping[int, int]
) -> list[int]:
    """Return the GUIDs of the ports whose tables are too small for their P_Keys *after*, a state within a change. UFM
    changes one partition at a time, so a table has new P_Keys beside old ones for a while. *before*: port GUID → its
    P_Keys in the state before; a port that gets no more P_Keys than it has there is left out. *capacities*: port GUID →
    the number of P_Keys that its table can have."""
    return [
        guid
        for guid, keys in after.items()
        if keys != before[guid] and len(keys) > max(capacities.get(guid, len(keys)), len(before[guid]))
    ]


def _default_keys(keys: Collection[PKey]) -> frozenset[PKey]:
    return frozenset(key for key in keys if key.partition == DEFAULT_PARTITION)

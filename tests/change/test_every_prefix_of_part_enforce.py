"""Wherever OpenSM stops when it goes over the leaf ports with another part_enforce: no two ports are joined or cut."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

from hypothesis import given, settings
from hypothesis import strategies as st

from ibkeys.keys.pkey import DEFAULT_LIMITED, PKey
from ibkeys.partitions.opensm_tables import Entries, LeafTable, packed, place_leaf
from ibkeys.partitions.reader import parse_policy
from ibkeys.plan.model import SmOptions, tables_by_guid
from tests.plan.drawn_policies import OPTIONS, policies, ports, tables_of
from tests.plan.walking import meet, passing
from tests.sample import SOAK


def moments_of_leaf(end: Entries, leaf: Entries, enforces: bool, said: str) -> Iterator[frozenset[PKey]]:
    """Yield what passes of an end port while an OpenSM with *said* as part_enforce goes over its leaf port: first it
    copies the table there, then it lets it enforce (opensm osm_pkey_mgr.c; observed)."""
    copied = place_leaf(leaf, end, 64) if said != "off" else LeafTable({**leaf}, False)
    for table, is_on in ((leaf, enforces), (copied.entries, enforces), (copied.entries, copied.enforces)):
        keys = frozenset(end.values())
        yield passing(keys, frozenset(table.values())) if is_on else keys


@given(policies(), OPTIONS, st.booleans(), st.lists(st.sampled_from(("off", "both")), min_size=5, max_size=5))
@settings(max_examples=1000 if SOAK else 100, deadline=None)
def test_part_enforce(policy: str, options: SmOptions, was_on: bool, said: list[str]) -> None:
    """*said*: what the file says of the OpenSM that comes to a port: forth, back, before or after it was replaced."""
    planned = parse_policy(policy)
    ends = [table.before for table in tables_by_guid(tables_of(planned, planned, options, ports())).values()]
    leaves: list[Entries] = [dict(enumerate(packed(end))) if was_on else {0: DEFAULT_LIMITED} for end in ends]
    seen = [[*moments_of_leaf(end, leaf, was_on, each)] for end, leaf, each in zip(ends, leaves, said, strict=True)]
    for one, other in combinations(range(len(ends)), 2):
        meets = meet(*(frozenset(ends[number].values()) for number in (one, other)))
        assert all(meet(*each) == meets for each in product(seen[one], seen[other]))

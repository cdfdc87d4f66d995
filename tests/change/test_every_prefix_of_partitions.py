"""Wherever a change of partitions through OpenSM stops, whatever tables were changed: no two ports are joined or cut.

At each of these moments the manager is started again with the file as it is on disk.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations, product
from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ibkeys.apply.opensm.course import policy_in_file
from ibkeys.apply.opensm.policy_files import rollback_contents
from ibkeys.keys.pkey import PKey
from ibkeys.partitions.membership import resolve
from ibkeys.partitions.reader import parse_policy
from ibkeys.plan.courses import WaitCycle
from ibkeys.plan.model import SmOptions, tables_by_guid
from ibkeys.plan.sm_policies import policies_between
from tests.plan.drawn_policies import DIGEST, OPTIONS, SM, policies, ports, tables_from, tables_of
from tests.plan.walking import Rules, parts
from tests.sample import SOAK

Memberships = Mapping[int, frozenset[PKey]]
PLACE = ("", "partitions.conf")


@dataclass
class PolicyWalk:
    """A change of policies. ``way``: what the file has held; ``after``, ``now``: what the ports get, and have; ``cut``:
    pairs that are named as cut, None for all."""

    options: SmOptions
    way: list[bytes | None]
    after: Memberships
    now: Memberships = field(init=False)
    cut: set[frozenset[int]] | None = field(default_factory=set)

    def __post_init__(self) -> None:
        self.now = self.before = self.made_of(self.way[0])

    def made_of(self, file: bytes | None) -> Memberships:
        """Return what an OpenSM gives the ports that reads *file*, when it is signalled or started."""
        found = resolve(policy_in_file(file), ports(), SM, self.options.allow_both_pkeys, emulate_fallback=True).by_port
        return {port.guid: frozenset(found.get(port.guid, ())) for port in ports()}

    def give(self, file: bytes | None, takes: Collection[int] | None = None, *, breaks: bool = False) -> None:
        """Replace the file, and let OpenSM read it: it is signalled, or started again, or its standby takes over, whose
        file was replaced before. Each table and that of its leaf port changes partition by partition in any order.
        *takes*: the ports that have it when OpenSM or ibkeys dies, None for all; *breaks*: it is said that pairs may be
        cut and joined in between."""
        then = self.made_of(file)
        for one, other in combinations(map(str, then), 2) if not breaks else ():
            pair = (one, other)
            rules = Rules(*({guid: state[int(guid)] for guid in pair} for state in (self.before, self.after)))
            states = [{*parts(self.now[int(guid)], then[int(guid)])} for guid in pair]
            for state in (dict(zip(pair, each, strict=True)) for each in product(*states)):
                assert not rules.bridges(state)
                is_named = self.cut is None or frozenset(map(int, pair)) in self.cut
                assert is_named or not rules.gaps(state)
        self.way.append(file)
        self.now = {guid: then[guid] if takes is None or guid in takes else self.now[guid] for guid in then}

    def ways_back(self, at_once: bool) -> list[bytes | None]:
        """Return the policies of the way back from what the file holds."""
        file: Any = SimpleNamespace(key=PLACE, name=PLACE[1], seen=SimpleNamespace(data=self.way[-1]))
        return [each[PLACE] for each in rollback_contents([file], {PLACE: tuple(self.way)}, at_once)]


def pairs_of(circles: Iterable[WaitCycle[int]]) -> set[frozenset[int]]:
    return {frozenset(pair) for circle in circles for pair in circle.pairs}


@given(
    policies() | st.none(),
    policies(),
    OPTIONS,
    st.booleans(),
    st.integers(0, 4),
    st.sets(st.sampled_from([port.guid for port in ports()])),
    st.sampled_from(("back", "forth", "forth, back", "back at once")),
)
@settings(max_examples=3000 if SOAK else 150, deadline=None)
def test_partitions_through_opensm(
    old: str | None, new: str, options: SmOptions, gaps: bool, stop: int, takes: set[int], way_on: str
) -> None:
    present, planned = policy_in_file(old and old.encode()), parse_policy(new)
    tables = tables_of(present, planned, options, ports())
    found = policies_between(present, planned, tables, SM, options, DIGEST, gaps=gaps)
    walk = PolicyWalk(options, [old and old.encode()], found.states[-1])
    walk.cut = None if gaps else pairs_of(found.cycles)
    had = {guid: table.before for guid, table in tables_by_guid(tables).items()}
    for number, text in enumerate(found.texts):
        walk.give(text, takes if number == stop else None)
        placed = found.tables[number]
        had = {guid: placed[guid].entries if number != stop or guid in takes else had[guid] for guid in had}
        if number == stop:
            break
    if way_on.startswith("forth"):
        tables = tables_from(had, planned, options, ports())
        rest = policies_between(policy_in_file(walk.way[-1]), planned, tables, SM, options, DIGEST, gaps=gaps)
        if walk.cut is not None:
            walk.cut |= pairs_of(rest.cycles)
        for text in rest.texts:
            walk.give(text)
        assert walk.now == walk.after
    if way_on.endswith(("back", "at once")):
        for former in walk.ways_back(at_once := way_on == "back at once"):
            walk.give(former, breaks=at_once)
        assert walk.now == walk.before
        assert walk.way[-1] == walk.way[0]

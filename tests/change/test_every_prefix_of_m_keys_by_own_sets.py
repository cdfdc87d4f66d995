"""Wherever a change of M_Keys by ibkeys' own Sets stops, and whether its last Sets arrived or not: no port is lost.

The key store has the key of each port, and the change goes on, or back.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibkeys.mkeys.rollout.going_back import plan_return
from ibkeys.mkeys.rollout.rest_of_run import plan_rest
from ibkeys.store.journal.runs import RunOptions
from tests.change.drawn_trees import trees
from tests.change.restarting import Tree
from tests.fabricsim import tool
from tests.mkeys.dying import Asked, keys_of, kill_at, net_of
from tests.mkeys.rollout import Plan, Site, deploy, remove, rotate
from tests.sample import SOAK

PLANS: dict[str, Callable[[bool, int], Plan]] = {
    "deploy": lambda same, at_once: deploy(RunOptions(same, 2, 600, at_once)),
    "rotate": lambda same, at_once: rotate(RunOptions(same, 2, 600, at_once)),
    "remove": lambda same, at_once: remove(at_once=at_once),
    "undo": lambda same, at_once: plan_return,
}
WAYS_ON: dict[str, Plan] = {"resume": plan_rest, "undo": plan_return}


@given(
    trees(),
    st.sampled_from(sorted(PLANS)),
    st.booleans(),
    st.integers(1, 6),
    st.integers(1, 8),
    st.lists(st.booleans(), max_size=6),
    st.sampled_from(sorted(WAYS_ON)),
)
@settings(max_examples=500 if SOAK else 15, deadline=None)
def test_m_keys_by_own_sets(
    tree: Tree, what: str, same: bool, at_once: int, number: int, arrives: list[bool], way_on: str
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        (place := Path(folder) / "site").mkdir()
        site = Site(net_of(tree), place)
        for before in {"deploy": (), "undo": ("deploy", "rotate")}.get(what, ("deploy",)):
            site.run(PLANS[before](same, 64))
        dead = kill_at(site, PLANS[what](same, at_once), number, arrives)
        if dead is None:
            return
        known = keys_of(dead)
        assert all(not port.m_key or port.m_key in known[port.guid] for port in dead.ports())
        asked = Asked()
        with asked.listening(patch), tool(dead.net, **dead.stores) as fabric:
            found = fabric.sweep()
        assert (len(found.nodes), found.troubles) == (len(tree), [])
        asked.check(known)
        asked = Asked()
        with asked.listening(patch):
            run = dead.run(plan_return if what == "undo" else WAYS_ON[way_on])
        assert run.account.is_complete
        first = {guid: keys[0] for guid, keys in asked.keys.items() if known[guid]}
        assert first == {guid: known[guid][0] for guid in first}
        asked.check({guid: [*keys, *known[guid]] for guid, keys in keys_of(dead).items()})
        current = dead.current()
        assert {guid: current.get(guid, 0) for guid in known} == dead.keys()

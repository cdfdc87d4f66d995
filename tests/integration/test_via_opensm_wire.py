"""No gap and no bridge, Set by Set: who may talk after each single Set of an apply and of its undo, by both carriers.

Policies are drawn from few partitions, so that most of them reuse one. A plan that names breaks is refused, and left
out: ``--allow-break`` is never given.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ibkeys.apply.apply import Permissions, plan_apply
from ibkeys.apply.undo import plan_undo
from ibkeys.errors import Refused
from ibkeys.partitions.reader import parse_policy
from ibkeys.plan.model import PlanOptions
from ibkeys.plan.planner import make_plan
from ibkeys.store.paths import StorePaths
from ibkeys.topology.subnet_manager import SubnetManager
from tests.corpus import DATA
from tests.fabricsim import subnet, tool, writer
from tests.integration.hosted import Hosted, facts, opensm, plan_for, undo, via
from tests.integration.talking import History, talking
from tests.integration.tenants import GREEN, TENANTS
from tests.plan.planning import SM
from tests.sample import SOAK, sampled
from tests.spy import at_sets, spy

HOSTS = tuple(0x2C903000A1011 + 0x10 * number for number in range(6))
OVERRIDES = ("index-0", "index-move", "default-pkey", "enforce-blind")
CHAINS = 16
"""Chains of policies that go through OpenSM under `make test` and `make soak`."""
LENGTH = 5
"""Policies in a chain."""


# --- who may talk -----------------------------------------------------------------------------------------------------


# --- policies ---------------------------------------------------------------------------------------------------------

Draw = Callable[[int], int]
"""Returns a number below the one given."""


def policy(draw: Draw) -> str:
    """Return a policy of few partitions with random members."""
    text = f"Default=0x7fff : ALL={'full' if draw(8) == 0 else 'limited'}, SELF=full ;\n"
    for number in range(1, 4):
        members = [(guid, "full" if draw(3) else "limited") for guid in HOSTS if draw(5) < 2]
        if members:
            text += f"P{number}={number:#x} : {', '.join(f'{guid:#x}={kind}' for guid, kind in members)} ;\n"
    return text


# --- through OpenSM ---------------------------------------------------------------------------------------------------


def chain_through_opensm(seed: int) -> None:
    """Go from policy to policy and all the way back."""
    rng = random.Random(f"chain {seed}")
    texts = [policy(rng.randrange) for _ in range(LENGTH + 1)]
    enforce = rng.choice(["both", "both", "both", "in", "out", "off"])
    conf = f"part_enforce {enforce}\n"
    with Hosted(DATA / "fabrics" / "two-switch.net") as served, opensm(served, texts[0], conf) as running:
        history = History(served.net)
        served.watchers = [history.watch]
        states, files, sets = [talking(served.net)], [facts(running.policy)], 0
        for text in texts[1:]:
            plan = plan_for(served, text, "--enforce", enforce)
            done = via(served)
            if done.returncode == 4 and "--allow-break" in done.stderr:
                assert (history.states, facts(running.policy)) == ([], files[-1])
                continue
            assert done.returncode == 0, done.stdout + done.stderr
            now = talking(served.net)
            number = history.check(states[-1], now)
            assert number or not plan.pending
            sets += number
            if facts(running.policy) != files[-1]:
                states.append(now)
                files.append(facts(running.policy))
        for (before, after), file in zip(pairwise(reversed(states)), list(reversed(files))[1:], strict=True):
            done = undo(served)
            assert done.returncode == 0, done.stdout + done.stderr
            assert (talking(served.net), facts(running.policy)) == (after, file)
            sets += history.check(before, after)
        assert len(states) > 2
        assert sets > 20


@pytest.mark.parametrize("seed", sampled(map(str, range(CHAINS)), ["1"]))
def test_through_opensm_nobody_is_cut_or_joined_on_the_way(seed: str) -> None:
    chain_through_opensm(int(seed))


def test_this_sees_who_is_cut_where_opensm_gets_the_policy_at_once() -> None:
    with Hosted(DATA / "fabrics" / "two-switch.net") as served, opensm(served, TENANTS) as running:
        history, before = History(served.net), talking(served.net)
        served.watchers = [history.watch]
        running.policy.write_text(GREEN)
        running.sweep()
        with pytest.raises(AssertionError, match="cut after Set"):
            history.check(before, talking(served.net))


# --- by Sets of our own -----------------------------------------------------------------------------------------------


@given(st.randoms(use_true_random=False), st.sampled_from(["both", "both", "in", "out", "off"]))
@settings(
    max_examples=400 if SOAK else 10,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
def test_by_sets_of_our_own_nobody_is_cut_or_joined_on_the_way(rng: random.Random, enforce: str) -> None:
    net = subnet("two-switch")
    options = PlanOptions(enforce=enforce)  # type: ignore[arg-type]
    history = History(net)
    states = [talking(net)]
    with tempfile.TemporaryDirectory() as folder, tool(net) as fabric:
        fabric.stores = StorePaths(None, Path(folder) / "journal.db")
        spy(fabric, after=at_sets(history.look))
        for number in range(3):
            text = parse_policy(policy(rng.randrange))
            plan = make_plan(text, fabric.sweep(p_keys=True), options, SubnetManager(0, "none", "", SM))
            with writer(fabric, *OVERRIDES) as w:
                try:
                    work = plan_apply(w, plan, Permissions(removals=True, breaks=number == 0))
                except Refused as refused:
                    if refused.interlock != "breaks" or history.states:
                        raise
                    continue
                if not work.pending:
                    continue
                w.apply(work)
            now = talking(net)
            if number == 0:
                history.states, states = [], [now]  # from power-up on, everybody was full: not what this is about
            else:
                history.check(states[-1], now)
                states.append(now)
        for before, after in pairwise(reversed(states)):
            with writer(fabric, *OVERRIDES) as w:
                w.apply(plan_undo(w))
            assert talking(net) == after
            history.check(before, after)

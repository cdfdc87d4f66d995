"""``apply --via opensm`` on the served simulator with the real OpenSM: the plan on the wire, and back."""

from __future__ import annotations

import pytest

from tests.corpus import DATA
from tests.integration.hosted import facts, opensm, plan_for, undo, via
from tests.integration.subnet import Subnet
from tests.integration.tenants import PAIRS, tables
from tests.owners import give_away
from tests.sample import sampled

CRASHES_OPENSM = "reused and moved on"
"""The way back moves a group from a partition that ends: OpenSM 3.3.23 dies of that."""


@pytest.mark.parametrize("name", sampled(PAIRS, ("first policy", "circle", "both forms")))
def test_the_wire_is_as_planned_and_after_undo_as_before(name: str) -> None:
    old, new, conf, _ = PAIRS[name]
    with Subnet(DATA / "fabrics" / "two-switch.net") as served, opensm(served, old, conf) as running:
        running.policy.chmod(0o640)
        give_away(running.policy)
        plan = plan_for(served, new, *(["--allow-both-pkeys"] if conf else []))
        before, file = tables(served), facts(running.policy)
        assert file is not None
        done = via(served, served.folder / "plan.json", *(["--allow-break"] if name == "circle" else []))
        assert done.returncode == 0, done.stdout + done.stderr
        assert facts(running.policy) == (new.encode(), *file[1:])
        assert tables(served) == {**before, **{each.port.key: dict(each.after) for each in plan.tables}}
        if name == CRASHES_OPENSM:
            return
        if name == "circle":
            refused = undo(served)
            assert refused.returncode == 4
            assert "rolling back through the same policies may do so again" in refused.stderr
        done = undo(served, "--allow-break")
        assert done.returncode == 0, done.stdout + done.stderr
        assert (tables(served), facts(running.policy)) == (before, file)

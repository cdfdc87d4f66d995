"""Every recorded fabric and policy: planned, applied, planned again (nothing is left), undone, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.apply.apply import Permissions, plan_apply
from ibkeys.apply.undo import plan_undo
from ibkeys.discovery.wanted import Wanted
from ibkeys.fabric.live import LiveFabric
from ibkeys.partitions.model import Policy
from ibkeys.plan.document import dumps
from ibkeys.plan.document_reader import loads
from ibkeys.plan.model import PartitionPlan, PlanOptions
from ibkeys.plan.planner import make_plan
from ibkeys.sim.subnet import Subnet
from ibkeys.store.paths import StorePaths
from tests.fabricsim import tool, writer
from tests.partitions.recordings import SAMPLE, Recording, load, recordings
from tests.plan.planning import sm_at

OVERRIDES = ("index-0", "index-move", "default-pkey", "enforce-blind")


def image(net: Subnet) -> dict[str, tuple[bytes | None, int]]:
    """All that a plan may change; a table that was never written is that of power-on."""
    return {
        f"{node.node_id} {port.number}": (
            b"".join(port.p_key_block(block) for block in range(-(-port.p_key_capacity // 32))),
            port.info[43] & 0x0C,
        )
        for node in net.nodes
        for port in node.all_ports
    }


def plan_of(fabric: LiveFabric, recording: Recording, policy: Policy) -> PartitionPlan:
    found = fabric.sweep(wanted=Wanted(p_keys=True, sm_info=True))
    moves = (0x7FFF, *(partition.base for partition in policy.partitions))
    options = PlanOptions("both", recording.allow_both, False, moves)
    return make_plan(policy, found, options, sm_at(recording.sm_port_guid, "none", ""))


def accepted() -> list[object]:
    files = [each.values[0] for each in recordings()]
    return [
        pytest.param(file, id=file.stem, marks=() if file.stem in SAMPLE else pytest.mark.soak)
        for file in files
        if load(file).accepted
    ]


@pytest.mark.parametrize("file", accepted())
def test_a_policy_is_applied_holds_and_is_undone(file: Path, tmp_path: Path) -> None:
    recording = load(file)
    net = Subnet.from_file(recording.fabric, "ibsim")
    images = [image(net)]
    with tool(net) as fabric:
        fabric.stores = StorePaths(None, tmp_path / "journal.db")
        for step in recording.steps:
            if step.policy is None:
                continue
            plan = loads(dumps(plan_of(fabric, recording, step.policy)))
            with writer(fabric, *OVERRIDES) as w:
                w.apply(plan_apply(w, plan, Permissions(removals=True, breaks=True)))
            assert not plan_of(fabric, recording, step.policy).pending
            if plan.pending:
                images.append(image(net))
        for before in reversed(images[:-1]):
            with writer(fabric, *OVERRIDES) as w:
                w.apply(plan_undo(w))
            assert image(net) == before

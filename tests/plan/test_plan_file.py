"""What binds a plan to its fabric and policy: the digest, the very bytes, the file."""

from __future__ import annotations

from pathlib import Path

from ibkeys.partitions.export import pin
from ibkeys.partitions.reader import parse_policy, read_policy
from ibkeys.plan.document import write_plan
from ibkeys.plan.document_reader import read_plan
from ibkeys.plan.model import PlanOptions, SmOptions
from ibkeys.plan.planner import make_plan
from ibkeys.sim.subnet import Subnet
from tests.plan.planning import (
    NODE02,
    NODE03,
    SM,
    TWO_SWITCH,
    plan_of,
    sm_at,
    swept,
)


def test_the_digest_is_bound_to_what_the_plan_touches_and_to_nothing_else() -> None:
    net = Subnet.from_file(TWO_SWITCH, "ibsim")
    text = f"Default : ALL=full ; X=5 : 0x{NODE02:x}=full ;"
    digest = plan_of(text, net=net, enforce="off").fabric.digest
    ports = {port.guid: port for node in net.nodes for port in node.end_ports}
    ports[NODE03].p_keys = [0xFFFF, 0x8005]  # not a member: its table changes with the plan
    assert plan_of(text, net=net, enforce="off").fabric.digest != digest
    ports[NODE03].p_keys = [0xFFFF]
    assert plan_of(text, net=net, enforce="off").fabric.digest == digest
    ports[NODE02].p_keys = [0xFFFF, 0x8001]
    assert plan_of(text, net=net, enforce="off").fabric.digest != digest


def test_a_full_plan_lists_every_table_and_has_the_same_digest() -> None:
    policy = parse_policy(f"Default : ALL=full ; X=5 : 0x{NODE02:x}=full ;")
    short, full = (make_plan(policy, swept(TWO_SWITCH), PlanOptions(), sm_at(SM), full=full) for full in (False, True))
    assert (len(short.tables), len(full.tables)) == (2, 14)
    assert short.fabric == full.fabric


def test_a_plan_survives_its_file(tmp_path: Path) -> None:
    plan = plan_of(f"Boot=5, indx0 : ALL_CAS=full, 0xdead ; X=6 : 0x{NODE02:x} ;", allow_index_moves=(0x7FFF,))
    write_plan(plan, tmp_path / "plan.json")
    assert read_plan(tmp_path / "plan.json") == plan


def test_a_plan_has_the_very_bytes_of_its_policy_and_the_options_of_an_opensm_that_would_make_the_same(
    tmp_path: Path,
) -> None:
    data = f"# caf\xe9, in latin-1\r\nX=5 : 0x{NODE02:x}=full ; # no newline at the end".encode("latin-1")
    (tmp_path / "p.conf").write_bytes(data)
    options = PlanOptions("in", allow_both_pkeys=True)
    plan = make_plan(read_policy(tmp_path / "p.conf"), swept(TWO_SWITCH), options, sm_at(SM))
    write_plan(plan, tmp_path / "plan.json")
    found = read_plan(tmp_path / "plan.json")
    assert found.policy.require_text() == data
    assert found.sm_options == SmOptions(True, "in", no_partition_enforcement=False, keep_pkey_indexes=True)


def test_a_policy_that_was_made_from_another_one_does_not_have_its_bytes() -> None:
    policy = parse_policy(f"X : 0x{NODE02:x}=full ;")
    assert (policy.data, pin(policy).data, pin(policy).digest) == (f"X : 0x{NODE02:x}=full ;".encode(), None, "")

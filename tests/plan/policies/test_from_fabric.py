"""A policy made from a fabric, planned against it, has nothing to change; what no policy can say is named."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ibkeys.partitions.membership import end_ports_of, resolve
from ibkeys.partitions.reader import parse_policy
from ibkeys.plan.model import PlanOptions
from ibkeys.plan.planner import make_plan
from ibkeys.plan.policies.from_fabric import MadePolicy, policy_from
from ibkeys.sim.subnet import Subnet
from tests.plan.generated import NETS, TABLES, policies
from tests.plan.planning import NODE02, NODE03, SM, TWO_SWITCH, perform, sm_at, sweep, swept


def made_by(text: str, *, enforce: str = "both", **tables: list[int]) -> tuple[Subnet, MadePolicy]:
    """Return two-switch.net as a policy left it, with some tables changed by hand, and the policy made from it."""
    net = Subnet.from_file(TWO_SWITCH, "ibsim")
    options = PlanOptions(enforce)  # type: ignore[arg-type]
    perform(net, make_plan(parse_policy(text), sweep(net), options, sm_at(SM), full=True))
    for name, table in tables.items():
        net.port(f"{name} mlx4_0", 1).p_keys = table
    return net, policy_from(sweep(net), sm_at(SM))


def kinds(made: MadePolicy) -> dict[str, list[str]]:
    return {each.kind: [port.node.description or "" for port in each.ports] for each in made.unsaid}


def text_of(made: MadePolicy) -> str:
    assert made.policy.data is not None
    return made.policy.data.decode()


def test_what_a_policy_made_is_written_with_names_and_the_usual_default() -> None:
    net, made = made_by(f"Default : ALL=limited, SELF=full ;\nX=0x21 : {NODE02:#x}=full, {NODE03:#x} ;\n")
    assert text_of(made) == (
        "Default=0x7fff : ALL=limited, SELF=full ;\n=0x0021 : 0x0002c903000a1021=full, 0x0002c903000a1031=limited ;\n"
    )
    assert (made.plan.pending, made.unsaid, made.plan.options.enforce) == (False, (), "both")
    named = policy_from(sweep(net), sm_at(SM), labels={NODE02: "node02 mlx4_0"}, about=["head\nline"])
    assert text_of(named).startswith("# head line\nDefault=0x7fff")
    assert "\t0x0002c903000a1021=full,  # node02 mlx4_0\n\t0x0002c903000a1031=limited ;\n" in text_of(named)


def test_a_fabric_at_power_on_is_full_members_without_enforcement() -> None:
    made = policy_from(swept(TWO_SWITCH), sm_at(None))
    assert text_of(made) == "Default=0x7fff : ALL=full ;\n"
    assert (made.plan.pending, made.plan.options.enforce) == (False, "off")


def test_names_flags_and_groups_come_from_another_policy() -> None:
    net, _ = made_by(f"X=0x21 : {NODE02:#x}=full ;\n")
    old = parse_policy("Storage=0x21, ipoib, mtu=5 : ALL=full ;\nDefault=0x7fff, ipoib : ALL=full ;\n")

    def heads(base: int) -> list[object]:
        return [each for each in old.definitions if each.base == base]

    text = text_of(policy_from(sweep(net), sm_at(SM), heads))  # type: ignore[arg-type]
    assert text == (
        "Default=0x7fff, ipoib : ALL=limited, SELF=full ;\nStorage=0x0021, ipoib, mtu=5 : 0x0002c903000a1021=full ;\n"
    )


def test_groups_stand_before_ports_with_names() -> None:
    net, _ = made_by(f"X=0x21 : {NODE02:#x}=full ;\n")
    old = parse_policy("X=0x21, ipoib :\n mgid=ff12::7,sl=3\n ALL=full ;\n").definitions
    made = policy_from(sweep(net), sm_at(SM), lambda base: old if base == 0x21 else (), {NODE02: "node02"})
    assert text_of(made).endswith("X=0x0021, ipoib :\n\tmgid=ff12::7,sl=3\n\t0x0002c903000a1021=full ;  # node02\n")
    assert made.policy.definitions[-1].groups == old[0].groups


def test_a_key_at_index_0_is_pinned() -> None:
    _, made = made_by("Default : ALL=limited, SELF=full ;\n", enforce="off", node02=[0x8021, 0x7FFF])
    assert "=0x0021, indx0 : 0x0002c903000a1021=full ;\n" in text_of(made)
    assert (made.plan.pending, kinds(made)) == (False, {})


def test_what_no_policy_can_say_is_named() -> None:
    policy = "Default : ALL=limited, SELF=full ;\n"
    _, made = made_by(policy, enforce="off", node02=[0x8021], node03=[0x7FFF, 0, 0, 0x8022], node04=[0, 0x7FFF])
    assert kinds(made) == {
        "no-default": ["node02 mlx4_0"],
        "index-0": ["node04 mlx4_0"],
        "index-order": ["node03 mlx4_0"],
    }
    assert [table.port.node_desc for table in made.plan.tables] == ["node02 mlx4_0"]
    _, made = made_by(policy, enforce="off", node02=[0x7FFF, 0x8021, 0x0021])
    assert (made.plan.pending, made.plan.options.allow_both_pkeys) == (False, True)
    assert list(kinds(made)) == ["both-forms", "index-order"]
    net, _ = made_by(policy)
    port = net.port("node02 mlx4_0", 1)
    assert port.peer is not None
    port.peer.p_keys = [0xFFFF, 0x8001]
    assert kinds(policy_from(sweep(net), sm_at(SM))) == {"leaf-table": ["MF0;switch-a:IS5023/U1"]}
    port.peer.inbound_enforcement = 0
    assert "enforcement" in kinds(policy_from(sweep(net), sm_at(SM)))


def test_a_port_whose_table_is_not_known_is_not_in_the_policy_and_named() -> None:
    net, _ = made_by("Default : ALL=limited, SELF=full ;\n")
    found = sweep(net)
    port = next(port for port in found.end_ports() if port.guid == NODE02)
    port.p_key_raw = None
    assert kinds(policy_from(found, sm_at(SM))) == {"not-read": ["node02 mlx4_0"]}


@given(
    data=st.data(),
    netfile=st.sampled_from(NETS),
    both=st.booleans(),
    enforce=st.sampled_from(["both", "in", "out", "off"]),
)
def test_of_what_a_policy_made_nothing_is_to_change(
    data: st.DataObject, netfile: Path, both: bool, enforce: str
) -> None:
    net = Subnet.from_file(netfile, "ibsim")
    ends = [port for node in net.nodes for port in node.end_ports if node.is_switch or port.peer is not None]
    manager = sm_at(data.draw(st.sampled_from(ends)).guid)
    for port in ends:
        port.p_keys = data.draw(TABLES)
    policy = parse_policy(data.draw(policies([port.guid for port in ends])))
    options = PlanOptions(enforce, both)  # type: ignore[arg-type]
    perform(net, make_plan(policy, sweep(net), options, manager))
    fabric = sweep(net)
    labels = {port.guid: "a host, of = some ; name" for port in ends} if data.draw(st.booleans()) else None
    made = policy_from(fabric, manager, labels=labels)
    assert not made.plan.pending, text_of(made)
    assert made.plan.options.allow_both_pkeys <= both
    assert {each.kind for each in made.unsaid} <= {"both-forms", "index-0", "index-order"}
    # It says who is a member of what as the policy did.
    ends_of = end_ports_of(fabric.end_ports())
    was, now = (
        {(each.base, each.full, each.limited) for each in resolve(each, ends_of, manager.port_guid, both).memberships}
        for each in (policy, made.policy)
    )
    assert now == was


@given(data=st.data(), netfile=st.sampled_from(NETS))
def test_of_any_tables_only_ports_without_a_default_key_are_to_change(data: st.DataObject, netfile: Path) -> None:
    net = Subnet.from_file(netfile, "ibsim")
    ends = [port for node in net.nodes for port in node.end_ports if node.is_switch or port.peer is not None]
    for port in ends:
        port.p_keys = data.draw(TABLES)
    made = policy_from(sweep(net), sm_at(data.draw(st.sampled_from(ends)).guid))
    changed = {table.port.port_guid for table in made.plan.tables if not table.port.is_external and table.differs}
    assert changed == {port.guid for port in ends if not any(key & 0x7FFF == 0x7FFF for key in port.p_keys)}
    said = {kind.kind for kind in made.unsaid}
    assert ("no-default" in said) == bool(changed)
    assert made.policy.accepted

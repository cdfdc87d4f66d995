"""Which members of a partition can join its broadcast group, on simulated subnets."""

from __future__ import annotations

import pytest

from ibkeys.mad.attributes import PortInfo
from ibkeys.partitions.ipoib import compare_groups
from ibkeys.partitions.joining import JoinFinding, find_joins, refused_members
from ibkeys.partitions.model import broadcast_mgid
from ibkeys.partitions.reader import parse_policy
from ibkeys.sim.agents.sa_records import MulticastGroup
from ibkeys.sim.subnet import Subnet
from tests.fabricsim import subnet, tool

HOSTS = [f"node0{number} mlx4_0" for number in range(1, 4)]
POLICY = "Default=0x7fff, ipoib : ALL=full ;\nBlue=0x12 : ALL_CAS=full ;\n"


@pytest.fixture
def net() -> Subnet:
    """The first three hosts are in partition 0x0012; their links are 4x with an MTU of 2048."""
    net = subnet("two-switch")
    net.set_sm(net.nodes[0])
    for host in HOSTS:
        net.port(host, 1).p_keys = [0xFFFF, 0x8012]
    return net


def joins(
    net: Subnet, *groups: MulticastGroup, own: tuple[int, ...] = (0xFFFF, 0x8012), policy: str = POLICY
) -> JoinFinding:
    """Return what holds for partition 0x0012, with *groups* of it in the SA."""
    net.sa_of(net.nodes[0]).groups.extend(groups)
    parsed = parse_policy(policy)
    with tool(net) as fabric:
        findings = compare_groups(parsed, fabric.sa().groups(), own_p_keys=own)
        found = find_joins(parsed, findings, fabric.sweep(p_keys=True), own)
    (blue,) = [each for each in found if each.base == 0x12]
    return blue


def group(**values: int) -> MulticastGroup:
    return MulticastGroup(broadcast_mgid(0x12), 0xC012, p_key=0x8012, **values)  # type: ignore[arg-type]


def set_link(net: Subnet, host: str, **fields: int) -> None:
    for name, value in fields.items():
        getattr(PortInfo, name).patch(net.port(host, 1).info, value)


def test_without_a_group_a_member_can_have_one_made_and_the_advice_fits(net: Subnet) -> None:
    found = joins(net)
    assert (found.keeps_out, found.group, len(found.members)) == (False, None, 3)
    assert found.message == (
        "no broadcast group, so no interface runs; but a member can have the SA make one. A group that none of them "
        "can join prevents this: ipoib, mtu=5 in the policy"
    )
    for host in HOSTS:
        set_link(net, host, mtu_cap=5)
        set_link(net, host, link_width_active=2, link_speed_active=4, link_speed_ext_active=0)
    assert joins(net).message.endswith("prevents this: ipoib, rate=8 in the policy"), "60 Gb/s, above 40"


def test_a_group_that_no_link_can_carry_keeps_drivers_out(net: Subnet) -> None:
    found = joins(net, group(mtu=5, rate=3))
    assert found.keeps_out is True
    assert [str(each.port) for each in found.refused] == [str(port) for port in found.members]
    assert found.message.startswith("drivers cannot join: none of 3 members can join its group ('node01 mlx4_0' ")
    assert "MTU 2048 bytes, 4096 bytes wanted" in found.message


def test_a_rate_above_the_links_keeps_them_out_too(net: Subnet) -> None:
    for host in HOSTS:
        set_link(net, host, link_width_active=2, link_speed_active=4, link_speed_ext_active=0)
    found = joins(net, group(mtu=4, rate=10))
    assert found.keeps_out is True
    assert found.refused[0].reason == "rate 40 Gb/s, 120 Gb/s wanted"


def test_one_member_that_can_join_is_enough(net: Subnet) -> None:
    set_link(net, HOSTS[1], mtu_cap=5, neighbor_mtu=5)
    found = joins(net, group(mtu=5, rate=3))
    assert found.keeps_out is False
    assert found.message.startswith("2 of 3 members cannot join its group (")


def test_an_mtu_between_what_the_link_has_and_what_it_could_have_is_unknown(net: Subnet) -> None:
    for host in HOSTS:
        set_link(net, host, mtu_cap=5, neighbor_mtu=4)
    found = joins(net, group(mtu=5, rate=3))
    assert found.keeps_out is None
    assert not any(each.is_certain for each in found.refused)
    assert found.message.startswith("3 of 3 members cannot, or may not, join its group (")


def test_all_can_join_an_ordinary_group(net: Subnet) -> None:
    found = joins(net, group(mtu=4, rate=3), policy=POLICY.replace("Blue=0x12", "Blue=0x12, ipoib"))
    assert (found.ipoib, found.keeps_out, found.message) == (True, False, "all of 3 members can join its group")


def test_a_group_that_this_port_is_not_shown_is_unknown(net: Subnet) -> None:
    found = joins(net, own=(0xFFFF,))
    assert found.keeps_out is None
    assert found.message.startswith("it is not known whether it has a broadcast group")


def test_a_port_that_was_not_read_may_be_a_member(net: Subnet) -> None:
    net.silence("node05 mlx4_0")
    found = joins(net, group(mtu=5, rate=3))
    assert found.unread
    assert found.keeps_out is None


# --- before a change --------------------------------------------------------------------------------------------------


def refused(net: Subnet, policy: str, *bases: int) -> list[str]:
    """Return the sentences about members of the partitions *bases* of a policy that is not in force yet."""
    with tool(net) as fabric:
        return refused_members(parse_policy(policy), dict.fromkeys(bases), fabric.sweep())


RED = "Red=0x13, ipoib{} : 0x0002c903000a1011=full, 0x0002c903000a1021=limited, 0x0002c903000affff=full ;\n"


def test_a_policy_says_who_could_not_join_the_groups_that_opensm_would_make_of_it(net: Subnet) -> None:
    set_link(net, HOSTS[1], mtu_cap=5, neighbor_mtu=5)
    [sentence] = refused(net, RED.format(", mtu=5"), 0x13)
    assert sentence.startswith("1 of 2 members of Red cannot join its multicast group ('node01 mlx4_0' ")
    assert sentence.endswith("MTU 2048 bytes, 4096 bytes wanted)")
    set_link(net, HOSTS[0], mtu_cap=5)
    assert refused(net, RED.format(", mtu=5"), 0x13)[0].startswith("1 of 2 members of Red cannot, or may not, join")


def test_members_that_were_there_before_are_not_named_again(net: Subnet) -> None:
    for host in HOSTS[:2]:
        set_link(net, host, mtu_cap=4, neighbor_mtu=4)
    with tool(net) as fabric:
        found = fabric.sweep()
        new = next(port for port in found.end_ports() if port.guid == 0x0002C903000A1021)
        policy = parse_policy(RED.format(", mtu=5"))
        [sentence] = refused_members(policy, {0x13: {(new.node.guid, new.num)}}, found)
        assert sentence.startswith(f"1 of 1 new member of Red cannot join its multicast group ({new}: ")
        assert refused_members(policy, {0x13: set()}, found) == []


def test_only_groups_that_are_made_and_partitions_that_grow_are_looked_at(net: Subnet) -> None:
    assert refused(net, RED.format(""), 0x13) == []
    assert refused(net, RED.format(", mtu=5"), 0x12) == []
    assert refused(net, RED.format(", mtu=5").replace(", ipoib", ""), 0x13) == []
    assert (
        len(refused(net, RED.format(", mtu=5").replace(", ipoib", "").replace(" : ", " :\n mgid=ff12::1\n"), 0x13)) == 1
    )


def test_the_highest_rate_of_the_groups_counts_by_its_gbps(net: Subnet) -> None:
    """The codes of rates are not in the order of the rates: 5 is 5 Gb/s, and 4 is 30."""
    for host in HOSTS:
        set_link(net, host, link_width_active=1, link_speed_active=4, link_speed_ext_active=0)  # 10 Gb/s
    assert refused(net, RED.format(", rate=5"), 0x13) == []
    assert "rate 10 Gb/s, 30 Gb/s wanted" in refused(net, RED.format(", rate=4"), 0x13)[0]

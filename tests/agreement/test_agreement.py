"""The four words on every port: of a simulated subnet that is as its policy says, and then is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from ibkeys.agreement.agreement import Agreement, AgreementValue, Inputs, agreement_of
from ibkeys.agreement.causes import Cause, ReadByTheSm
from ibkeys.agreement.document import to_json, to_row
from ibkeys.agreement.looking import SourcesToRead, wait_for_agreement
from ibkeys.agreement.sm_file import SmFile
from ibkeys.agreement.source_values import Protection
from ibkeys.change.clock import Clock
from ibkeys.errors import UsageError
from ibkeys.fabric.live import LiveFabric
from ibkeys.fabric.sa_view import ask_sa_view
from ibkeys.managers.instance import Instance
from ibkeys.partitions.model import Policy
from ibkeys.partitions.reader import parse_policy
from ibkeys.plan.model import Enforce
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.subnet import Subnet
from tests.client.sasim import SA_KEY
from tests.fabricsim import limited_members, tool

VICTIM = "node03 mlx4_0"
NODES = [f"node0{number} mlx4_0" for number in range(1, 7)]
POLICY = parse_policy("Default=0x7fff : ALL=limited, SELF=full ;\nOne=0x1 : ALL_CAS=limited ;\n")
"""What the tables of `limited_members` are."""
MORE = parse_policy(POLICY.data.decode() + "Two=0x2 : 0x2c903000a1031=full ;\n" if POLICY.data else "")


@pytest.fixture
def net() -> Subnet:
    net = limited_members()
    net.set_sm(net.nodes[0])
    net.sa_of(net.nodes[0]).sa_key = SA_KEY
    return net


def sm_with(policy: Policy | None, read: ReadByTheSm = "read", enforce: Enforce | None = "both") -> SmFile:
    """Return what is seen of an OpenSM on node01 that has *policy*."""
    guid = 0x2C903000A1011
    return SmFile(cast(Instance, None), guid, policy, False, enforce, Protection(0, 0), read, read, ())


def seen(fabric: LiveFabric, key: int = SA_KEY, then: Callable[[], None] = lambda: None, **given: Any) -> Agreement:
    """Ask the SA, let something happen *then*, and read the nodes: the SA has its memory of before."""
    found = fabric.sweep(p_keys=True)
    view = ask_sa_view(fabric.sa(key), found)
    then()
    again = fabric.sweep(p_keys=True)
    places = {(port.node.guid, port.num): port for port in again.ports()}
    view.ports = {places[port.node.guid, port.num]: said for port, said in view.ports.items()}
    return agreement_of(Inputs(again, view, **given))


def disagreeing(agreement: Agreement) -> list[tuple[str, int, str, int | None, tuple[Cause, ...]]]:
    return [
        (each.port.node.description or "", each.port.num, each.what, each.partition, each.verdict.causes)
        for each in agreement.values
        if each.verdict.state != "agree"
    ]


def leaf(net: Subnet, name: str = VICTIM) -> SimPort:
    port = net.port(name, 1).peer
    assert port is not None
    return port


def put_beside(net: Subnet) -> None:
    port = net.port(VICTIM, 1)
    port.p_keys = [0x7FFF, 0x0001, 0, 0x8123]


def test_a_fabric_that_is_as_its_policy_says_agrees(net: Subnet) -> None:
    """Limited members, full ones, management partition, what is masked into leaf ports, links between switches."""
    with tool(net) as fabric:
        agreement = seen(fabric, policy=POLICY, sm=sm_with(POLICY))
    assert disagreeing(agreement) == []
    assert agreement.is_reached
    known = {(each.what, each.words.pattern) for each in agreement.values}
    assert known == {("pkey", "aaaa"), ("enforcement", "?aaa"), ("m_key_protection", "?aaa")}
    assert {each.port.num for each in agreement.values if each.port.node.is_switch} >= {0, 1, 2, 3}


def test_indexes_and_empty_entries_are_no_difference(net: Subnet) -> None:
    def shuffle() -> None:
        port = net.port(VICTIM, 1)
        port.p_keys = [0x0001, 0x8000, 0, 0x7FFF]
        leaf(net).p_keys = [0, 0x7FFF, 0x0001, 0x0001]

    with tool(net) as fabric:
        assert disagreeing(seen(fabric, then=shuffle, policy=POLICY, sm=sm_with(POLICY))) == []


def test_a_full_key_hides_the_limited_one_of_its_partition_in_the_leaf_port(net: Subnet) -> None:
    both = parse_policy(
        "Default=0x7fff : ALL=limited, SELF=full ;\nOne=0x1 : ALL_CAS=limited, 0x2c903000a1031=both ;\n"
    )
    net.port(VICTIM, 1).p_keys = [0x7FFF, 0x0001, 0x8001]
    leaf(net).p_keys = [0x7FFF, 0x8001]
    with tool(net) as fabric:
        sm = replace(sm_with(both), allow_both=True)
        assert disagreeing(seen(fabric, policy=both, sm=sm)) == []


def test_a_key_put_beside_the_sm_was_changed_after_its_sweep(net: Subnet) -> None:
    with tool(net) as fabric:
        agreement = seen(fabric, then=lambda: put_beside(net), policy=POLICY, sm=sm_with(POLICY))
    assert disagreeing(agreement) == [(VICTIM, 1, "pkey", 0x123, ("changed",))]


def test_enforcement_switched_off_beside_the_sm_was_changed(net: Subnet) -> None:
    def off() -> None:
        leaf(net).inbound_enforcement = 0

    with tool(net) as fabric:
        [(_, number, what, partition, causes)] = disagreeing(seen(fabric, then=off, sm=sm_with(POLICY)))
    assert (number, what, partition, causes) == (leaf(net).number, "enforcement", None, ("changed",))


@pytest.mark.parametrize(("read", "cause"), [("not-read", "not-read"), ("read", "refused"), ("unknown", "not-applied")])
def test_a_file_that_fabric_and_sa_do_not_show(net: Subnet, read: ReadByTheSm, cause: Cause) -> None:
    with tool(net) as fabric:
        agreement = seen(fabric, policy=MORE, sm=sm_with(MORE, read))
    assert set(disagreeing(agreement)) == {
        (leaf(net).node.description, leaf(net).number, "pkey", 2, (cause,)),
        (VICTIM, 1, "pkey", 2, (cause,)),
    }


def test_a_full_table_is_the_reason(net: Subnet) -> None:
    port = net.port(VICTIM, 1)
    rest = port.p_key_capacity - 2
    text = "".join(f"P{number}={number:#x} : 0x2c903000a1031=full ;\n" for number in range(0x100, 0x100 + rest))
    policy = parse_policy((POLICY.data or b"").decode() + text + "Late=0x7000 : 0x2c903000a1031=full ;\n")
    port.p_keys = [0x7FFF, 0x0001, *(0x8000 | number for number in range(0x100, 0x100 + rest))]
    with tool(net) as fabric:
        found = disagreeing(seen(fabric, sm=sm_with(policy)))
    assert (VICTIM, 1, "pkey", 0x7000, ("no-room",)) in found


def test_a_port_that_is_not_active_yet_waits_for_the_sweep(net: Subnet) -> None:
    def came_back() -> None:
        port = net.port(VICTIM, 1)
        port.p_keys = [0xFFFF]
        port.info[32] = port.info[32] & 0xF0 | 2

    with tool(net) as fabric:
        found = disagreeing(seen(fabric, then=came_back, policy=POLICY, sm=sm_with(POLICY)))
    assert found == [(VICTIM, 1, "pkey", 1, ("sweep-due",)), (VICTIM, 1, "pkey", 0x7FFF, ("sweep-due",))]


def test_another_policy(net: Subnet) -> None:
    with tool(net) as fabric:
        found = disagreeing(seen(fabric, policy=MORE, sm=sm_with(POLICY)))
    assert {each[2:] for each in found} == {("pkey", 2, ("other-policy",))}


def test_no_policy_file_makes_everybody_full(net: Subnet) -> None:
    with tool(net) as fabric:
        agreement = seen(fabric, sm=sm_with(None, "not-read"))
    default = [each for each in agreement.values if each.partition == 0x7FFF]
    assert all(each.words.sm_file == frozenset({0xFFFF}) for each in default)
    assert {cause for each in default for cause in each.verdict.causes} == {"not-read"}


def test_without_the_sm_key_the_words_on_p_keys_are_unknown(net: Subnet) -> None:
    with tool(net) as fabric:
        agreement = seen(fabric, 0, policy=POLICY, sm=sm_with(POLICY))
        assert {(each.what, each.words.pattern) for each in agreement.values} == {
            ("pkey", "aa?a"),
            ("enforcement", "?aaa"),
            ("m_key_protection", "?aaa"),
        }
        assert agreement.is_reached
        put_beside(net)
        hidden = seen(fabric, 0, policy=POLICY, sm=sm_with(POLICY))
        assert disagreeing(hidden) == [(VICTIM, 1, "pkey", 0x123, ("hidden",))]


def test_ports_that_the_sa_does_not_show_this_asker_are_counted(net: Subnet) -> None:
    """node02 is a limited member of both partitions, so that it shares one with node01 only."""
    with tool(net, "node02 mlx4_0") as fabric:
        agreement = seen(fabric, policy=POLICY, sm=sm_with(POLICY))
    shown = {each.port.node.description for each in agreement.values if each.words.sa is not None}
    assert shown == {"node01 mlx4_0"}
    assert agreement.hidden_ports() == len({each.port for each in agreement.values if each.what == "pkey"}) - 1
    assert disagreeing(agreement) == []


def test_without_policy_and_file_only_sa_and_node_are_compared(net: Subnet) -> None:
    with tool(net) as fabric:
        assert disagreeing(seen(fabric, then=lambda: put_beside(net))) == [(VICTIM, 1, "pkey", 0x123, ("changed",))]
        alone = seen(fabric, 0)
    assert {each.verdict.causes for each in alone.values if each.what == "pkey"} == {("nothing-to-compare",)}
    assert {each.verdict.state for each in alone.values if each.what == "pkey"} == {"unknown"}


def test_where_the_sm_is_not_known_its_own_partitions_are_not(net: Subnet) -> None:
    for node in net.nodes:
        for port in node.end_ports:
            port.info[18:20] = bytes(2)
    with tool(net) as fabric:
        found = fabric.sweep(p_keys=True)
    agreement = agreement_of(Inputs(found, None, POLICY))
    assert {each.words.policy for each in agreement.values if each.partition == 0x7FFF} == {None}
    assert {each.words.pattern for each in agreement.values if each.partition == 1} == {"a??a"}


def test_a_node_that_does_not_show_its_table_is_unknown(net: Subnet) -> None:
    with tool(net, retries=0) as fabric:
        net.faults.lose_next("reply", node=net.node(VICTIM), attribute=0x16, count=100)
        agreement = seen(fabric, policy=POLICY, sm=sm_with(POLICY))
    found = disagreeing(agreement)
    assert {(name, causes) for name, *_, causes in found} == {(VICTIM, ("node-silent",))}
    unread = {each.verdict.state for each in agreement.values if each.port.node.description == VICTIM}
    assert unread == {"unknown", "agree"}  # its PortInfo was read
    assert not agreement.is_reached


@pytest.mark.parametrize("enforce", ["both", "in", "out", "off", None])
def test_enforcement_is_what_the_sm_works_with(net: Subnet, enforce: Enforce | None) -> None:
    bits = {"both": (1, 1), "in": (1, 0), "out": (0, 1), "off": (0, 0), None: (1, 1)}[enforce]
    for name in NODES:
        leaf(net, name).inbound_enforcement, leaf(net, name).outbound_enforcement = bits
    with tool(net) as fabric:
        agreement = seen(fabric, policy=POLICY, sm=sm_with(POLICY, enforce=enforce))
    assert disagreeing(agreement) == []
    known = {each.words.sm_file is not None for each in agreement.values if each.what == "enforcement"}
    assert known == {enforce is not None}


def test_nothing_is_enforced_between_switches(net: Subnet) -> None:
    port = next(p for node in net.nodes if node.is_switch for p in node.ports[1:] if p.peer and p.peer.node.is_switch)
    port.inbound_enforcement = 1
    with tool(net) as fabric:
        found = disagreeing(seen(fabric, policy=POLICY, sm=sm_with(POLICY)))
    assert found == [(port.node.description, port.number, "enforcement", None, ("refused",))]


def test_a_lease_that_ran_out_was_changed_after_the_sweep(net: Subnet) -> None:
    for node in net.nodes:
        for port in node.end_ports:
            port.protect_bits, port.lease_period = 1, 60

    def ran_out() -> None:
        net.port(VICTIM, 1).protect_bits = 0

    with tool(net) as fabric:
        sm = replace(sm_with(POLICY), protection=Protection(1, 60))
        agreement = seen(fabric, then=ran_out, sm=sm)
        other = seen(fabric, sm=replace(sm, protection=Protection(2, 60)))
    assert disagreeing(agreement) == [(VICTIM, 1, "m_key_protection", None, ("changed",))]
    [value] = [each for each in agreement.values if each.verdict.differing_sources]
    shown = to_json(Agreement(Inputs(agreement.inputs.found), (value,)), [value])["values"][0]
    assert shown["node"] == {"m_key_protect_bits": 0, "m_key_lease_period": 60}
    assert to_row(value)["sa"] == "level 1, 60 s"
    assert {each[2:] for each in disagreeing(other)} == {("m_key_protection", None, ("refused",))}


# --- as a document ---------------------------------------------------------------------------------------------------


def one_of(agreement: Agreement, what: str, partition: int | None, name: str) -> AgreementValue:
    return next(
        each
        for each in agreement.values
        if (each.what, each.partition, each.port.node.description) == (what, partition, name)
    )


def test_none_of_a_partition_is_told_from_unknown(net: Subnet) -> None:
    put_beside(net)
    with tool(net) as fabric:
        agreement = seen(fabric, 0, policy=POLICY)
    value = one_of(agreement, "pkey", 0x123, VICTIM)
    document = to_json(agreement, [value])
    [shown] = document["values"]
    assert (shown["policy"], shown["sm_file"], shown["sa"], shown["node"]) == ([], None, None, ["0x8123"])
    assert (shown["partition"], shown["state"], shown["causes"]) == ("0x0123", "differs", ["sm-file-unknown"])
    row = to_row(value)
    assert (row["policy"], row["sm_file"], row["sa"], row["node"]) == ("-", None, None, "0x8123")
    assert document["summary"]["differs"] == 1
    assert document["summary"]["causes"] == {"sm-file-unknown": 1}
    enforcement = next(each for each in agreement.values if each.what == "enforcement")
    assert to_json(agreement, [enforcement])["values"][0]["node"] == {"inbound": True, "outbound": True}
    assert to_row(enforcement)["node"] == "in+out"


# --- until all agree -------------------------------------------------------------------------------------------------


class Time:
    """A clock whose time passes where somebody sleeps."""

    def __init__(self) -> None:
        self.now, self.pauses = 100.0, list[float]()

    def clock(self) -> Clock:
        def sleep(seconds: float) -> None:
            self.pauses.append(seconds)
            self.now += seconds

        return Clock(lambda: self.now, sleep)


def test_waiting_ends_when_all_agree(net: Subnet) -> None:
    time, sm = Time(), sm_with(MORE, "not-read")
    with tool(net) as fabric:
        still, then = seen(fabric, sm=sm), seen(fabric, sm=sm_with(POLICY))
    looks = iter([still, still, still, then])
    assert wait_for_agreement(lambda: next(looks), 60, time.clock()) is then
    assert len(time.pauses) == 3
    assert time.now < 160


def test_waiting_ends_with_its_time_and_what_does_not_agree(net: Subnet) -> None:
    time = Time()
    with tool(net) as fabric:
        still = seen(fabric, sm=sm_with(MORE, "not-read"))
    assert wait_for_agreement(lambda: still, 60, time.clock()) is still
    assert time.now == 160


def test_each_look_asks_with_the_keys_of_now(net: Subnet) -> None:
    with tool(net) as fabric:
        read: list[bool] = []
        fabric.reload_keys = lambda: read.append(True)
        look = SourcesToRead(fabric, fabric.sa(SA_KEY), policy=POLICY)
        for _ in range(2):
            look.once()
        assert len(read) == 2


def test_a_look_at_a_simulated_subnet_knows_no_file(net: Subnet) -> None:
    with tool(net) as fabric:
        agreement = SourcesToRead(fabric, fabric.sa(SA_KEY), policy=POLICY).once()
        assert agreement.counts().keys() == {"agree"}
        assert "simulated" in agreement.inputs.sm_unknown
        with pytest.raises(UsageError, match="simulated subnet has no OpenSM"):
            SourcesToRead(fabric, fabric.sa(SA_KEY), needs_sm_file=True).once()

"""Fabrics without end and nodes without haste: every sweep ends, and says for which limit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.client.limits import Limits
from ibkeys.discovery.wanted import EVERYTHING
from ibkeys.errors import LimitReached, UsageError
from ibkeys.fabric.live import LiveFabric
from ibkeys.mad.attributes import PortInfo
from ibkeys.mad.const import AttributeID, NodeType, PortState
from ibkeys.sim.subnet import Subnet
from ibkeys.topology.model import Topology
from tests.corpus import DATA
from tests.fabricsim import subnet, tool
from tests.fattree import fat_tree
from tests.hostile import LINKED, OWN_GUID, Answer, AnsweringPort, EndlessFabric, node_info


def swept(answer: Answer, limits: Limits, delay: float = 0.000_01, p_keys: bool = False) -> tuple[Topology, LiveFabric]:
    with LiveFabric(AnsweringPort(answer, delay), limits=limits) as fabric:
        return fabric.sweep(p_keys=p_keys), fabric


def struck(found: Topology) -> list[str]:
    """Return the words after the colon of each note that names a limit."""
    return [note.rpartition(": ")[2] for note in found.notes if note.startswith("a limit was reached")]


# --- a fabric without end --------------------------------------------------------------------------------------------


def test_a_fabric_without_end_stops_at_the_cap_of_nodes_and_names_it() -> None:
    found, _ = swept(EndlessFabric(6), Limits(nodes=50))
    assert len(found.nodes) == 50
    assert struck(found) == ["the sweep found 50 nodes, its limit (Limits(nodes=N) raises it)"]
    behind = [trouble for trouble in found.troubles if trouble.is_behind]
    assert {trouble.reading for trouble in behind} == {"not-asked"}
    # Every link of a node that was found is known, or is named as one of which nobody knows where it leads.
    linked = {port for node in found.nodes for port in node.ports.values() if port.num and port.is_linked}
    dark = {port for port in linked if port.peer is None}
    assert dark == {trouble.port for trouble in behind}


def test_the_cap_of_ports_names_the_first_port_of_each_switch_that_was_left_out() -> None:
    found, _ = swept(EndlessFabric(254), Limits(nodes=40, ports=300))
    read = sum(port.info is not None for node in found.nodes for port in node.ports.values() if node.is_switch)
    assert read == 300
    assert "the sweep read 300 switch ports, its limit (Limits(ports=N) raises it)" in struck(found)
    for node in found.nodes:
        unread = [port for port in node.ports.values() if port.info is None and node.is_switch]
        assert all(any(trouble.port is port for trouble in found.troubles) for port in unread)


def test_the_cap_of_hops_is_the_users_or_that_of_a_directed_route() -> None:
    found, _ = swept(EndlessFabric(2), Limits(hops=3))
    assert max(len(node.path) for node in found.nodes) == 3
    assert struck(found) == ["it is more than 3 hops away, the limit of the sweep (Limits(hops=N) at most 63)"]
    found, _ = swept(EndlessFabric(2), Limits())
    assert max(len(node.path) for node in found.nodes) == 63
    assert struck(found) == ["no directed route reaches it, more than 63 hops away"]


def test_switches_that_all_have_one_guid_are_capped_for_themselves() -> None:
    found, _ = swept(EndlessFabric(30, guid=0x1230), Limits(same_guid=7, hops=8))
    assert len(found.nodes) == 8
    assert any("7 nodes with its NodeGUID were found before" in text for text in struck(found))


def test_a_sweep_ends_at_its_count_of_smps() -> None:
    found, fabric = swept(EndlessFabric(254), Limits(smps=2000))
    assert fabric.client.statistics.sent <= 2000 + 64
    assert "the sweep sent 2000 SMPs, its limit (Limits(smps=N) raises it)" in struck(found)


def test_a_sweep_of_nodes_that_all_answer_at_the_last_moment_ends_at_its_time() -> None:
    found, fabric = swept(EndlessFabric(254), Limits(time=100), delay=0.95)
    assert fabric.umad.now() < 100 + 2
    assert "the sweep took 100 s, its limit (Limits(time=N) raises it)" in struck(found)


def test_the_next_sweep_begins_with_full_limits() -> None:
    with LiveFabric(AnsweringPort(EndlessFabric(4)), limits=Limits(smps=500, nodes=1000)) as fabric:
        first = fabric.sweep()
        second = fabric.sweep()
        assert struck(first) == struck(second)
        assert len(second.nodes) == len(first.nodes)
        assert fabric.find_port("0").read_port_info().lid == 7  # a single question has no limit of a sweep


def test_an_honest_fabric_reaches_no_limit_that_is_as_large_as_it_is() -> None:
    with tool(subnet("dual-home")) as fabric:
        found = fabric.sweep(wanted=EVERYTHING)
    switch_ports = sum(len(node.ports) for node in found.nodes if node.is_switch)
    hops = max(len(node.path) for node in found.nodes)
    exact = Limits(nodes=len(found.nodes), ports=switch_ports, hops=hops, same_guid=1)
    with tool(subnet("dual-home"), limits=exact) as fabric:
        again = fabric.sweep(wanted=EVERYTHING)
    assert not again.troubles
    assert len(again.nodes) == len(found.nodes)
    one_less = Limits(nodes=len(found.nodes) - 1, ports=switch_ports, hops=hops, same_guid=1)
    with tool(subnet("dual-home"), limits=one_less) as fabric:
        assert struck(fabric.sweep())


LARGEST = {"pods": 44, "leaves": 32, "hosts": 32, "spines": 32, "cores": 32}
"""Of switches of 64 ports: 45,056 hosts and 3,840 switches, 48,896 of the 49,151 unicast LIDs."""


def test_the_largest_fat_tree_is_well_inside_the_limits() -> None:
    pods, leaves, hosts, spines, cores = LARGEST.values()
    switches = pods * (leaves + spines) + spines * cores
    nodes, ports = pods * leaves * hosts + switches, switches * 65
    assert 48_000 < nodes < Limits().nodes
    assert 1.2 * ports < Limits().ports
    links = pods * leaves * (hosts + spines) + pods * spines * cores
    blocks = 4  # 128 P_Keys at every port
    assert 2 * (links + 2 * nodes + (ports + nodes) * (1 + blocks)) < Limits().smps


@pytest.mark.soak
def test_a_sweep_of_the_largest_fat_tree_reaches_no_limit() -> None:
    with tool(Subnet.from_text(fat_tree(**LARGEST, radix=64))) as fabric:
        found = fabric.sweep(wanted=EVERYTHING)
    assert len(found.nodes) > 48_000
    assert not found.troubles
    assert not found.notes


_HOSTILE = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
from ibkeys.discovery.wanted import EVERYTHING
from ibkeys.fabric.live import LiveFabric
from tests.hostile import AnsweringPort, EndlessFabric
partition_cap, delay = int(sys.argv[1]), float(sys.argv[2])
with LiveFabric(AnsweringPort(EndlessFabric(254, partition_cap=partition_cap), delay)) as fabric:
    found = fabric.sweep(wanted=EVERYTHING)
    limits = fabric.client.limits
    assert len(found.nodes) <= limits.nodes and fabric.client.statistics.sent <= limits.smps + 64
    assert fabric.umad.now() < limits.time + 2
print(*found.notes, sep="\\n")
"""


@pytest.mark.soak
@pytest.mark.parametrize(("partition_cap", "delay"), [(32, 1e-5), (65535, 1e-5), (32, 0.95)])
def test_a_fabric_without_end_ends_in_two_gigabytes(partition_cap: int, delay: float) -> None:
    command = [sys.executable, "-c", _HOSTILE, str(partition_cap), str(delay)]
    done = subprocess.run(command, cwd=DATA.parent.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "a limit was reached" in done.stdout


# --- a node without haste --------------------------------------------------------------------------------------------


def large_table(path: tuple[int, ...], attribute: int, modifier: int) -> bytes | None:
    """The own CA, a switch, and behind its port 2 a CA with 65,535 P_Key entries."""
    if attribute == AttributeID.PORT_INFO:
        return LINKED if path != (1,) or modifier <= 2 else PortInfo().replace(port_state=PortState.DOWN).raw
    if attribute != AttributeID.NODE_INFO:
        return bytes(64)
    if not path:
        return node_info(NodeType.CA, 1, OWN_GUID)
    if path == (1,):
        return node_info(NodeType.SWITCH, 3, 0x1000)
    return node_info(NodeType.CA, 1, 0x2000, partition_cap=0xFFFF) if path == (1, 2) else None


def test_a_node_that_answers_every_smp_at_the_last_moment_reaches_its_own_limit() -> None:
    found, fabric = swept(large_table, Limits(), delay=0.95, p_keys=True)
    assert fabric.umad.now() < 60 + 15
    [trouble] = found.troubles
    assert (trouble.port.node.guid, trouble.attribute, trouble.reading) == (0x2000, "P_KeyTable", "not-asked")
    text = "60 s were spent waiting for this node, the limit for one node (Limits(node_time=N) raises it)"
    assert trouble.error == f"not sent: {text}"
    assert trouble.port.p_keys is None
    assert struck(found) == [text]


def test_the_same_node_with_haste_or_more_time_is_read_whole() -> None:
    for limits, delay in ((Limits(), 0.01), (Limits(node_time=600), 0.95)):
        found, _ = swept(large_table, limits, delay, p_keys=True)
        assert not found.troubles
        assert found.nodes[2].port(1).p_keys == (0,) * 0xFFFF


def test_a_node_is_sent_so_many_smps_and_no_more() -> None:
    found, fabric = swept(large_table, Limits(node_smps=100), p_keys=True)
    assert struck(found) == ["this node was sent 100 SMPs, the limit for one node (Limits(node_smps=N) raises it)"]
    assert fabric.client.statistics.by_attribute[AttributeID.P_KEY_TABLE] <= 100 + 10


def test_a_single_port_that_answers_at_the_last_moment_reaches_the_limit_too() -> None:
    with LiveFabric(AnsweringPort(large_table, 0.95)) as fabric:
        port = fabric.find_port("0,1,2")
        with pytest.raises(LimitReached, match=r"Limits\(node_time=N\) raises it") as error:
            port.read_p_keys()
        assert error.value.limit == "node_time"
        assert fabric.umad.now() < 60 + 15


# --- the words of the option -----------------------------------------------------------------------------------------


def test_words_change_single_limits() -> None:
    assert Limits.parse([]) == Limits()
    assert Limits.parse(["nodes=7", "node-time=600"]) == Limits(nodes=7, node_time=600)


def test_limits_have_words_that_make_them_again() -> None:
    assert Limits().words() == []
    changed = Limits(nodes=7, node_time=0.5, time=float("inf"))
    assert changed.words() == ["nodes=7", "time=999999999999", "node-time=1"]
    assert Limits.parse(changed.words()).nodes == 7


@pytest.mark.parametrize("word", ["nodes", "nodes=", "nodes=0", "nodes=-1", "node_time=5", "=5", "hops=64", "nodes=x"])
def test_words_that_are_no_limit_are_refused(word: str) -> None:
    with pytest.raises(UsageError):
        Limits.parse([word])


@given(st.lists(st.text(max_size=12) | st.from_regex(r"(nodes|sa-size)=\d{1,14}", fullmatch=True), max_size=3))
def test_any_words_are_limits_or_refused(words: list[str]) -> None:
    try:
        limits = Limits.parse(words)
    except UsageError:
        return
    assert Limits.parse([]) == limits or words


@pytest.mark.parametrize("make", [lambda: Limits(nodes=0), lambda: Limits(time=-1.0), lambda: Limits(hops=64)])
def test_values_that_make_no_sense_are_refused(make: Callable[[], Limits]) -> None:
    with pytest.raises(UsageError):
        make()

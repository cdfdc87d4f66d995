"""What changed over many snapshots: nothing is lost where a port was not read in between."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from hypothesis import given
from hypothesis import strategies as st

from ibkeys.fabric.history import PortEvent, PortHistory
from ibkeys.fabric.snapshot import Snapshot, take_snapshot
from ibkeys.keys.fingerprint import Fingerprints
from ibkeys.mad.const import AttributeID
from ibkeys.sim.subnet import Subnet
from ibkeys.topology.nodes import Port
from tests.dumps.bringing import bring
from tests.fabricsim import between_switches, move_cable, replace_hca, subnet, tool

KEY, OTHER = 0x1A2B3C4D5E6F7081, 0x0BADC0FFEE0DDF00
SECRET = Fingerprints.generate()
NAME = "node02 mlx4_0"


def snapshots(net: Subnet, *steps: Callable[[Subnet], object], fingerprints: Fingerprints = SECRET) -> list[Snapshot]:
    """Take a snapshot at first and after each step; each has a time of its own, a minute after the one before."""
    found = []
    for minute, step in enumerate([lambda net: None, *steps]):
        step(net)
        with tool(net) as fabric:
            taken = take_snapshot(fabric, fingerprints)
        net.faults.clear()
        taken.about = dataclasses.replace(taken.about, finished=f"2026-11-20T09:{minute:02d}:00Z")
        found.append(taken)
    return found


def is_node02(port: Port) -> bool:
    return port.node.description == NAME


def told(taken: Iterable[Snapshot], found: PortHistory | None = None) -> list[tuple[object, ...]]:
    found = found or PortHistory(is_node02)
    return [words(event) for each in taken for event in found.add(each)]


def words(event: PortEvent) -> tuple[object, ...]:
    return (event.since[14:16], event.taken[14:16], event.kind, event.before, event.after)


def keys(*values: int) -> Callable[[Subnet], object]:
    return lambda net: setattr(net.port(NAME, 1), "p_keys", list(values))


def m_key(key: int, bits: int = 0, lease: int = 0) -> Callable[[Subnet], object]:
    def step(net: Subnet) -> None:
        port = net.port(NAME, 1)
        port.m_key, port.protect_bits, port.lease_period = key, bits, lease

    return step


def lose(attribute: AttributeID) -> Callable[[Subnet], object]:
    return lambda net: net.faults.lose_next("request", node=net.node(NAME), attribute=attribute, count=1000)


def silence(net: Subnet) -> None:
    net.silence(NAME)


def test_keys_level_and_lease_with_the_two_times_between_which_they_changed() -> None:
    taken = snapshots(subnet("two-switch"), keys(0xFFFF, 0x8001), m_key(KEY, 0, 60), keys(0x7FFF), m_key(OTHER, 0, 60))
    assert told(taken) == [
        ("00", "01", "pkey-added", None, "0x8001"),
        ("01", "02", "m_key", "zero", "set"),
        ("01", "02", "m_key_lease_period", 0, 60),
        ("02", "03", "membership", "0xffff", "0x7fff"),
        ("02", "03", "pkey-removed", "0x8001", None),
        ("03", "04", "m_key", "set", "another key"),
    ]


def test_a_change_while_the_table_was_not_read_is_told_with_the_span_in_which_it_happened() -> None:
    def change_and_lose(net: Subnet) -> None:
        keys(0xFFFF, 0x8001)(net)
        lose(AttributeID.P_KEY_TABLE)(net)

    found = PortHistory(is_node02)
    taken = snapshots(subnet("two-switch"), change_and_lose, lambda net: None)
    assert told(taken[:2], found) == []
    assert [(port.node_desc, attribute) for port, attribute in found.unread] == [(NAME, "P_KeyTable")]
    assert told(taken[2:], found) == [("00", "02", "pkey-added", None, "0x8001")]
    assert found.unread == []


def test_a_key_that_was_hidden_in_between_is_compared_with_the_one_before() -> None:
    taken = snapshots(subnet("two-switch"), m_key(KEY, 0, 60), m_key(OTHER, 1, 60), m_key(OTHER, 0, 60))
    assert [each for each in told(taken) if each[2] == "m_key"] == [
        ("00", "01", "m_key", "zero", "set"),
        ("01", "03", "m_key", "set", "another key"),
    ]


def test_a_key_that_a_file_does_not_have_is_unread_and_no_change() -> None:
    """smpquery portinfo without -K has all of PortInfo but the M_Key."""
    files = ("portinfo-keyed.txt", "portinfo.txt", "portinfo-keyed.txt")
    history = PortHistory(lambda port: port.lid == 2)
    unread = []
    for file in files:
        assert list(history.add(bring("ibnetdiscover.txt", file))) == []
        unread.append([attribute for _, attribute in history.unread])
    assert unread == [["P_KeyTable"], ["M_Key", "P_KeyTable"], ["P_KeyTable"]]


def test_a_silent_node_is_unread_and_not_gone() -> None:
    net = subnet("two-switch")
    found = PortHistory(is_node02)
    assert told(snapshots(net, silence), found) == []
    assert [attribute for _, attribute in found.unread] == ["PortInfo"]


def test_a_port_whose_cable_is_pulled_is_gone_and_comes_back_with_what_changed_meanwhile() -> None:
    net = subnet("two-switch")
    peer = net.port(NAME, 1).peer
    assert peer is not None

    def pull(net: Subnet) -> None:
        net.unplug(NAME, 1)

    def plug(net: Subnet) -> None:
        net.plug(NAME, 1, peer.node, peer.number)
        keys(0xFFFF, 0x8001)(net)

    assert told(snapshots(net, pull, plug)) == [
        ("00", "01", "disappeared", None, None),
        ("01", "02", "appeared", None, None),
        ("00", "02", "pkey-added", None, "0x8001"),
    ]


def test_of_a_partition_only_its_own_members_are_told() -> None:
    found = PortHistory(lambda port: True, partition=1)
    taken = snapshots(
        subnet("two-switch"), keys(0xFFFF, 0x8002), keys(0xFFFF, 0x0001), m_key(KEY), keys(0xFFFF, 0x8001)
    )
    assert told(taken, found) == [
        ("01", "02", "pkey-added", None, "0x0001"),
        ("03", "04", "membership", "0x0001", "0x8001"),
    ]


def test_keys_of_two_secrets_are_said_to_be_incomparable() -> None:
    net = subnet("two-switch")
    m_key(KEY)(net)
    found = PortHistory(is_node02)
    first = snapshots(net)
    with tool(net) as fabric:
        second = take_snapshot(fabric, Fingerprints.generate())
    for each in (*first, second):
        each.about = dataclasses.replace(each.about, has_keys=False)
    assert told([*first, second], found) == []
    assert not found.keys_comparable


TABLES = st.lists(st.sampled_from([0xFFFF, 0x7FFF, 0x8001, 0x0001]), min_size=1, max_size=3)


@given(st.lists(st.tuples(TABLES, st.booleans()), min_size=1, max_size=4))
def test_what_is_told_adds_up_whatever_was_read_in_between(steps: list[tuple[list[int], bool]]) -> None:
    """Entries added less entries removed make the table that was read last, however many reads failed before."""
    net = subnet("two-switch")

    def step(table: list[int], readable: bool) -> Callable[[Subnet], object]:
        def change(net: Subnet) -> None:
            keys(*table)(net)
            if not readable:
                lose(AttributeID.P_KEY_TABLE)(net)

        return change

    found = PortHistory(is_node02)
    taken = snapshots(net, *(step(*each) for each in steps))
    kinds = [each[2] for each in told(taken, found)]
    first = taken[0].fabric.find_name(NAME)[0].ports[1].occupied or []
    read = [each.fabric.find_name(NAME)[0].ports[1].occupied for each in taken]
    last = next(table for table in reversed(read) if table is not None)
    assert len(last) - len(first) == kinds.count("pkey-added") - kinds.count("pkey-removed")


def move(number: int) -> Callable[[Subnet], object]:
    """Plug the host into a port of the second switch, 0x0002c90200401040."""
    return lambda net: move_cable(net.port(NAME, 1), net.port(0x0002C90200401040, number), net)


def test_a_port_at_another_switch_port_and_a_node_with_another_name() -> None:
    def rename(net: Subnet) -> None:
        net.set_description(net.port(0x0002C903000A1020, 1).node, "stage1 mlx4_0")

    found = PortHistory(lambda port: port.node.guid == 0x0002C903000A1020)
    taken = snapshots(subnet("two-switch"), move(4), silence, lambda net: net.silence(NAME, False), move(5), rename)
    places = [
        "'MF0;switch-a:IS5023/U1' 0x0002c90200401000 port 2",
        "'Infiniscale-IV Mellanox Technologies' 0x0002c90200401040 port 4",
        "'Infiniscale-IV Mellanox Technologies' 0x0002c90200401040 port 5",
    ]
    assert told(taken, found) == [
        ("00", "01", "cable-moved", *places[:2]),
        ("03", "04", "cable-moved", *places[1:]),
        ("04", "05", "renamed", "node02 mlx4_0", "stage1 mlx4_0"),
    ]


def test_a_switch_with_another_name_is_no_other_place_and_a_partition_has_no_places() -> None:
    def rename(net: Subnet) -> None:
        net.set_description(between_switches(net).node, "spine 1")

    assert told(snapshots(subnet("two-switch"), rename)) == []
    assert told(snapshots(subnet("two-switch"), move(4)), PortHistory(is_node02, 0x7FFF)) == []


def test_of_two_nodes_with_one_guid_nobody_moved() -> None:
    def twin(net: Subnet) -> None:
        first, second = net.node(NAME), net.node("node05 mlx4_0")
        replace_hca(second, step=first.guid - second.guid)

    found = PortHistory(lambda port: port.node.guid == 0x0002C903000A1020)
    events = told(snapshots(subnet("two-switch"), twin, move(4)), found)
    assert {kind for _, _, kind, _, _ in events} == {"appeared"}

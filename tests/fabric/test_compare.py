"""What changed between two snapshots, and what cannot be said."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.fabric.compare import Comparison, compare, table_changes
from ibkeys.fabric.snapshot import Snapshot, take_snapshot
from ibkeys.keys.fingerprint import Fingerprints
from ibkeys.keys.pkey import PKey
from ibkeys.reach.difference import compare_reach
from ibkeys.sim.subnet import Subnet
from ibkeys.topology.model import Trouble
from ibkeys.topology.nodes import Node, Port
from tests.dumps.bringing import bring
from tests.fabricsim import move_cable, replace_hca, subnet, swap_cables, tool

KEY, OTHER = 0x1A2B3C4D5E6F7081, 0x0BADC0FFEE0DDF00
SECRET = Fingerprints.generate()
PORT = Port(Node(bytes(64), ()), 1)

Tables = tuple[dict[int, int], dict[int, int]]


def kinds(before: dict[int, int], after: dict[int, int]) -> list[tuple[object, ...]]:
    old, new = (sorted((index, PKey(key)) for index, key in table.items()) for table in (before, after))
    return [(each.kind, each.before, each.after) for each in table_changes(PORT, old, new)]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({0: 0xFFFF}, {0: 0xFFFF, 3: 0x8001}, [("pkey-added", None, "0x8001")]),
        ({0: 0xFFFF, 3: 0x8001}, {0: 0xFFFF}, [("pkey-removed", "0x8001", None)]),
        ({0: 0xFFFF, 1: 0x8001}, {0: 0xFFFF, 2: 0x8001}, [("pkey-moved", 1, 2)]),
        ({0: 0x7FFF}, {0: 0xFFFF}, [("membership", "0x7fff", "0xffff")]),
        ({1: 0x0001}, {2: 0x8001}, [("membership", "0x0001", "0x8001"), ("pkey-moved", 1, 2)]),
        ({0: 0x8001, 1: 0x8002}, {0: 0x8002, 1: 0x8001}, [("pkey-moved", 0, 1), ("pkey-moved", 1, 0)]),
        # one of two forms goes, the other stays where it is
        ({1: 0x0001, 2: 0x8001}, {2: 0x8001}, [("pkey-removed", "0x0001", None)]),
        ({1: 0x8001, 2: 0x8001}, {1: 0x8001}, [("pkey-removed", "0x8001", None)]),
        # the limited one moved as it is: nothing was lowered
        ({1: 0x8001, 2: 0x0001}, {7: 0x0001}, [("pkey-moved", 2, 7), ("pkey-removed", "0x8001", None)]),
        ({5: 0x8005}, {5: 0x8006}, [("pkey-removed", "0x8005", None), ("pkey-added", None, "0x8006")]),
    ],
)
def test_changes_of_a_table(before: dict[int, int], after: dict[int, int], expected: list[tuple[object, ...]]) -> None:
    assert kinds(before, after) == expected


def test_each_change_of_a_table_names_its_p_key() -> None:
    """A script that selects by ``pkey`` finds the ports that joined and left, too."""
    old, new = ([(0, PKey(0x7FFF)), (1, PKey(0x8001)), (2, PKey(0x8002))], [(0, PKey(0xFFFF)), (3, PKey(0x8002))])
    new.append((4, PKey(0x8003)))
    found = {each.kind: each.to_json()["pkey"] for each in table_changes(PORT, old, new)}
    assert found == {
        "membership": "0xffff",
        "pkey-removed": "0x8001",
        "pkey-moved": "0x8002",
        "pkey-added": "0x8003",
    }


KEYS = st.sampled_from([0xFFFF, 0x7FFF, 0x8001, 0x0001, 0x8002])


@given(st.dictionaries(st.integers(0, 7), KEYS), st.dictionaries(st.integers(0, 7), KEYS))
def test_the_changes_account_for_every_entry(before: dict[int, int], after: dict[int, int]) -> None:
    found = kinds(before, after)
    assert (before == after) == (not found)
    added = sum(kind == "pkey-added" for kind, *_ in found)
    removed = sum(kind == "pkey-removed" for kind, *_ in found)
    assert len(after) - len(before) == added - removed


def snapshot(net: Subnet, fingerprints: Fingerprints = SECRET, **options: object) -> Snapshot:
    with tool(net, **options) as fabric:
        return take_snapshot(fabric, fingerprints)


def changed(change: Callable[[Subnet], object]) -> Comparison:
    net = subnet("two-switch")
    before = snapshot(net)
    change(net)
    return compare(before, snapshot(net))


def words(found: Comparison) -> list[tuple[object, ...]]:
    return [(each.port.node.description, each.kind, each.before, each.after) for each in found.changes]


def test_nothing_changed() -> None:
    found = changed(lambda net: None)
    assert not found.differs
    assert not found.unknown


def test_m_key_state_protection_and_lease() -> None:
    def protect(net: Subnet) -> None:
        port = net.port("node02 mlx4_0", 1)
        port.m_key, port.protect_bits, port.lease_period = KEY, 0, 60

    assert words(changed(protect)) == [
        ("node02 mlx4_0", "m_key", "zero", "set"),
        ("node02 mlx4_0", "m_key_lease_period", 0, 60),
    ]


def with_key(key: int, fingerprints: Fingerprints = SECRET) -> Snapshot:
    net = subnet("two-switch")
    net.port("node02 mlx4_0", 1).m_key = key
    return snapshot(net, fingerprints)


def test_another_key_is_a_change_and_the_key_is_not_shown() -> None:
    found = compare(with_key(KEY), with_key(OTHER))
    assert words(found) == [("node02 mlx4_0", "m_key", "set", "another key")]
    assert not compare(with_key(KEY), with_key(KEY)).differs
    for key in (KEY, OTHER):
        assert f"{key:x}" not in str([each.to_json() for each in found.changes])


def test_a_counter_carries_its_delta() -> None:
    found = changed(lambda net: setattr(net.port("node02 mlx4_0", 1), "p_key_violations", 7))
    [change] = found.changes
    assert change.to_json()["delta"] == 7
    assert change.field == "p_key_violations"


def test_enforcement_of_a_switch_port() -> None:
    def enforce(net: Subnet) -> None:
        leaf = net.port("node02 mlx4_0", 1).peer
        assert leaf is not None
        leaf.inbound_enforcement = 1

    [change] = changed(enforce).changes
    assert (change.kind, change.field, change.before, change.after) == (
        "enforcement",
        "partition_enforcement_inbound",
        0,
        1,
    )


def test_a_node_that_went_is_gone_with_its_link() -> None:
    found = changed(lambda net: net.unplug("node05 mlx4_0", 1))
    assert [node.description for node in found.nodes_removed] == ["node05 mlx4_0"]
    assert len(found.links_removed) == 1
    assert not found.nodes_added
    assert {each.kind for each in found.changes} <= {"counter"}


def test_what_was_not_read_is_unknown_and_no_change() -> None:
    net = subnet("two-switch")
    before = snapshot(net)
    net.port("node02 mlx4_0", 1).p_keys = [0x8001]
    net.faults.lose_next("reply", node=net.node("node02 mlx4_0"), attribute=0x16, count=100)
    found = compare(before, snapshot(net))
    assert not found.changes
    assert [(each.port.node.description, each.what, each.why) for each in found.unknown] == [
        ("node02 mlx4_0", "P_KeyTable", "it was not read in the second snapshot")
    ]


def test_a_hidden_key_is_no_change_and_is_named() -> None:
    """A zero at level 1 proves nothing: the same key with and without the key sent reads as set and as hidden."""
    net = subnet("two-switch")
    port = net.port("node02 mlx4_0", 1)
    port.m_key, port.protect_bits = KEY, 1
    without, with_it = snapshot(net), snapshot(net, m_key=KEY)
    for pair in ((without, with_it), (with_it, without), (without, without)):
        found = compare(*pair)
        assert not found.differs
        assert [port.node.description for port in found.keys_hidden] == ["node02 mlx4_0"]
    assert not compare(with_it, with_it).keys_hidden


def test_a_key_that_a_file_does_not_have_is_unknown_and_no_change() -> None:
    """smpquery portinfo without -K has all of PortInfo but the M_Key."""
    without, with_it = (bring("ibnetdiscover.txt", file) for file in ("portinfo.txt", "portinfo-keyed.txt"))
    for pair, where in [
        ((without, with_it), "the first snapshot"),
        ((with_it, without), "the second snapshot"),
        ((without, without), "either snapshot"),
    ]:
        found = compare(*pair)
        assert not found.differs
        assert not found.keys_hidden
        of_keys = [(each.port.lid, each.why) for each in found.unknown if each.what == "M_Key"]
        assert of_keys == [(2, f"it was not read in {where}")]


def unknown(found: Comparison) -> list[tuple[str | None, str]]:
    return [(each.port.node.description, each.what) for each in found.unknown]


def test_a_node_that_does_not_answer_is_unknown_and_did_not_go() -> None:
    net = subnet("two-switch")
    whole = snapshot(net)
    net.silence("node05 mlx4_0")
    part = snapshot(net, timeout=0.01, retries=0)
    for found, which in ((compare(whole, part), "second"), (compare(part, whole), "first")):
        assert not found.differs
        assert unknown(found) == [("node05 mlx4_0", "the node")]
        assert f"nothing answered there in the {which} snapshot" in found.unknown[0].why


def test_what_is_behind_a_switch_that_does_not_answer_is_unknown() -> None:
    net = subnet("two-switch")
    whole = snapshot(net)
    switch = next(node for node in net.nodes if node.is_switch and node.description.startswith("Infiniscale"))
    net.silence(switch)
    found = compare(whole, snapshot(net, timeout=0.01, retries=0))
    assert not found.differs
    assert {name for name, what in unknown(found) if what == "the node"} == {
        switch.description,
        "node04 mlx4_0",
        "node05 mlx4_0",
        "node06 mlx4_0",
    }


def test_what_is_behind_a_port_whose_port_info_was_not_read_is_unknown() -> None:
    net = subnet("two-switch")
    whole = snapshot(net)
    leaf = net.port("node05 mlx4_0", 1).peer
    assert leaf is not None
    part = snapshot(net)
    port = next(port for port in part.fabric.ports() if (port.node.guid, port.num) == (leaf.node.guid, leaf.number))
    assert port.peer is not None
    part.fabric.nodes.remove(port.peer.node)
    port.info = port.peer = None
    part.fabric.troubles.append(Trouble(port, "silence", "PortInfo", "silent"))
    found = compare(whole, part)
    assert not found.differs
    assert ("node05 mlx4_0", "the node") in unknown(found)


def test_a_node_that_went_beside_one_that_is_silent_is_gone() -> None:
    net = subnet("two-switch")
    before = snapshot(net)
    net.silence("node05 mlx4_0")
    net.unplug("node06 mlx4_0", 1)
    found = compare(before, snapshot(net, timeout=0.01, retries=0))
    assert [node.description for node in found.nodes_removed] == ["node06 mlx4_0"]
    assert unknown(found) == [("node05 mlx4_0", "the node")]


def test_the_reach_of_a_node_that_does_not_answer_is_unknown() -> None:
    net = subnet("two-switch")
    whole = snapshot(net).fabric
    net.silence("node05 mlx4_0")
    part = snapshot(net, timeout=0.01, retries=0).fabric
    for pair in ((whole, part), (part, whole)):
        found = compare_reach(*pair)
        assert not found.changes
        assert [port.node.description for port in found.unread] == ["node05 mlx4_0"]
        assert (found.differs, found.went, found.came) == (False, [], [])


def test_nodes_with_one_guid_keep_their_places_whichever_answers_first() -> None:
    net = subnet("two-switch")
    twins = [net.node("node02 mlx4_0"), net.node("node03 mlx4_0")]
    for number, node in enumerate(twins):
        node.guid = node.ports[1].guid = 0x99
        node.ports[1].p_keys = [0x8001 + number]
    before = snapshot(net)
    net.faults.lose_next("reply", node=twins[0], attribute=0x11, count=1)
    found = compare(before, snapshot(net, timeout=0.01))
    assert not found.differs
    assert not found.unknown


# --- what moved ------------------------------------------------------------------------------------------------------


def moved(found: Comparison) -> list[str]:
    return [each.kind for each in found.moves.moved]


def test_nodes_and_links_are_kept_and_what_moved_explains_them() -> None:
    def change(net: Subnet) -> None:
        swap_cables(net.port("node02 mlx4_0", 1), net.port("node04 mlx4_0", 1), net)
        replace_hca(net.node("node05 mlx4_0"))
        net.unplug("node06 mlx4_0", 1)

    found = changed(change)
    assert moved(found) == ["swapped", "hca-replaced"]
    assert [len(links) for links in (found.links_added, found.links_removed)] == [3, 4]
    assert all(found.moves.explains(ends) for ends in found.links_added)
    (left,) = (ends for ends in found.links_removed if not found.moves.explains(ends))
    assert "node06 mlx4_0" in {port.node.description for port in left}
    names = {node.description for node in found.nodes_removed}
    assert names == {"node05 mlx4_0", "node06 mlx4_0"}
    assert {node.description for node in found.nodes_removed if node not in found.moves.nodes} == {"node06 mlx4_0"}


def test_a_changed_node_description_is_a_difference() -> None:
    found = changed(lambda net: net.set_description("node02 mlx4_0", "stage1 mlx4_0"))
    assert found.differs
    assert moved(found) == ["renamed"]
    assert not found.links_added + found.links_removed
    assert not found.changes


def test_a_link_whose_end_is_linked_elsewhere_is_gone_whoever_is_silent_at_the_other() -> None:
    net = subnet("two-switch")
    before = snapshot(net)
    old, free = net.port("node04 mlx4_0", 1).peer, net.port("MF0;switch-a:IS5023/U1", 6)
    assert old is not None
    move_cable(net.port("node04 mlx4_0", 1), free, net)
    move_cable(net.port("node05 mlx4_0", 1), old, net)
    net.silence("node05 mlx4_0")
    found = compare(before, snapshot(net, timeout=0.01, retries=0))
    assert moved(found) == ["cable-moved"]
    assert [what for _, what in unknown(found)] == ["whether its cable moved"]

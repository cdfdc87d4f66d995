"""What moved between two sweeps of a simulated fabric: exactly what was done to it, and nothing that is guessed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.mad.attributes import NodeDescription
from ibkeys.sim.nodes import SimNode, SimPort
from ibkeys.sim.subnet import Subnet
from ibkeys.topology.model import Topology, Trouble
from ibkeys.topology.moves import Moves, move_in_words
from ibkeys.topology.recabling import what_moved
from tests.fabricsim import move_cable, replace_hca, subnet, swap_cables, tool
from tests.fattree import fat_tree

TREE = fat_tree(2, 3, 1, pods=2, cores=1, radix=12)
FABRICS: list[Callable[[], Subnet]] = [
    lambda: subnet("two-switch"),
    lambda: subnet("dual-home"),
    lambda: Subnet.from_text(TREE),
]
NAMES = st.one_of(st.just("new name"), st.text(max_size=16), st.sampled_from(["\x1b[31mred", "a\u202eb", "'", "\n"]))


def swept(net: Subnet, **options: Any) -> Topology:
    with tool(net, **options) as fabric:
        return fabric.sweep()


def cabled(net: Subnet) -> list[SimPort]:
    """Return the CA and router ports with a cable to a switch."""
    ports = (port for node in net.nodes if not node.is_switch for port in node.end_ports)
    return [port for port in ports if port.peer is not None and port.peer.node.is_switch]


def free_places(net: Subnet) -> list[SimPort]:
    return [port for node in net.nodes if node.is_switch for port in node.ports[1:] if port.peer is None]


def place(port: SimPort) -> tuple[int, int]:
    assert port.peer is not None
    return port.peer.node.guid, port.peer.number


def said(moves: Moves) -> set[tuple[object, ...]]:
    """Return what the moves say, as GUIDs and numbers: as `Deeds` keeps what was done."""
    found: set[tuple[object, ...]] = set()
    for each in moves.moved:
        document = each.to_json()
        where = [int(document["node_guid"], 16), document["port"]]
        if each.kind == "renamed":
            found.add((each.kind, where[0], document["before"], document["after"]))
        elif each.kind == "hca-replaced":
            places = frozenset((int(one["node_guid"], 16), one["port"]) for one in document["places"])
            guids = int(document["before"]["node_guid"], 16), int(document["after"]["node_guid"], 16)
            found.add((each.kind, *guids, places, document["same_name"]))
        else:
            ends = [(int(document[end]["node_guid"], 16), document[end]["port"]) for end in ("before", "after")]
            if each.kind == "swapped":
                other = (int(document["with"]["node_guid"], 16), document["with"]["port"])
                found.add((each.kind, frozenset({(tuple(where), ends[1]), (other, ends[0])})))
            else:
                found.add((each.kind, tuple(where), *ends))
    return found


class Deeds:
    """Does things to a subnet, no node twice, and keeps what was done as `said` has it."""

    def __init__(self, net: Subnet, draw: st.DataObject) -> None:
        self.net, self.draw = net, draw
        self.done: set[tuple[object, ...]] = set()
        self.removed: set[int] = set()
        self.untouched = [node for node in net.nodes if not node.is_switch and node is not net.nodes[0]]

    def port(self) -> SimPort | None:
        ports = [port for port in cabled(self.net) if port.node in self.untouched]
        if not ports:
            return None
        port = self.draw.draw(st.sampled_from(ports))
        self.untouched.remove(port.node)
        return port

    def move(self) -> None:
        port, places = self.port(), free_places(self.net)
        if port is not None and places:
            before = place(port)
            move_cable(port, self.draw.draw(st.sampled_from(places)), self.net)
            if place(port) != before:
                self.done.add(("cable-moved", (port.node.guid, port.number), before, place(port)))

    def swap(self) -> None:
        one, other = self.port(), self.port()
        if one is not None and other is not None:
            swap_cables(one, other, self.net)
            ends = {((port.node.guid, port.number), place(port)) for port in (one, other)}
            self.done.add(("swapped", frozenset(ends)))

    def replace(self) -> None:
        port = self.port()
        if port is not None:
            node, guid, name = port.node, port.node.guid, port.node.description
            replace_hca(node, self.draw.draw(st.sampled_from([None, "another card"])))
            places = frozenset(place(each) for each in node.end_ports if each.peer is not None)
            self.done.add(("hca-replaced", guid, node.guid, places, node.description == name))

    def rename(self) -> None:
        node: SimNode = self.draw.draw(st.sampled_from(self.untouched or [self.net.nodes[0]]))
        if node in self.untouched:
            self.untouched.remove(node)
            before, raw = shown(node), self.draw.draw(NAMES).encode("utf-8", "surrogatepass")[:64]
            changed = raw.partition(b"\0")[0] != node.description_bytes.partition(b"\0")[0]
            node.description_bytes = raw
            if changed:
                self.done.add(("renamed", node.guid, before, shown(node)))

    def remove(self) -> None:
        port = self.port()
        if port is not None:
            self.removed.add(port.node.guid)
            for each in list(port.node.end_ports):
                self.net.unplug(port.node, each.number)


def shown(node: SimNode) -> str:
    """Return a NodeDescription as the codec shows it."""
    return NodeDescription(node.description_bytes.ljust(64, b"\0")).node_description


@given(st.sampled_from(FABRICS), st.lists(st.sampled_from(["move", "swap", "replace", "rename", "remove"])), st.data())
def test_the_moves_are_exactly_what_was_done(make: Callable[[], Subnet], verbs: list[str], data: st.DataObject) -> None:
    net = make()
    before = swept(net)
    deeds = Deeds(net, data)
    for verb in verbs:
        getattr(deeds, verb)()
    after = swept(net)
    moves = what_moved(before, after)
    assert said(moves) == deeds.done
    assert len(moves.moved) == len(deeds.done)
    assert not moves.unknown
    gone = {node.guid for node in before.nodes} - {node.guid for node in after.nodes}
    assert gone - {node.guid for node in moves.nodes} == deeds.removed
    for each in moves.moved:
        assert str(each).isprintable()
    assert not what_moved(after, after).moved
    assert len(what_moved(after, before).moved) == len(deeds.done)


def changed(net: Subnet, change: Callable[[Subnet], object], **options: Any) -> Moves:
    before = swept(net)
    change(net)
    return what_moved(before, swept(net, **options))


def test_each_is_one_line() -> None:
    def change(net: Subnet) -> None:
        move_cable(net.port("db04 mlx5_0", 2), free_places(net)[0], net)
        swap_cables(net.port("db02 mlx5_0", 1), net.port("db03 mlx5_0", 1), net)
        replace_hca(net.node("db01 mlx5_0"))
        net.set_description("backup01 mlx5_0", "backup02 mlx5_0")

    moves = changed(subnet("dual-home"), change)
    assert [move_in_words(each.to_json()) for each in moves.moved] == [
        "swapped: db02 mlx5_0 port 1 (now at MF0;ib-a:SB7780/U1 port 3) and db03 mlx5_0 port 1 (now at "
        "MF0;ib-a:SB7780/U1 port 2)",
        f"cable moved: db04 mlx5_0 port 2: MF0;ib-b:SB7780/U1 port 4 -> MF0;ib-a:SB7780/U1 port {first_free()}",
        "HCA replaced: 'db01 mlx5_0', the name is the same, 0x248a070300b10100 -> 0x248a070300b15100 at "
        "MF0;ib-a:SB7780/U1 port 1, MF0;ib-b:SB7780/U1 port 1",
        "renamed: 'backup01 mlx5_0' -> 'backup02 mlx5_0' (ca 0x248a070300b30000)",
    ]


def first_free() -> int:
    return free_places(subnet("dual-home"))[0].number


def test_nodes_with_one_name_are_told_apart_by_their_guids() -> None:
    net = subnet("two-switch")
    for node in net.nodes:
        node.description_bytes = b"MT4099"
    ports = net.port(0x0002C903000A1020, 1), net.port(0x0002C903000A1040, 1)
    (each,) = changed(net, lambda net: swap_cables(*ports, net)).moved
    assert move_in_words(each.to_json()) == (
        "swapped: MT4099 0x0002c903000a1020 port 1 (now at MT4099 0x0002c90200401040 port 1) and "
        "MT4099 0x0002c903000a1040 port 1 (now at MT4099 0x0002c90200401000 port 2)"
    )


# --- what is no move -------------------------------------------------------------------------------------------------


def test_an_hca_with_other_ports_at_the_same_cable_is_not_the_same_hca() -> None:
    net = subnet("dual-home")
    before = swept(net)
    replace_hca(net.node("db01 mlx5_0"))
    after = swept(net)
    (node,) = (node for node in after.nodes if node.guid == net.node("db01 mlx5_0").guid)
    node.info = node.info[:3] + bytes([4]) + node.info[4:]
    moves = what_moved(before, after)
    assert not moves.moved
    assert not moves.unknown


def test_a_host_that_went_and_one_that_came_to_another_place_are_two() -> None:
    net = subnet("two-switch")
    node = net.node("node05 mlx4_0")

    def change(net: Subnet) -> None:
        replace_hca(node)
        move_cable(node.ports[1], free_places(net)[0], net)

    assert changed(net, change) == Moves()


def test_a_name_of_a_node_name_map_is_no_new_name() -> None:
    net = subnet("two-switch")
    before, after = swept(net), swept(net)
    after.nodes[1].description = "a name of the user's own"
    assert not what_moved(before, after).moved


def test_what_stands_behind_the_end_of_a_name_is_no_new_name() -> None:
    def change(net: Subnet) -> None:
        net.node("node02 mlx4_0").description_bytes = b"node02 mlx4_0\0left over"

    assert changed(subnet("two-switch"), change) == Moves()


# --- what cannot be told ---------------------------------------------------------------------------------------------


def words(moves: Moves) -> list[tuple[str | None, str, str]]:
    return [(each.port.node.description, each.what, each.why) for each in moves.unknown]


def test_a_port_that_may_be_behind_one_that_does_not_answer_is_unknown() -> None:
    """node05 was moved and is silent; node06 was replaced, but node06 could be the one that is silent."""
    net = subnet("two-switch")
    before = swept(net)
    move_cable(net.port("node05 mlx4_0", 1), free_places(net)[0], net)
    replace_hca(net.node("node06 mlx4_0"), "node06 new")
    net.silence("node05 mlx4_0")
    after = swept(net, timeout=0.01, retries=0)
    for moves, which in ((what_moved(before, after), "second"), (what_moved(after, before), "first")):
        assert not moves.moved
        why = f"in the {which} snapshot it may be behind a port whose far end was not read"
        assert words(moves) == [(name, "whether its cable moved", why) for name in ("node05 mlx4_0", "node06 mlx4_0")]


def test_a_host_that_is_silent_at_its_own_place_does_not_hide_what_else_moved() -> None:
    net = subnet("two-switch")
    net.silence("node05 mlx4_0")

    def change(net: Subnet) -> None:
        replace_hca(net.node("node06 mlx4_0"))
        move_cable(net.port("node04 mlx4_0", 1), free_places(net)[0], net)

    whole = subnet("two-switch")
    before = swept(whole)
    change(net)
    moves = what_moved(before, swept(net, timeout=0.01, retries=0))
    assert {each.kind for each in moves.moved} == {"hca-replaced", "cable-moved"}
    assert not moves.unknown


def test_a_host_that_never_answers_hides_nothing() -> None:
    def change(net: Subnet) -> None:
        replace_hca(net.node("node06 mlx4_0"))

    net = subnet("two-switch")
    net.silence("node05 mlx4_0")
    before = swept(net, timeout=0.01, retries=0)
    change(net)
    moves = what_moved(before, swept(net, timeout=0.01, retries=0))
    assert [each.kind for each in moves.moved] == ["hca-replaced"]
    assert not moves.unknown


def test_behind_a_switch_that_stopped_to_answer_a_host_may_be_that_went() -> None:
    net = subnet("two-switch")
    before = swept(net)
    replace_hca(net.node("node02 mlx4_0"))
    net.silence("Infiniscale-IV Mellanox Technologies")
    moves = what_moved(before, swept(net, timeout=0.01, retries=0))
    assert not moves.moved
    assert [(name, what) for name, what, _ in words(moves)] == [("node02 mlx4_0", "whether its cable moved")]


def test_a_host_that_was_seen_elsewhere_moved_whoever_is_silent_at_its_old_place() -> None:
    def change(net: Subnet) -> None:
        old = net.port("node04 mlx4_0", 1).peer
        assert old is not None
        move_cable(net.port("node04 mlx4_0", 1), free_places(net)[0], net)
        move_cable(net.port("node05 mlx4_0", 1), old, net)
        net.silence("node05 mlx4_0")

    moves = changed(subnet("two-switch"), change, timeout=0.01, retries=0)
    assert [each.kind for each in moves.moved] == ["cable-moved"]
    assert [(name, what) for name, what, _ in words(moves)] == [("node05 mlx4_0", "whether its cable moved")]


def test_of_nodes_with_one_guid_nobody_can_say_which_moved() -> None:
    net = subnet("two-switch")
    twins = [net.node("node02 mlx4_0"), net.node("node03 mlx4_0")]
    for node in twins:
        node.guid = node.ports[1].guid = 0x99
    assert changed(net, lambda net: None) == Moves()
    moves = changed(net, lambda net: move_cable(twins[0].ports[1], free_places(net)[0], net))
    assert not moves.moved
    assert [what for _, what, _ in words(moves)] == ["whether its cable moved"]


def test_two_nodes_at_the_places_of_one_are_unknown() -> None:
    """db01 went; one of its cables leads to one new HCA, the other to another."""
    net = subnet("dual-home")
    before = swept(net)
    db01, db02 = net.node("db01 mlx5_0"), net.node("db02 mlx5_0")
    other = db01.ports[2].peer
    assert other is not None
    net.unplug(db01, 2)
    net.unplug(db02, 1)
    replace_hca(db01, "new a")
    replace_hca(db02, "new b")
    move_cable(db02.ports[2], other, net)
    after = swept(net)
    for moves, names in ((what_moved(before, after), ["db01 mlx5_0"]), (what_moved(after, before), ["new a", "new b"])):
        assert not moves.moved
        assert [(name, what) for name, what, _ in words(moves)] == [(name, "whether it was replaced") for name in names]


@pytest.mark.parametrize("which", ["first", "second"])
def test_a_name_that_was_not_read_is_unknown(which: str) -> None:
    net = subnet("two-switch")
    sweeps = [swept(net), swept(net)]
    broken = sweeps[0 if which == "first" else 1]
    broken.nodes[1].description = broken.nodes[1].description_raw = None
    broken.troubles.append(Trouble(broken.nodes[1].port(0), "silence", "NodeDescription", "silent"))
    moves = what_moved(*sweeps)
    assert not moves.moved
    assert [each[1:] for each in words(moves)] == [("NodeDescription", f"it was not read in the {which} snapshot")]

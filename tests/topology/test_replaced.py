"""Replaced adapters: which ports take over from which, what is refused, and what the user is asked about."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ibkeys.apply.by_sm.changed_together import Places
from ibkeys.audit.waiver_guids import with_other_guids as waivers_with
from ibkeys.discovery.wanted import EVERYTHING
from ibkeys.errors import AddressError, Refused, UsageError
from ibkeys.keys.mkey import MKey
from ibkeys.mad.attributes import PortInfo
from ibkeys.partitions.editing.changes import KnownPorts
from ibkeys.partitions.editing.replacing import replace_guids
from ibkeys.partitions.membership import end_ports_of, resolve
from ibkeys.partitions.reader import parse_policy
from ibkeys.sim.nodes import SimNode
from ibkeys.sim.subnet import Subnet
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.topology.model import Topology
from ibkeys.topology.names.node_names import with_other_guids as names_with
from ibkeys.topology.nodes import LinkEnd, Port
from ibkeys.topology.replaced import (
    FormerNode,
    PortInStore,
    ReplacedNode,
    find_new,
    former_in_snapshot,
    former_in_store,
    likely_pairs,
    new_ports,
    pair_of_move,
    replace_by,
)
from tests import corpus
from tests.fabricsim import move_cable, replace_hca, set_p_key_capacity, subnet, tool, virtualize
from tests.sample import sampled

OLD, NEW = 0x2C903000A1021, 0x2C903000A6021
SAMPLE = re.compile("dual-home|psmn|two-switch|ring")
FABRICS = {corpus.label(file): file for file in corpus.files("fabrics/*.net")}


def swept(net: Subnet) -> Topology:
    with tool(net) as fabric:
        return fabric.sweep(wanted=EVERYTHING)


def node(net: Subnet, name: str = "node02 mlx4_0") -> SimNode:
    return next(each for each in net.nodes if each.description == name)


def replaced(
    change: Callable[[Subnet], object] = lambda net: replace_hca(node(net)),
    fabric: str = "two-switch",
    old: str = "node02 mlx4_0",
    new: str | None = None,
) -> ReplacedNode:
    """Return the replacement on a fabric that *change* changes between two sweeps."""
    net = subnet(fabric)
    before = swept(net)
    change(net)
    now = swept(net)
    former = former_in_snapshot(before, old)
    return replace_by(former, find_new(former, now, before) if new is None else new_ports(now, new), now, before)


@pytest.mark.parametrize("old", ["node02 mlx4_0", "node02", hex(OLD), hex(OLD - 1), "0002:c903:000a:1021", "2"])
def test_the_new_node_with_the_same_name_at_the_same_place_takes_over(old: str) -> None:
    found = replaced(old=old)
    assert (found.port_guids, found.guids) == ({OLD: NEW}, {OLD: NEW, OLD - 1: NEW - 1})
    assert (found.left, found.doubts) == ((), ())
    assert str(found) == "node02 mlx4_0 (0x0002c903000a1020) -> node02 mlx4_0 (0x0002c903000a6020)"


def test_a_former_node_that_answers_is_not_replaced() -> None:
    with pytest.raises(Refused, match="'node02 mlx4_0' 0x0002c903000a1020 port 1 answers with its GUID") as caught:
        replaced(lambda net: None, new="node03")
    assert caught.value.interlock == "old-answers"


def test_a_stranger_with_the_former_guid_is_named_and_nobody_takes_over() -> None:
    def change(net: Subnet) -> None:
        replace_hca(node(net))
        node(net, "node05 mlx4_0").ports[1].guid = OLD

    with pytest.raises(Refused, match="'node05 mlx4_0' 0x0002c903000a1050 port 1 answers with its GUID"):
        replaced(change)


def test_a_stranger_that_takes_the_guid_of_a_port_that_is_off_is_no_new_port() -> None:
    """It stands at the place of a node that is gone, and has its name."""

    def change(net: Subnet) -> None:
        net.unplug("node05 mlx4_0", 1)
        stranger, owner = node(net), node(net, "node05 mlx4_0")
        stranger.guid, stranger.ports[1].guid = owner.guid, owner.ports[1].guid
        owner.guid, owner.ports[1].guid = 0x99, 0x9A

    net = subnet("two-switch")
    before = swept(net)
    change(net)
    now = swept(net)
    assert list(likely_pairs(before, now)) == []
    with pytest.raises(UsageError, match=r"no new node with its name is at the place of node02 mlx4_0"):
        replaced(change)
    [doubt] = [each for each in replaced(change, new="node02").doubts if "is not new" in each]
    assert doubt == (
        "0x0002c903000a1050 is not new: it was 'node05 mlx4_0' 0x0002c903000a1050 port 1 in the earlier snapshot"
    )


def test_a_guid_that_two_nodes_show_is_not_certain() -> None:
    def change(net: Subnet) -> None:
        replace_hca(node(net))
        node(net, "node05 mlx4_0").ports[1].guid = NEW

    with pytest.raises(UsageError, match=r"0x0002c903000a6021 is not certain: 'node05 mlx4_0' .* show it too"):
        replaced(change, new="node02")


def test_another_name_or_another_place_has_to_be_named() -> None:
    def renamed(net: Subnet) -> None:
        replace_hca(node(net), name="MT4119")

    with pytest.raises(UsageError, match=r"at its place is 0x0002c903000a6020 \(ca\).*, with another name: name the"):
        replaced(renamed)
    assert replaced(renamed, new="MT4119").port_guids == {OLD: NEW}

    def moved(net: Subnet) -> None:
        replace_hca(node(net))
        free = next(port for each in net.nodes if each.is_switch for port in each.ports[1:] if port.peer is None)
        move_cable(node(net).ports[1], free, net)

    with pytest.raises(UsageError, match="no new node with its name is at the place"):
        replaced(moved)
    [doubt] = replaced(moved, new="node02").doubts
    assert "is at another place than 0x0002c903000a1021 was: behind 'MF0;switch-a" in doubt


def test_a_place_that_does_not_answer_may_hide_the_former_node() -> None:
    def change(net: Subnet) -> None:
        net.silence("node02 mlx4_0")

    found = replaced(lambda net: (change(net), replace_hca(node(net, "node03 mlx4_0"))), new="node03")
    assert any("node02 mlx4_0 (0x0002c903000a1020) may still be there" in each for each in found.doubts)
    net = subnet("two-switch")
    change(net)
    replace_hca(node(net, "node03 mlx4_0"))
    now = swept(net)
    [doubt] = replace_by(FormerNode("", None, {1: OLD}), new_ports(now, "node03"), now).doubts
    assert doubt.endswith("may still be there: 1 node behind a link did not answer")


def test_virtual_ports_and_alias_guids_are_asked_about() -> None:
    def virtual(net: Subnet) -> None:
        replace_hca(node(net))
        virtualize(net, "node02 mlx4_0")

    assert ["virtual ports" in each for each in replaced(virtual).doubts] == [True]

    def aliased(net: Subnet) -> None:
        replace_hca(node(net))
        port = node(net).ports[1]
        PortInfo.guid_cap.patch(port.info, 8)
        port.guids = {1: 0xABCDEF}
        port.touch()

    assert ["alias GUIDs" in each for each in replaced(aliased).doubts] == [True]


def test_a_former_guid_that_is_an_alias_now_is_still_there() -> None:
    def aliased(net: Subnet) -> None:
        replace_hca(node(net))
        port = node(net, "node05 mlx4_0").ports[1]
        PortInfo.guid_cap.patch(port.info, 8)
        port.guids = {1: OLD}
        port.touch()

    with pytest.raises(Refused, match="0x0002c903000a1021 is alias GUID 1 of 'node05 mlx4_0'"):
        replaced(aliased)


# --- ports ------------------------------------------------------------------------------------------------------------


def ports_of(net: Subnet, ports: int) -> SimNode:
    """Return the first CA of *ports* ports that the program is not on."""
    return next(each for each in net.nodes[1:] if not each.is_switch and each.num_ports == ports)


def test_two_ports_take_over_by_their_numbers_and_one_of_them_alone() -> None:
    net = subnet("dual-home")
    before = swept(net)
    two = ports_of(net, 2)
    old = [port.guid for port in two.end_ports]
    replace_hca(two)
    now, new = swept(net), [port.guid for port in two.end_ports]
    assert [pair_of_move(move, before, now).port_guids for move in likely_pairs(before, now)] == [
        dict(zip(old, new, strict=True))
    ]
    second = replace_by(former_in_snapshot(before, hex(old[1])), new_ports(now, hex(new[1])), now, before)
    assert second.port_guids == {old[1]: new[1]}
    by_number = replace_by(former_in_snapshot(before, hex(old[1])), new_ports(now, hex(two.guid)), now, before)
    assert by_number.port_guids == {old[1]: new[1]}
    with pytest.raises(UsageError, match=r"the key store has no node or port .*: name a port GUID of the policy, if"):
        replace_by(former_in_store(old[1], [], {}), new_ports(now, hex(two.guid)), now)


def test_fewer_ports_are_asked_about_and_the_rest_stays() -> None:
    former = FormerNode("node02 mlx4_0", OLD - 1, {1: OLD, 2: OLD + 1}, None, 2)
    net = subnet("two-switch")
    replace_hca(node(net))
    now = swept(net)
    found = replace_by(former, new_ports(now, "node02"), now)
    assert (found.port_guids, found.left) == ({OLD: NEW}, (OLD + 1,))
    assert found.doubts == (
        "node02 mlx4_0 (0x0002c903000a1020) had 2 ports, and the new node has 1",
        "no port takes over from 0x0002c903000a1022, which stay as they are",
    )
    with pytest.raises(UsageError, match="the new node has no port 2, 3: name one port GUID of each"):
        replace_by(FormerNode("x", None, {2: OLD, 3: OLD + 1}), new_ports(now, "node02"), now)


def test_a_switch_takes_over_by_its_node_guid_and_from_a_switch_only() -> None:
    def change(net: Subnet) -> None:
        switch = node(net, "MF0;switch-a:IS5023/U1")
        switch.guid = switch.ports[0].guid = 0x77
        switch.touch()

    found = replaced(change, old="MF0;switch-a:IS5023/U1", new="0x00000077")
    assert found.guids == {0x2C90200401000: 0x77}
    with pytest.raises(UsageError, match="was a ca, and 0x0002c90200401040 is a switch"):
        replaced(old="node02", new="0x2c90200401040")


def test_words_name_one_node() -> None:
    with pytest.raises(UsageError, match="names 6 nodes, and one adapter is replaced"):
        replaced(old="node0*")
    with pytest.raises(AddressError, match="nothing that was read has this name"):
        replaced(old="node77")


def test_the_key_store_knows_the_ports_of_a_former_node() -> None:
    stored = [PortInStore(11, 10, 1), PortInStore(12, 10, 2), PortInStore(21, 20, 1), PortInStore(33, None, None)]
    neighbors = {(11, 1): (7, 3), (7, 3): (11, 1), (21, 1): (7, 4)}
    assert former_in_store(10, stored, neighbors).ports == {1: 11, 2: 12}
    assert former_in_store(10, stored, neighbors).places == {11: (7, 3)}
    assert former_in_store(12, stored, neighbors) == FormerNode("0x000000000000000c", 10, {2: 12})
    assert former_in_store(33, stored, neighbors) == FormerNode("0x0000000000000021", None, {}, 33)


# --- many on the fabrics of the corpus --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sampled(FABRICS, list(filter(SAMPLE.search, FABRICS))))
def test_fifty_replaced_adapters_move_every_membership_and_nothing_else(name: str) -> None:
    """Others go and get other names meanwhile, some new adapters have smaller tables, and one host takes the GUIDs of
    another that is off."""
    net, chance = Subnet.from_file(FABRICS[name]), random.Random(1)
    before = swept(net)
    hosts = [each for each in net.nodes[1:] if not each.is_switch and any(port.peer for port in each.ports)]
    chance.shuffle(hosts)
    going, rest = hosts[: min(50, max(1, len(hosts) // 2))], hosts[min(50, max(1, len(hosts) // 2)) :]
    guids = [port.guid for port in before.end_ports()]
    policy = parse_policy(policy_of(guids, chance))
    names = "".join(f'0x{each.guid:016x} "{number}" # 0x{each.guid:x}\n' for number, each in enumerate(hosts))
    linked = {port.guid for port in before.end_ports()}
    want: dict[int, int] = {}
    want_nodes: dict[int, int] = {}
    for number, each in enumerate(going):
        former, ports = each.guid, [port.guid for port in each.end_ports]
        replace_hca(each, step=0x0000_0BEE_0000_0000)
        if number % 3 == 0:
            set_p_key_capacity(each, partition_cap=8)
        want |= {old: port.guid for old, port in zip(ports, each.end_ports, strict=True) if old in linked}
        want_nodes[former] = each.guid
    for number, each in enumerate(rest[:9]):
        if number % 3 == 0:
            each.description_bytes = b"renamed"
        elif number % 3 == 1:
            for port in each.ports:
                if port.peer is not None:
                    net.unplug(each, port.number)
    stolen = take_guids(net, *rest[-2:]) if len(rest) > 10 else {}
    now = swept(net)
    pairs = [pair_of_move(move, before, now) for move in likely_pairs(before, now)]
    named = {each.guid for each in going if each.description}
    assert {pair.former.guid: pair.new.guid for pair in pairs} == {
        old: new for old, new in want_nodes.items() if new in named
    }
    assert [doubt for pair in pairs for doubt in pair.doubts] == []
    found: dict[int, int] = {}
    all_guids: dict[int, int] = {}
    for pair in pairs:
        found |= pair.port_guids
        all_guids |= pair.guids
    owners = {port.guid for each in net.nodes if each.guid in named for port in each.end_ports}
    assert found == {old: new for old, new in want.items() if new in owners}
    assert not stolen.keys() & {*found, *all_guids}
    assert not {*stolen.values()} & {*found.values(), *all_guids.values()}
    after = replace_guids(policy, found, KnownPorts()).after
    assert memberships(after, now) == {
        guid: keys
        for guid, keys in ((found.get(guid, guid), keys) for guid, keys in memberships(policy, before).items())
        if guid in {port.guid for port in now.end_ports()}
    }
    new_names = names_with(names, all_guids)
    assert new_names == "".join(
        f'0x{all_guids.get(old, old):016x} "{number}" # 0x{old:x}\n'
        for number, old in enumerate(int(line[:18], 16) for line in names.splitlines())
    )
    assert_places_move(before, now, pairs)


def take_guids(net: Subnet, owner: SimNode, stranger: SimNode) -> dict[int, int]:
    """Let *stranger* take the GUIDs of *owner*, which is off; return its own GUID → that of the owner."""
    for port in owner.ports:
        if port.peer is not None:
            net.unplug(owner, port.number)
    taken = {stranger.guid: owner.guid}
    stranger.guid, owner.guid = owner.guid, stranger.guid
    for its, own in zip(stranger.end_ports, owner.end_ports, strict=False):
        taken[its.guid] = own.guid
        its.guid, own.guid = own.guid, its.guid
    return taken


def assert_places_move(before: Topology, now: Topology, pairs: list[ReplacedNode]) -> None:
    """Assert that each known place of a former port gets its new port, no other place changes, and all of it goes
    back."""
    linked = {(*min(ends), *max(ends)) for port in before.ports() if port.peer for ends in [_ends(port)]}
    guids = {former: port for pair in pairs for former, port in pair.pairs}
    with KeyStore(None) as store:
        store.put_links(linked)
        for guid in [*guids][::2]:
            store.put_imported(guid, MKey(guid))
        former = store.links()
        places = Places.of(store, [pair for each in pairs for pair in each.pairs], now)
        places.record(lambda: store)
        assert store.links() == {_moved(near, guids): _moved(far, guids) for near, far in former.items()}
        assert store.settled() == {*[*guids][::2]}
        places.restore(lambda: store)
        assert (store.links(), store.settled()) == (former, set())


def _ends(port: Port) -> tuple[LinkEnd, LinkEnd]:
    assert port.peer is not None
    return port.link_end, port.peer.link_end


def _moved(end: LinkEnd, guids: dict[int, Port]) -> LinkEnd:
    return guids[end[0]].link_end if end[0] in guids else end


def policy_of(guids: list[int], chance: random.Random) -> str:
    """Return a policy that names each of *guids* in some of four partitions."""
    lines = ["Default=0x7fff, ipoib : ALL=limited, SELF=full ;"]
    for number in range(1, 5):
        members = [guid for guid in guids if chance.random() < 0.5] or guids[:1]
        lines.append(f"p{number}=0x{number:x}{', indx0' if number == 3 else ''} :")
        lines += [f"  0x{guid:x}={chance.choice(['full', 'limited', 'both'])},  # {guid:x}" for guid in members]
        lines.append("  NONE ;")
    return "\n".join(lines) + "\n"


def memberships(policy: object, fabric: Topology) -> dict[int, frozenset[object]]:
    """Return the P_Keys of each CA port. The SM is one that is not there."""
    found = resolve(policy, end_ports_of(fabric.end_ports()), 1, True).by_port  # type: ignore[arg-type]
    return {port.guid: frozenset(found.get(port.guid, ())) for port in fabric.end_ports()}


WAIVERS = """\
# "0x0002c903000a1021" is in a comment
[[waiver]]
rule = "PK001"
ports = ["0x0002c903000a1021", "gateway*", "0x2C903000A1020/1", '0002:c903:000a:1021']
reason = "see 0x0002c903000a1021"
expires = 2027-01-31

[[waiver]]
rule = ["PK005"]
pairs = [["0x0002c903000a1021", "x*"],
         ["y", "0x0002c903000a1031"]]
reason = "b"  # ticket
expires = 2027-01-31
"""


def test_the_patterns_of_waivers_get_the_new_guids_and_every_other_byte_stays() -> None:
    guids = {OLD: NEW, OLD - 1: NEW - 1}
    expected = WAIVERS.replace('["0x0002c903000a1021', '["0x0002c903000a6021')
    expected = expected.replace("0x2C903000A1020/1", "0x2c903000a6020/1").replace(
        "0002:c903:000a:1021", "0x0002c903000a6021"
    )
    assert waivers_with(WAIVERS, guids, "w.toml") == expected
    assert waivers_with(WAIVERS, {5: 6}, "w.toml") == WAIVERS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[waiver]]\nreason = "0x0002c903000a1021"\n', "would change more than the ports of waivers"),
        ("[[waiver]\n", "w.toml: is not TOML"),
    ],
)
def test_waivers_that_cannot_be_edited_safely_are_left(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        waivers_with(text, {OLD: NEW}, "w.toml")


def test_a_name_map_keeps_the_line_of_a_new_guid(tmp_path: Path) -> None:
    text = '0x2c903000a1020 "two" # old\r\n# 0x2c903000a1020 "x"\n'
    assert names_with(text, {OLD - 1: NEW - 1}) == '0x2c903000a6020 "two" # old\r\n# 0x2c903000a1020 "x"\n'
    both = text + f'{NEW - 1:#x} "new"\n'
    assert names_with(both, {OLD - 1: NEW - 1}) == both

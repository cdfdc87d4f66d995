"""M_Keys from the SA: a host without the subnet manager's files reads a protected fabric; an SA that lies moves no key
that came from elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ibkeys
from ibkeys.client.sa import SaClient
from ibkeys.discovery.keyring import KeyRing
from ibkeys.errors import NoReply
from ibkeys.keys.mkey import MKey
from ibkeys.keys.smkey import SMKey
from ibkeys.mad.records import LinkRecord, PortInfoRecord, SaRecord
from ibkeys.mkeys.sa_keys import SaKeys, read_sa_keys
from ibkeys.sim.subnet import Subnet
from tests.client.sasim import SA_KEY, recorded, with_sm
from tests.corpus import files, label
from tests.fabricsim import tool

Lie = Callable[[type[SaRecord], list[Any]], list[Any]]
FOREIGN = MKey(0x5EC2E7)


class Lying:
    """An SA that gives what a test puts there, in the place of what the true one says."""

    sm_key = SMKey(SA_KEY)

    def __init__(self, true: SaClient, lie: Lie) -> None:
        self.true, self.lie = true, lie

    def get_table(self, record: type[SaRecord], **components: Any) -> list[Any]:
        return self.lie(record, self.true.get_table(record, **components))


def protect(net: Subnet, level: int = 2) -> dict[int, MKey]:
    """Give every end port with a link an M_Key of its own at *level*; return them by port GUID."""
    keys = {}
    for node in net.nodes:
        for port in node.ports[:1] if node.is_switch else (each for each in node.ports[1:] if each.peer):
            keys[port.guid] = MKey(0xA000_0000_0000_0000 + port.guid % 0xFFFF_FFFF)
            port.m_key, port.protect_bits = keys[port.guid], level
    return keys


def protected(name: str = "dual-home") -> tuple[Subnet, dict[int, MKey]]:
    """Return a subnet with an SA, all of whose ports are protected, and their keys."""
    net, _ = with_sm(name)
    return net, protect(net)


def keys_of(net: Subnet, lie: Lie = lambda _record, true: true) -> SaKeys:
    return read_sa_keys(cast(SaClient, Lying(tool(net).sa(SA_KEY), lie)))


def violations(net: Subnet) -> int:
    return sum(port.m_key_violations for node in net.nodes for port in node.ports)


def is_long(file: Path) -> bool:
    return file.stat().st_size > 100_000


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(file, id=label(file), marks=[pytest.mark.soak] if is_long(file) else [])
        for file in files("fabrics/*.net")
    ],
)
def test_a_protected_fabric_is_read_with_the_keys_of_its_sa(file: Path) -> None:
    net = Subnet.from_file(file)
    net.set_sm(net.nodes[0])
    net.sa_of(net.nodes[0]).sa_key = SA_KEY
    keys = protect(net)
    with ibkeys.open(net, keys=ibkeys.Keys(from_sa=ibkeys.SaAccess(SA_KEY))) as fabric:
        assert not fabric.warnings
        found = fabric.sweep(p_keys=True)
        assert not found.troubles
        assert {port.end_port.guid for port in found.ports() if port.p_key_raw} == set(keys)
        assert {guid: fabric.ring.key_of(guid) for guid in keys} == keys
    assert violations(net) == 0


def test_a_wrong_sm_key_is_silence_and_no_port_is_asked() -> None:
    net, _ = protected()
    port = recorded(net)
    with pytest.raises(NoReply, match="a wrong SM_Key"):
        ibkeys.open(port, keys=ibkeys.Keys(from_sa=ibkeys.SaAccess(0x666)), timing=ibkeys.Timing(0.1, 0))
    assert {each.mad[1] for each in port.sent} == {3}  # to the SA only
    assert violations(net) == 0


def test_an_untrusted_requester_is_told_that_no_key_came() -> None:
    net, _ = protected()
    with ibkeys.open(net, keys=ibkeys.Keys(from_sa=ibkeys.SaAccess(0))) as fabric:
        assert fabric.warnings == ["the SA shows no M_Key: it hides them from a requester without its SM_Key"]
        assert not fabric.ring.by_guid


def test_the_keys_stay_when_the_key_store_is_read_again(tmp_path: Path) -> None:
    net, keys = protected()
    with ibkeys.open(net, keys=ibkeys.Keys(from_sa=ibkeys.SaAccess(SA_KEY))) as fabric:
        of_sa = fabric.ring.from_sa
        fabric.reload_keys()
        assert {guid: fabric.ring.key_of(guid) for guid in keys} == keys
        assert of_sa
        assert fabric.ring.from_sa == of_sa
        assert not fabric.sweep().troubles


def test_what_the_ring_has_from_elsewhere_comes_first() -> None:
    net, keys = protected()
    guid = next(iter(keys))
    ring = KeyRing(by_guid={guid: FOREIGN}, lids={guid: 77})
    keys_of(net).add_to(ring)
    assert (ring.by_guid[guid], ring.lids[guid]) == (FOREIGN, 77)
    assert guid not in ring.levels


def test_a_zero_from_elsewhere_does_not_come_first() -> None:
    """Key 0 is what the key store has after mkey-remove; the subnet manager has set a key since."""
    net, keys = protected()
    guid = next(iter(keys))
    ring = KeyRing(by_guid={guid: MKey(0)}, levels={guid: 0}, confirmed=frozenset({guid}))
    keys_of(net).add_to(ring)
    assert (ring.by_guid[guid], ring.levels[guid]) == (keys[guid], 2)
    assert guid not in ring.confirmed


def test_records_that_contradict_each_other_are_not_believed() -> None:
    net, keys = protected()

    def twice(record: type[SaRecord], true: list[Any]) -> list[Any]:
        if record is PortInfoRecord:
            first = next(each for each in true if each.port_info.m_key and each.port_num)
            return [*true, PortInfoRecord(first.raw[:4] + first.port_info.replace(m_key=1).raw)]
        if record is LinkRecord:
            return [*true, true[0].replace(to_port=true[0].to_port + 1)]
        return true

    found = keys_of(net, twice)
    assert len(found.m_keys) == len(keys) - 1
    assert [line.rpartition(": ")[2] for line in found.warnings] == [
        "1 ports about which it contradicts itself",
        "1 link ends for which it names two links",
    ]


def test_a_link_said_in_one_direction_proves_no_place() -> None:
    net, _ = protected()
    one_way = keys_of(net, lambda record, true: true[1:] if record is LinkRecord else true)
    assert len(one_way.links) == len(keys_of(net).links) - 2


def test_an_sa_that_moves_a_port_gets_no_key_of_the_key_store_sent_there() -> None:
    """The key store has the key of node 1, and no place for it; the SA says that it is where node 2 is."""
    net, keys = protected("two-switch")
    victim, attacker = (net.port(f"node0{number} mlx4_0", 1) for number in (2, 3))
    lids = {victim.lid: attacker.lid, attacker.lid: victim.lid}

    def moved(record: type[SaRecord], true: list[Any]) -> list[Any]:
        if record is not LinkRecord:
            return [
                PortInfoRecord(each.raw[:4] + each.port_info.replace(m_key=1).raw)
                if record is PortInfoRecord and each.endport_lid == victim.lid
                else each
                for each in true
            ]
        return [
            each.replace(from_lid=lids.get(each.from_lid, each.from_lid), to_lid=lids.get(each.to_lid, each.to_lid))
            for each in true
        ]

    ring = KeyRing(by_guid={victim.guid: keys[victim.guid]})
    keys_of(net, moved).add_to(ring)
    assert not ring.is_placed(victim.guid)
    assert ring.by_guid[victim.guid] == keys[victim.guid]


def test_an_sa_that_knows_one_key_of_a_port_gets_no_other_one_sent_there() -> None:
    """The key store has two keys of a port, as after a change whose answer was lost; the SA knows the older one."""
    ring = KeyRing(by_guid={1: MKey(7)}, spares={1: (FOREIGN,)})
    links = {(1, 1): (2, 1), (2, 1): (1, 1)}
    SaKeys({1: MKey(7)}, {1: 2}, {}, links).add_to(ring)
    assert not ring.is_placed(1)


_GUIDS = st.integers(1, 5)
_ENDS = st.tuples(_GUIDS, st.integers(1, 3))
_LINKS = st.dictionaries(_ENDS, _ENDS, max_size=8)
_KEYS = st.dictionaries(_GUIDS, st.integers(1, 3).map(MKey), max_size=5)


@given(own=_KEYS, placed=_LINKS, of_sa=_KEYS, links=_LINKS)
def test_no_word_of_the_sa_moves_a_key_that_it_did_not_give(
    own: dict[int, MKey],
    placed: dict[tuple[int, int], tuple[int, int]],
    of_sa: dict[int, MKey],
    links: dict[tuple[int, int], tuple[int, int]],
) -> None:
    ring = KeyRing(by_guid=dict(own), neighbors=dict(placed))
    SaKeys(of_sa, dict.fromkeys(of_sa, 2), {}, links).add_to(ring)
    assert own.items() <= ring.by_guid.items()
    assert placed.items() <= ring.neighbors.items()
    for near, far in ring.neighbors.items() - placed.items():
        for guid, _ in (near, far):
            assert ring.by_guid.get(guid) == of_sa.get(guid)
    for near, far in {*links.items(), *((far, near) for near, far in links.items())} - placed.items():
        assert not ring.joins(near, far) or placed.get(far) == near, "it would place the key of a class there"


def test_no_key_is_in_what_it_shows_of_itself() -> None:
    net, keys = protected()
    shown = repr(keys_of(net)) + str(keys_of(net))
    assert not [key for key in keys.values() if f"{key.reveal():x}" in shown.lower() or str(key.reveal()) in shown]

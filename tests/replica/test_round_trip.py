"""A subnet, its snapshot, the replica made of it, and the snapshot of that: the two are the same."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.mad.attributes import PortInfo, SwitchInfo
from ibkeys.mad.classes.gmp import KEY_CLASSES
from ibkeys.mad.const import CapabilityMask
from ibkeys.replica.sources import read_subnet
from ibkeys.sim.agents import class_keys
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.subnet import Subnet
from tests.corpus import DATA, fabrics
from tests.fabricsim import set_p_key_capacity, subnet, virtualize
from tests.protectedsim import end_ports
from tests.replica.comparing import class_settings, contents, counted_errors, snapshot_of

KEYS = (0x1A2B3C4D5E6F7081, 0x0BADC0FFEE0DDF00, 0x7777)
_FREE_BITS = (CapabilityMask.IS_M_KEY_NVRAM, CapabilityMask.IS_P_KEY_NVRAM, CapabilityMask.IS_TRAP_SUPPORTED)
p_keys = st.lists(st.integers(0, 0xFFFF), max_size=40)


@pytest.mark.parametrize("file", fabrics())
def test_a_replica_of_a_snapshot_has_the_same_snapshot(file: Path, tmp_path: Path) -> None:
    net = Subnet.from_file(file)
    for number, port in enumerate(end_ports(net)):
        port.m_key, port.protect_bits, port.lease_period = KEYS[number % 3], 1 + number % 3, 60
        port.p_keys = [0xFFFF, 0x8001 + number % 7]
    before = snapshot_of(net, tmp_path / "before.db")
    replica = read_subnet(tmp_path / "before.db")
    after = snapshot_of(replica, tmp_path / "after.db")
    assert contents(after) == contents(before)
    assert len({port.m_key for port in end_ports(replica)}) <= 4  # three keys, and 0 where no link leads
    assert not {port.m_key for port in end_ports(replica)} & {*KEYS}


def test_a_loopback_plug_is_in_snapshot_and_replica(tmp_path: Path) -> None:
    plug = '[4]\t"S-0002c90200401000"[4]\t\t# "MF0;switch-a:IS5023/U1" lid 7 4xQDR\n[3]'
    text = (DATA / "fabrics" / "two-switch.net").read_text()
    switch = text.index('Switch\t8 "S-0002c90200401000"')
    (tmp_path / "loop.net").write_text(text[:switch] + text[switch:].replace("[3]", plug, 1))
    before = snapshot_of(Subnet.from_file(tmp_path / "loop.net"), tmp_path / "before.db")
    assert [port.num for port in before.fabric.ports() if port.peer is port] == [4]
    replica = read_subnet(tmp_path / "before.db")
    assert contents(snapshot_of(replica, tmp_path / "after.db")) == contents(before)


def change_end_port(draw: Any, port: SimPort) -> None:
    port.m_key = draw(st.sampled_from((0, *KEYS)))
    port.protect_bits, port.lease_period = draw(st.integers(0, 3)), draw(st.integers(0, 0xFFFF))
    port.m_key_violations, port.p_key_violations = draw(st.integers(0, 0xFFFF)), draw(st.integers(0, 0xFFFF))
    port.q_key_violations = draw(st.integers(0, 0xFFFF))
    port.p_keys = draw(p_keys)[: port.p_key_capacity]
    indexes = st.integers(1, max(1, PortInfo.guid_cap.decode(port.info) - 1))
    port.guids = draw(st.dictionaries(indexes, st.integers(1, 2**64 - 1), max_size=3)) or None
    port.capability_mask ^= draw(st.sampled_from(_FREE_BITS))
    port.gid_prefix, port.subnet_timeout = draw(st.integers(0, 2**64 - 1)), draw(st.integers(0, 31))
    if draw(st.booleans()):
        name = draw(st.sampled_from(("cc", "b")))
        settings = {"key": draw(st.sampled_from((0, *KEYS))), "lease_period": draw(st.integers(0, 0xFFFF))}
        class_keys.place(port, KEY_CLASSES[name], protect_bit=draw(st.integers(0, 1)), **settings)


def change_external_port(draw: Any, port: SimPort) -> None:
    port.inbound_enforcement, port.outbound_enforcement = draw(st.integers(0, 1)), draw(st.integers(0, 1))
    port.p_keys = draw(p_keys)[: port.p_key_capacity]
    for name in ("port_rcv_constraint_errors", "port_xmit_constraint_errors"):
        port.count(name, draw(st.integers(0, 300)))


@st.composite
def nets(draw: Any) -> tuple[Subnet, set[int]]:
    """Return a small subnet in any state, and the GUIDs of ports whose M_Key is not known to who reads it."""
    net = subnet(draw(st.sampled_from(("two-switch", "dual-home", "ring-router"))))
    hosts = [node for node in net.nodes if not node.is_switch]
    for node in draw(st.lists(st.sampled_from(net.nodes), max_size=4, unique_by=id)):
        node.description_bytes = draw(st.binary(max_size=64))
        set_p_key_capacity(node, draw(st.integers(1, 200)), draw(st.integers(0, 200)) if node.is_switch else None)
        if node.switch_info is not None:
            SwitchInfo.life_time_value.patch(node.switch_info, draw(st.integers(0, 31)))
        for port in node.end_ports:
            change_end_port(draw, port)
        for port in node.ports[1:] if node.is_switch else ():
            change_external_port(draw, port)
    if draw(st.booleans()):
        virtualize(net, draw(st.sampled_from([node.node_id for node in hosts])), draw(st.sampled_from((True, False))))
    if draw(st.booleans()):
        net.set_sm(draw(st.sampled_from(hosts)), priority=draw(st.integers(0, 15)))
    others = net.nodes[1:]
    for node in draw(st.lists(st.sampled_from(others), max_size=1)):
        node.silent = draw(st.integers(1, 2))
    cabled = [port for node in others for port in node.ports[1:] if port.peer is not None]
    for port in draw(st.lists(st.sampled_from(cabled), max_size=2, unique_by=id)):
        net.unplug(port.node, port.number)
    guids = sorted({port.guid for node in others for port in node.end_ports})
    return net, set(draw(st.lists(st.sampled_from(guids), max_size=3)))


@given(nets())
def test_a_replica_of_any_state_has_the_same_snapshot_but_for_what_it_names(made: tuple[Subnet, set[int]]) -> None:
    net, locked = made
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "before.db"
        before = snapshot_of(net, path, locked, class_keys=True)
        replica = read_subnet(path)
        after = snapshot_of(replica, Path(folder) / "after.db", class_keys=True)
    assert contents(after) == contents(before)
    errors = counted_errors(after)
    assert {place: errors[place] for place in counted_errors(before)} == counted_errors(before)
    settings = class_settings(after)
    assert {place: settings[place] for place in class_settings(before)} == class_settings(before)
    named = {each.what: each.count for each in replica.assumed if each.count is not None}
    assert named.get("subnet managers", 0) == sum(port.is_sm for port in before.fabric.end_ports())
    assert named.get("hidden M_Keys", 0) == sum(port.m_key_state == "hidden" for port in before.fabric.end_ports())
    assert named.get("M_Keys", 0) == sum(port.m_key_state == "set" for port in before.fabric.end_ports())
    assert named.get("ports that no link reaches", 0) == before.fabric.unreached

"""What the checks say of the simulator: as assumed where it is, and why not where something is missing."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from ibkeys.fabric.handle import PortHandle
from ibkeys.hardware.archive.key_forms import KeyForms
from ibkeys.hardware.catalogue import CHECKS, none_checked
from ibkeys.keys.mkey import MKey
from ibkeys.mad.const import Method
from ibkeys.mad.virtualization import VNodeInfo, VPortInfo, VPortState
from ibkeys.sim.agents.sa import DEFAULT_SA_KEY
from tests.fabricsim import subnet, tool, virtualize
from tests.hardware.looking import answers, look_at
from tests.keyedsite import Site
from tests.spy import is_set, spy

SM = "node04 mlx4_0"


def test_the_simulator_does_what_it_is_said_to_do() -> None:
    net = subnet("two-switch")
    net.set_sm(SM)
    with tool(net) as fabric:
        sent = spy(fabric)
        found = answers(look_at(fabric))
    assert [id for id, answer in found.items() if answer.outcome == "differs"] == []
    checked = {id.partition(".")[0] for id, answer in found.items() if answer.outcome in ("same", "seen")}
    assert checked == {
        *("host", "umad", "nodes", "answers", "timing", "counters", "sm", "sa", "class-keys", "traps"),
    }
    assert {mad[3] for mad in sent} == {Method.GET, Method.GET_TABLE}


def test_each_check_has_an_id_of_its_own_and_says_why_it_was_not_made() -> None:
    ids = [each.id for each in CHECKS]
    assert len(set(ids)) == len(ids)
    assert {finding.answer.text for finding in none_checked("no device")} == {"no device"}
    with tool(subnet("two-switch")) as fabric:
        found = answers(look_at(fabric))
    assert all(answer.text for answer in found.values())
    assert list(found) == ids


def test_nothing_is_set_and_no_violation_is_counted_on_a_protected_fabric(tmp_path: Path) -> None:
    site = Site(tmp_path)
    with site.open() as fabric:
        sent = spy(fabric)
        found = answers(look_at(fabric))
    assert not [mad for mad in sent if mad[3] == Method.SET]
    assert [port.m_key_violations for port in site.ports()] == [0] * 8
    assert found["nodes.m-key-state"].text == "8 x set at level 2"


def test_without_a_key_of_the_local_port_everything_behind_it_is_not_checked(tmp_path: Path) -> None:
    site = Site(tmp_path)
    with tool(site.net, timeout=0.1) as fabric:
        found = answers(look_at(fabric))
    assert found["nodes.all-answer"].outcome == "not-checked"
    assert "M_Key" in found["nodes.all-answer"].text
    assert site.net.port("node01 mlx4_0", 1).m_key_violations <= 3


def test_a_silent_node_is_a_difference_and_the_rest_is_still_checked() -> None:
    net = subnet("two-switch")
    net.set_sm(SM)
    net.silence("node03 mlx4_0")
    with tool(net, timeout=0.1) as fabric:
        found = answers(look_at(fabric))
    assert found["nodes.all-answer"].outcome == "differs"
    assert found["nodes.all-answer"].values["unread"] == {"NodeInfo silent": 1}
    assert found["sa.there"].outcome == "same"


def test_without_a_subnet_manager_its_checks_say_so() -> None:
    with tool(subnet("two-switch"), timeout=0.1) as fabric:
        found = answers(look_at(fabric))
    assert {answer.outcome for id, answer in found.items() if id.startswith(("sa.", "sm."))} == {"not-checked"}
    assert found["nodes.kinds"].outcome == "seen"


def test_an_sa_that_shows_keys_to_everybody_is_a_difference_without_the_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path)
    with site.open() as fabric:
        reading = look_at(fabric)
        trusted = fabric.sa(DEFAULT_SA_KEY)
        monkeypatch.setattr(fabric, "sa", lambda *_: trusted)
        found = answers(reading)
    assert found["sa.hides-m-keys"].outcome == "differs"
    keys = {port.m_key for port in site.ports()}
    assert keys <= reading.shown_keys
    assert not [key for key in keys for answer in found.values() if KeyForms([key]).in_text(repr(answer))]


def test_a_p_key_table_that_sysfs_has_otherwise_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    with tool(subnet("two-switch"), timeout=0.1) as fabric:
        reading = look_at(fabric)
        other = dataclasses.replace(fabric.local(), pkeys=(0xFFFF, 0x8001))
        monkeypatch.setattr(fabric, "local", lambda: other)
        found = answers(reading)
    assert found["umad.p-key-table"].outcome == "differs"
    assert found["umad.p-key-table"].values["indexes"] == [1]


def test_virtual_ports_are_recorded_and_the_guess_about_them_is_judged() -> None:
    net = subnet("two-switch")
    virtualize(net, "node01 mlx4_0")
    with tool(net, timeout=0.1) as fabric:
        found = answers(look_at(fabric))
    assert found["virtual-ports.local"].values["vport_cap"] == 127
    assert (found["virtual-ports.index-0"].outcome, found["virtual-ports.index-0"].text) == ("differs", "status 0x000c")


@pytest.mark.parametrize(("right", "outcome"), [(True, "same"), (False, "differs")])
def test_what_index_0_of_virtual_ports_says_is_compared_with_the_port(
    right: bool, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = subnet("two-switch")
    virtualize(net, "node01 mlx4_0")
    with tool(net, timeout=0.1) as fabric:
        reading = look_at(fabric)
        own = net.port("node01 mlx4_0", 1)
        said = {
            VPortInfo: VPortInfo(bytes(64)).replace(vport_guid=own.guid if right else 1),
            VNodeInfo: VNodeInfo(bytes(64)).replace(vnode_guid=own.node.guid if right else 1),
            VPortState: VPortState((b"\x41" if right else b"\x14") + bytes(63)),
        }
        ask = PortHandle.get
        monkeypatch.setattr(
            PortHandle, "get", lambda self, kind, *rest: said[kind].raw if kind in said else ask(self, kind, *rest)
        )
        found = answers(reading)
    assert {found[f"virtual-ports.{name}"].outcome for name in ("index-0", "node", "states")} == {outcome}


def test_reserved_bits_are_named_by_their_byte_and_not_by_their_value() -> None:
    net = subnet("two-switch")
    net.port("node02 mlx4_0", 1).info[34] |= 0x08  # between M_KeyProtectBits and LMC
    with tool(net, timeout=0.1) as fabric:
        found = answers(look_at(fabric))
    assert found["nodes.reserved-bits"].outcome == "differs"
    assert found["nodes.reserved-bits"].text == "PortInfo: byte 34"


def test_lost_answers_are_counted() -> None:
    net = subnet("two-switch")
    with tool(net, timeout=0.1) as fabric:
        reading = look_at(fabric)
        assert reading.topology
        spy(fabric, refuse=lambda outgoing: 22 if not is_set(outgoing) and outgoing.mad[16:18] == b"\0\x11" else 0)
        found = answers(reading)
    assert found["timing.at-once"].values["lost"] == 32


def test_where_only_the_key_of_the_local_port_is_known_no_other_port_is_asked(tmp_path: Path) -> None:
    """The local port is at level 2, so its neighbour may be too: it would count each question, and start its lease."""
    site = Site(tmp_path)
    own = site.net.port("node01 mlx4_0", 1)
    with tool(site.net, timeout=0.1) as fabric:
        fabric.ring.by_guid[own.guid] = MKey(own.m_key)
        found = answers(look_at(fabric))
    assert [port.m_key_violations for port in site.ports()] == [0] * 8
    assert "no M_Key of another port is known" in found["nodes.kinds"].text
    assert found["sa.own-record"].outcome == "same"


def test_an_sa_has_no_m_key_to_hide_where_no_port_has_one() -> None:
    net = subnet("two-switch")
    net.set_sm(SM)
    with tool(net) as fabric:
        hides = answers(look_at(fabric))["sa.hides-m-keys"]
    assert (hides.outcome, "no port of the sweep has an M_Key" in hides.text) == ("not-checked", True)


def test_nodes_that_a_sweep_could_not_read_are_no_difference_of_the_sa() -> None:
    net = subnet("two-switch")
    net.set_sm(SM)
    net.silence("node03 mlx4_0")
    with tool(net, timeout=0.1) as fabric:
        answer = answers(look_at(fabric))["sa.long-answer"]
    assert (answer.outcome, answer.text) == ("seen", "8 records; 0 nodes only in the sweep, 1 only in the SA")


def test_the_key_that_the_sa_shows_to_whom_it_trusts_is_looked_for(tmp_path: Path) -> None:
    site = Site(tmp_path)
    with site.open() as fabric:
        reading = look_at(fabric, sm_key=DEFAULT_SA_KEY)
        [each] = [each for each in CHECKS if each.id == "sa.own-record"]
        assert each.ask(reading).outcome == "same"
    assert site.net.port("node01 mlx4_0", 1).m_key in reading.shown_keys

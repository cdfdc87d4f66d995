"""What new M_Keys are refused for: easy keys, an SM that would take them away, links that nobody brought up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ibkeys.change.consent import Objection
from ibkeys.errors import FileFormatError
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.mad.const import PortState, SMState
from ibkeys.managers.opensm import process as opensm_host
from ibkeys.mkeys.planning_options import PlanningOptions
from ibkeys.mkeys.rollout.going_back import plan_return
from ibkeys.mkeys.rollout.new_keys import KeyCommand, plan_run
from ibkeys.mkeys.rollout.planned_run import PlannedRun
from ibkeys.mkeys.rollout.rest_of_run import plan_rest
from ibkeys.mkeys.rollout.run_plan import carry_out
from ibkeys.mkeys.set import plan_mkey_set
from ibkeys.sim.subnet import Subnet
from ibkeys.store.journal.runs import RunOptions
from tests.fabricsim import interlocks, subnet, tool, writer

KEY = MKey(0x83F1C05E9A2D7B46)
SAME = RunOptions(same=True, protect=2, lease=60)
PER_PORT = RunOptions(protect=2, lease=60)
CONF = "m_key 0x83f1c05e9a2d7b46\nm_key_protection_level 2\nm_key_lease_period 60\n"


def planned(
    net: Subnet, options: RunOptions, key: MKey | None = None, command: KeyCommand = "mkey-deploy", **more: Any
) -> PlannedRun:
    with tool(net) as fabric, writer(fabric) as w:
        return plan_run(w, command, options, key, PlanningOptions(**more))


def said(run: PlannedRun, interlock: str) -> list[str]:
    return [each.message for each in run.plan.objections if each.interlock == interlock]


# --- keys that are easy to guess --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (0x42, "fits 32 bits"),
        (0x1212121212121212, "repeats one pattern"),
        (0x0123456789ABCDEF, "count"),
        (0xDEADBEEFCAFEBABE, "appears in public documentation"),
        (0xFFFFFFFFFFFFFFFF, "all ones"),
        (0x0002C903000A1021, "is a GUID of this fabric"),
    ],
)
@pytest.mark.parametrize("command", ["mkey-deploy", "mkey-rotate"])
def test_an_easy_key_is_refused_for_a_run(key: int, why: str, command: KeyCommand) -> None:
    net = subnet("two-switch")
    if command == "mkey-rotate":
        net.port("node03 mlx4_0", 1).m_key = KEY.reveal()
    run = planned(net, SAME, MKey(key), command)
    [text] = said(run, "weak-key")
    assert why in text
    assert f"{key:x}" not in text


@pytest.mark.parametrize("key", [0x42, 0xDEADBEEFCAFEBABE, 0x0002C903000A1021])
def test_an_easy_key_is_refused_for_one_port(key: int) -> None:
    with tool(subnet("two-switch")) as fabric, writer(fabric) as w:
        assert "weak-key" in interlocks(plan_mkey_set(w, fabric.find_port(2), MKey(key), 1, 60))


def test_the_sm_key_is_no_m_key() -> None:
    net = subnet("two-switch")
    net.set_sm("node03 mlx4_0", SMState.MASTER, sm_key=KEY.reveal())
    assert "is also the SM_Key" in said(planned(net, SAME, KEY), "weak-key")[0]
    assert not said(planned(net, SAME, MKey(0xD75E0B93A4C81F62)), "weak-key")


def test_good_keys_and_removing_one_are_not_refused() -> None:
    net = subnet("two-switch")
    assert not planned(net, SAME, KEY).plan.objections
    assert not planned(net, PER_PORT).plan.objections
    net.port("node02 mlx4_0", 1).m_key = 0x42
    with tool(net) as fabric, writer(fabric) as w:
        assert not plan_mkey_set(w, fabric.find_port(2), NO_MKEY).objections
        # the key stays as it is: that is not a new one
        assert not plan_mkey_set(w, fabric.find_port(2), None, 1, 60).objections
        # one good key in 16 has the shape of a shell's $RANDOM
        assert not plan_mkey_set(w, fabric.find_port(3), MKey(0x1A2B6C0D3E4F2021), 1, 60).objections


def test_going_back_to_an_easy_key_is_not_refused(tmp_path: Path) -> None:
    net = subnet("two-switch")
    stores = {"keystore": tmp_path / "keys.db", "journal": tmp_path / "journal.db"}
    ports = [port for node in net.nodes for port in node.end_ports if port.is_up or port.number == 0]
    for port in ports:
        port.m_key = 0x42
    with tool(net, **stores) as fabric, writer(fabric) as w:
        carry_out(w, plan_run(w, "mkey-rotate", RunOptions(protect=1, lease=60)), lambda _: None)
    assert 0x42 not in {port.m_key for port in ports}
    with tool(net, **stores) as fabric, writer(fabric) as w:
        back = plan_return(w)
        assert not back.plan.objections
        carry_out(w, back, lambda _: None)
    assert {port.m_key for port in ports} == {0x42}


# --- an SM that would take the keys away ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "key", "text", "words"),
    [
        (SAME, KEY, "", "m_key is not set: an OpenSM that starts with it removes every M_Key"),
        (SAME, KEY, "m_key 0\n", "m_key is 0"),
        (SAME, KEY, "m_key 0x5a5b\n", "m_key is another key"),
        (SAME, KEY, CONF, None),
        (SAME, None, CONF, "make the key first (ibkeys.MKey.generate()"),
        (PER_PORT, None, CONF, "with same=True all ports get one key"),
        (PER_PORT, None, "", "removes all of them"),
        (PER_PORT, None, CONF + "m_key_per_port TRUE\n", None),
    ],
)
def test_a_named_configuration_must_have_the_key(
    options: RunOptions, key: MKey | None, text: str, words: str | None, tmp_path: Path
) -> None:
    conf = tmp_path / "opensm.conf"
    conf.write_text(text)
    found = said(planned(subnet("two-switch"), options, key, opensm_conf=conf), "sm-wipes-keys")
    assert bool(found) == (words is not None)
    assert all(words is not None and words in line and str(conf) in line for line in found)
    assert not any("5a5b" in line or f"{KEY.reveal():x}" in line for line in found)


def test_a_named_configuration_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="no such file"):
        planned(subnet("two-switch"), SAME, KEY, opensm_conf=tmp_path / "opensm.conf")
    with pytest.raises(FileFormatError, match="not a regular file"):
        planned(subnet("two-switch"), SAME, KEY, opensm_conf=Path("/dev/null"))


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This host as it may be: /etc/opensm/opensm.conf, no OpenSM runs; its file is returned."""
    conf = tmp_path / "etc" / "opensm.conf"
    conf.parent.mkdir()
    (tmp_path / "proc").mkdir()
    monkeypatch.setattr(opensm_host, "OPENSM_CONFIGS", (conf, tmp_path / "etc" / "other.conf"))
    monkeypatch.setattr(opensm_host, "PROC", tmp_path / "proc")
    return conf


def found_on_host(net: Subnet, options: RunOptions, key: MKey | None) -> list[Objection]:
    with tool(net) as fabric:
        fabric.is_simulated = False  # as on a real subnet: what this host has counts
        with writer(fabric) as w:
            return plan_run(w, "mkey-deploy", options, key).plan.objections


def test_a_configuration_that_is_found_on_this_host_must_have_the_key(host: Path) -> None:
    net = subnet("two-switch")
    assert found_on_host(net, PER_PORT, None) == []
    host.write_text("# nothing\n")
    for options, key in ((PER_PORT, None), (SAME, KEY)):
        assert [each.interlock for each in found_on_host(net, options, key)] == ["sm-wipes-keys"]
    host.write_text(CONF)
    assert found_on_host(net, SAME, KEY) == []
    with tool(net) as fabric:
        fabric.is_simulated = False
        with writer(fabric) as w:
            assert interlocks(plan_mkey_set(w, fabric.find_port(2), MKey(0xD75E0B93A4C81F62), 2, 60)) == {
                "sm-wipes-keys"
            }
            assert not plan_mkey_set(w, fabric.find_port(2), KEY, 2, 60).objections


def test_the_sa_key_of_a_configuration_on_this_host_is_no_m_key(host: Path) -> None:
    host.write_text(CONF + f"sa_key {KEY.reveal():#x}\n")
    [objection] = found_on_host(subnet("two-switch"), SAME, KEY)
    assert (objection.interlock, "SM_Key or SA_Key of" in objection.message) == ("weak-key", True)


def test_one_that_cannot_be_read_is_not_taken_for_a_good_one(host: Path) -> None:
    host.mkdir()
    [objection] = found_on_host(subnet("two-switch"), SAME, KEY)
    assert "it is not known whether this file has the new M_Keys" in objection.message


def test_a_simulated_subnet_has_nothing_to_do_with_this_host(host: Path) -> None:
    host.write_text("")
    assert not planned(subnet("two-switch"), PER_PORT).plan.objections


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (SAME, "without them it removes or replaces the keys of all ports"),
        (PER_PORT, "sets its one m_key (0 unless opensm.conf sets it) on every port"),
    ],
)
def test_a_note_says_what_an_sm_without_the_key_does(options: RunOptions, says: str) -> None:
    assert any(says in note for note in planned(subnet("two-switch"), options).plan.notes)


# --- links that no SM has brought up ----------------------------------------------------------------------------------


def initialize(net: Subnet) -> None:
    for node in net.nodes:
        for port in node.ports:
            if port.is_up and port.number:
                port.info[32] = port.info[32] & 0xF0 | PortState.INITIALIZE


@pytest.mark.parametrize(("level", "refused"), [(None, False), (0, False), (1, False), (2, True), (3, True)])
def test_over_links_in_initialize_no_level_beyond_1(level: int | None, refused: bool) -> None:
    net = subnet("two-switch")
    assert not said(planned(net, RunOptions(protect=level, lease=60)), "links-initialize")
    initialize(net)
    found = said(planned(net, RunOptions(protect=level, lease=60)), "links-initialize")
    assert bool(found) == refused
    assert all(line.startswith(f"7 ports get level {level} over links") for line in found)  # the local port needs none
    with tool(net) as fabric, writer(fabric) as w:
        for route in ("0,1", "0,1,3"):  # a switch, a host
            name = "links-initialize"
            assert (name in interlocks(plan_mkey_set(w, fabric.find_port(route), KEY, level, 60))) == refused
        assert not plan_mkey_set(w, fabric.find_port(), KEY, level, 60).objections


def test_one_active_link_is_enough_for_a_switch() -> None:
    net = subnet("two-switch")
    initialize(net)
    own = net.port("node01 mlx4_0", 1)
    assert own.peer is not None
    for port in (own, own.peer):
        port.info[32] = port.info[32] & 0xF0 | PortState.ACTIVE
    [text] = said(planned(net, PER_PORT), "links-initialize")
    assert text.startswith("6 ports get")
    with tool(net) as fabric, writer(fabric) as w:
        assert not plan_mkey_set(w, fabric.find_port("0,1"), KEY, 2, 60).objections


def test_the_override_goes_on_and_a_level_that_was_there_is_no_new_danger(tmp_path: Path) -> None:
    net = subnet("two-switch")
    initialize(net)
    stores = {"keystore": tmp_path / "keys.db", "journal": tmp_path / "journal.db"}
    with tool(net, **stores) as fabric, writer(fabric, "links-initialize") as w:
        run = plan_run(w, "mkey-deploy", RunOptions(protect=2, lease=60, first=3))
        assert len(said(run, "links-initialize")) == 1
        carry_out(w, run, lambda _: None)
        assert run.account.done == 3
    with tool(net, **stores, trust_topology=True) as fabric, writer(fabric) as w:
        assert said(plan_rest(w), "links-initialize") != []
        assert not said(plan_return(w), "links-initialize")
    with tool(net, **stores, trust_topology=True) as fabric, writer(fabric, "links-initialize") as w:
        carry_out(w, plan_rest(w), lambda _: None)
    with tool(net, **stores, trust_topology=True) as fabric, writer(fabric) as w:
        assert not plan_run(w, "mkey-rotate", PER_PORT).plan.objections


# --- a first key that everybody can read ------------------------------------------------------------------------------


def test_a_first_key_at_level_0_is_asked_about_where_nobody_said_so() -> None:
    net = subnet("two-switch")
    for options, asked in ((RunOptions(lease=60), 1), (RunOptions(protect=0), 0), (RunOptions(protect=1), 0)):
        questions = planned(net, options).plan.questions
        assert len(questions) == asked
        assert all(each.answer == "protect=0" and "8 ports" in each.text for each in questions)
    with tool(net) as fabric, writer(fabric) as w:
        assert len(plan_mkey_set(w, fabric.find_port(2), KEY).questions) == 1
        assert not plan_mkey_set(w, fabric.find_port(2), KEY, 0).questions
        assert not plan_mkey_set(w, fabric.find_port(2), None, None, 60).questions
    port = net.port("node02 mlx4_0", 1)
    port.protect_bits = 1
    with tool(net, m_key=NO_MKEY) as fabric, writer(fabric) as w:
        assert not plan_mkey_set(w, fabric.find_port(2), KEY).questions  # its level is 1 already
    port.m_key, port.protect_bits = 0x77, 0
    with tool(net) as fabric, writer(fabric) as w:
        assert not plan_mkey_set(w, fabric.find_port(2), KEY).questions  # not its first
        assert not plan_run(w, "mkey-rotate", RunOptions()).plan.questions

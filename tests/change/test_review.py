"""Cases in which a change once did something that nobody asked for. Each was found by running it."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from ibkeys.change.counters import plan_clear
from ibkeys.change.enforce import plan_enforce
from ibkeys.change.pkeys import plan_add, plan_remove, plan_set
from ibkeys.cli.secrets import read_key
from ibkeys.client.address import LidAddress
from ibkeys.discovery.keyring import KeyRing
from ibkeys.errors import AddressError, MKeyNeeded, Refused, SendRefused, UsageError
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.keys.pkey import PKey
from ibkeys.mad.const import Method
from ibkeys.mkeys.set import plan_mkey_set
from ibkeys.umad.port import Outgoing
from ibkeys.umad.tap import Tap
from tests.discovery.sweeping import ring_for
from tests.fabricsim import interlocks, subnet, tool, writer
from tests.protectedsim import violations
from tests.spy import interrupt_at_a_set, spy

KEY, WRONG = MKey(0xA94F13D02E7C5B68), MKey(0xBAD)
NAME = "node02 mlx4_0"


def at_level(level: int, key: MKey, lease: int = 0, name: str = NAME) -> Any:
    net = subnet("two-switch")
    port = net.port(name, 1)
    port.m_key, port.protect_bits, port.lease_period = key.reveal(), level, lease
    port.info[46:48] = (7).to_bytes(2)
    return net


def test_clearing_counters_never_installs_the_key_that_was_sent() -> None:
    """At level 1 a port without a key shows the same zero as one that hides another key."""
    net = at_level(1, NO_MKEY)
    with (
        tool(net, m_key=KEY) as fabric,
        writer(fabric) as w,
        pytest.raises(MKeyNeeded, match="not the one that was sent"),
    ):
        plan_clear(w, [fabric.find_port(2)])
    with tool(net) as fabric, writer(fabric) as w, pytest.raises(MKeyNeeded, match="m_key=0 says"):
        plan_clear(w, [fabric.find_port(2)])
    with tool(net, m_key=NO_MKEY) as fabric, writer(fabric) as w:
        w.apply(plan_clear(w, [fabric.find_port(2)]))
    port = net.port(NAME, 1)
    assert (port.m_key, port.protect_bits, port.p_key_violations) == (0, 1, 0)


def test_a_wrong_key_is_not_sent_in_a_set_when_the_read_disproved_it() -> None:
    net = at_level(1, KEY)
    with tool(net, m_key=WRONG) as fabric, writer(fabric) as w:
        with pytest.raises(MKeyNeeded):
            plan_mkey_set(w, fabric.find_port(2), MKey(5))
        with pytest.raises(MKeyNeeded):
            plan_add(w, fabric.find_port(2), [PKey(0x8010)])
        assert w.keystore.rows() == []
    assert violations(net) == 0


def test_a_key_that_was_readable_is_kept_before_it_is_hidden(tmp_path: Path) -> None:
    net = at_level(0, KEY)
    with tool(net, keystore=tmp_path / "keys.db") as fabric, writer(fabric) as w:
        w.apply(plan_mkey_set(w, fabric.find_port(2), None, 2, 60))
    with tool(net, keystore=tmp_path / "keys.db") as fabric:
        assert fabric.find_port(2).read_port_info().m_key == KEY.reveal()
    assert violations(net) == 0


def test_the_sm_is_found_when_the_own_port_does_not_know_it() -> None:
    net = subnet("two-switch")
    net.set_sm("node01 mlx4_0")
    net.port(NAME, 1).info[18:20] = bytes(2)
    with tool(net, at=NAME) as fabric, writer(fabric) as w:
        assert interlocks(plan_mkey_set(w, fabric.find_port(3), KEY, 1, 60)) == {"mkey-under-sm"}
    with tool(net, at=NAME) as fabric, writer(fabric) as w:
        assert interlocks(plan_add(w, fabric.find_port(7, 2), [PKey(0x8010)])) == {"active-sm"}


def test_asking_for_the_sm_at_a_locked_port_counts_one_violation() -> None:
    net = subnet("two-switch")
    net.set_sm("node03 mlx4_0")
    port = net.port("node03 mlx4_0", 1)
    port.m_key, port.protect_bits = KEY.reveal(), 2
    with tool(net) as fabric, writer(fabric) as w:
        assert w.ask_subnet_manager().presence == "unknown"
    assert port.m_key_violations == 1


def test_a_port_of_a_node_whose_guid_another_node_has_too_is_not_guessed() -> None:
    net = subnet("dual-home")
    net.node("login01 mlx5_0").guid = net.node("backup01 mlx5_0").guid
    with tool(net) as fabric, pytest.raises(AddressError, match="2 nodes"):
        fabric.find_port(13, 1)


def test_enforcement_asks_the_far_end_with_its_own_key() -> None:
    net = at_level(2, KEY, lease=30)
    with tool(net) as fabric, writer(fabric) as w:
        fabric.ring = ring_for(net, NAME)
        fabric.ring.by_guid = {net.port(NAME, 1).guid: KEY}
        assert interlocks(plan_enforce(w, fabric.find_port("0,1", 2), True, None)) == set()
    assert violations(net) == 0


def ring_with_two_keys(net: Any, name: str, current: MKey, other: MKey, confirmed: bool) -> KeyRing:
    """Return a ring that has two keys of one port. *confirmed*: no change of the current one was begun since."""
    ring, guid = ring_for(net, name), net.port(name, 1).guid
    ring.by_guid[guid], ring.spares[guid] = current, (other,)
    ring.confirmed = frozenset({guid} if confirmed else ())
    return ring


def test_an_unconfirmed_key_is_found_by_turns_and_said_so() -> None:
    net = at_level(2, KEY)
    with tool(net) as fabric:
        fabric.ring = ring_with_two_keys(net, NAME, WRONG, KEY, confirmed=False)
        found = fabric.sweep()
    assert len(found.nodes) == 8
    assert any("never confirmed" in note for note in found.notes)
    assert violations(net) == 1


@pytest.mark.parametrize("name", [NAME, "node01 mlx4_0"])  # the second: the local port
def test_a_lost_packet_fetches_no_former_key(name: str) -> None:
    net = at_level(2, KEY, name=name)
    with tool(net) as fabric:
        fabric.ring = ring_with_two_keys(net, name, KEY, WRONG, confirmed=True)
        net.faults.lose_next("reply", node=net.node(name), method=Method.GET)
        found = fabric.sweep()
    assert len(found.nodes) == 8
    assert not any("violations" in note for note in found.notes)
    assert violations(net) == 0


def test_a_former_key_is_found_after_the_confirmed_one_had_its_attempts() -> None:
    net = at_level(2, KEY)
    with tool(net) as fabric:
        fabric.ring = ring_with_two_keys(net, NAME, WRONG, KEY, confirmed=True)
        found = fabric.sweep()
    assert len(found.nodes) == 8
    assert any("not the one that was confirmed last; 3 SMPs" in note for note in found.notes)


def test_several_wrong_keys_cost_one_violation_each() -> None:
    net = at_level(2, KEY)
    with tool(net) as fabric:
        fabric.ring = ring_with_two_keys(net, NAME, WRONG, MKey(0xB0B0), confirmed=False)
        assert len(fabric.sweep().nodes) == 7
    assert violations(net) == 2


def test_amid_a_change_only_the_keys_that_the_port_may_have_are_sent() -> None:
    net = at_level(2, KEY)
    guid = net.port(NAME, 1).guid
    for asks_unproven, nodes in ((False, 7), (True, 8)):
        before = violations(net)
        with tool(net) as fabric:
            fabric.ring = ring_with_two_keys(net, NAME, WRONG, MKey(0xB0B0), confirmed=False)
            fabric.ring.spares[guid] = (MKey(0xB0B0), KEY)  # the last one is a former key
            fabric.ring.in_change, fabric.ring.ask_unproven = {guid: (WRONG, MKey(0xB0B0))}, asks_unproven
            found = fabric.sweep()
        assert (len(found.nodes), violations(net) - before) == (nodes, 2)
        assert any("1 other key of the store not sent" in note for note in found.notes) != asks_unproven


def test_after_an_import_amid_a_change_only_the_imported_key_is_sent() -> None:
    net = at_level(2, KEY)
    guid = net.port(NAME, 1).guid
    with tool(net) as fabric:
        fabric.ring = ring_with_two_keys(net, NAME, KEY, WRONG, confirmed=False)
        fabric.ring.in_change = {guid: (KEY,)}
        assert len(fabric.sweep().nodes) == 8
    assert violations(net) == 0
    with tool(net) as fabric:
        fabric.ring = ring_with_two_keys(net, NAME, WRONG, KEY, confirmed=False)
        fabric.ring.in_change = {guid: (WRONG,)}
        found = fabric.sweep()
        assert len(found.nodes) == 7
        assert any("1 other key of the store not sent" in note and "ask_unproven=True" in note for note in found.notes)
        assert violations(net) == 1
        fabric.ring.ask_unproven = True
        assert len(fabric.sweep().nodes) == 8
    assert violations(net) == 2


def test_a_key_that_changed_between_plan_and_set_is_stale() -> None:
    net = at_level(0, NO_MKEY)
    with tool(net) as fabric, writer(fabric) as w:
        plan = plan_mkey_set(w, fabric.find_port(2), KEY)
        net.port(NAME, 1).m_key = WRONG.reveal()
        with pytest.raises(Refused, match="M_Key") as caught:
            w.apply(plan)
        assert caught.value.interlock == "stale"
        assert w.keystore.rows() == []
    assert violations(net) == 0


def test_a_busy_agent_after_the_set_does_not_hide_that_it_worked() -> None:
    net = at_level(0, NO_MKEY)
    with tool(net) as fabric, writer(fabric) as w:
        plan = plan_mkey_set(w, fabric.find_port(2), KEY)
        receive, busy = fabric.umad.recv, [False]

        def once_busy(timeout: float) -> Any:
            came = receive(timeout)
            if busy[0] and came:
                busy[0] = False
                came = [item._replace(mad=item.mad[:4] + b"\0\1" + item.mad[6:]) for item in came]
            elif any(item.mad[16:18] == b"\0\x15" and item.mad[64:72] == KEY.reveal().to_bytes(8) for item in came):
                busy[0] = True
            return came

        fabric.umad.recv = once_busy  # type: ignore[method-assign]
        w.apply(plan)
        assert [row.state for row in w.keystore.rows()] == ["current"]


def test_lease_0_is_no_danger_when_the_key_is_removed() -> None:
    net = at_level(2, KEY)
    with tool(net, m_key=KEY) as fabric, writer(fabric) as w:
        assert interlocks(plan_mkey_set(w, fabric.find_port(2), NO_MKEY)) == set()


def test_a_key_of_the_configuration_file_is_for_ports_without_another() -> None:
    net = at_level(2, KEY)
    with tool(net, default=WRONG) as fabric:
        fabric.ring.by_guid[net.port(NAME, 1).guid] = KEY
        fabric.ring.neighbors = ring_for(net).neighbors
        assert not fabric.sweep().troubles
    assert violations(net) == 0


def test_a_full_device_is_asked_again() -> None:
    net = subnet("two-switch")
    with tool(net) as fabric:
        answers = iter([errno.EAGAIN, errno.EAGAIN])
        spy(fabric, refuse=lambda out: next(answers, 0))
        assert fabric.find_port(2).read_p_keys()[0] == 0xFFFF


def test_an_observer_that_fails_does_not_stop_a_change() -> None:
    net = subnet("two-switch")
    complaints: list[str] = []

    class FullDisk:
        def sent(self, mad: Any, errno: int) -> None:
            if mad.mad[3] == Method.SET:
                raise OSError(28, "No space left on device")

        def received(self, mad: Any) -> None:
            """Nothing to say."""

        def close(self) -> None:
            """Nothing to give back."""

    with tool(net, wrap=lambda port: Tap(port, [FullDisk()], complaints.append)) as fabric, writer(fabric) as w:
        w.apply(plan_set(w, fabric.find_port(2), {3: PKey(0x8010), 40: PKey(0x8011)}))
    assert [net.port(NAME, 1).p_keys[index] for index in (3, 40)] == [0x8010, 0x8011]
    assert len(complaints) == 1


def test_an_interrupt_in_the_middle_of_a_change_says_what_is_open() -> None:
    net = subnet("two-switch")
    with tool(net) as fabric, writer(fabric) as w:
        plan = plan_add(w, fabric.find_port(2), [PKey(0x8010)])
        spy(fabric, after=interrupt_at_a_set)
        with pytest.raises(KeyboardInterrupt, match=r"^in the middle of a change: .* operation 1 of"):
            w.apply(plan)


def test_an_interrupt_before_the_first_set_says_that_nothing_was_changed() -> None:
    net = subnet("two-switch")
    with tool(net) as fabric, writer(fabric) as w:
        plan = plan_add(w, fabric.find_port(2), [PKey(0x8010)])

        def interrupt(out: Outgoing) -> None:
            raise KeyboardInterrupt

        spy(fabric, before=interrupt)
        with pytest.raises(KeyboardInterrupt) as caught:
            w.apply(plan)
    assert str(caught.value) == "before the first Set: no port was changed"


def test_a_number_that_may_be_a_key_is_not_repeated_as_a_lid() -> None:
    with pytest.raises(AddressError) as caught:
        LidAddress(0xDEADBEEFCAFEF00D)
    assert "16045690984503111693" not in str(caught.value)


@pytest.mark.parametrize("text", ["--protect", "-K", "secret"])
def test_what_follows_new_m_key_is_not_taken_for_a_prompt(text: str) -> None:
    with pytest.raises(UsageError):
        read_key(MKey, text, "--new-m-key", is_new=True)


def test_a_long_key_file_is_refused_not_cut(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.touch(0o600)
    path.write_text("#" + "x" * 4083 + "\n0x1122334455667788\n")
    with pytest.raises(UsageError, match="more than 4096 bytes"):
        read_key(MKey, f"@{path}", "-y")


def test_a_refusal_names_all_interlocks_that_are_set_off() -> None:
    net = subnet("two-switch")
    net.set_sm("node03 mlx4_0")
    with tool(net) as fabric, writer(fabric) as w:
        plan = plan_remove(w, fabric.find_port(2), [PKey(0xFFFF)])
        with pytest.raises(
            Refused, match=r"index-0.*also triggered: default-pkey .*active-sm \(consent=Consent\(force=True\)\)"
        ):
            w.check(plan)


def test_a_default_key_does_not_hide_what_the_ring_knows() -> None:
    net = at_level(1, KEY)
    with tool(net, default=WRONG) as fabric, writer(fabric) as w:
        fabric.ring.by_guid[net.port(NAME, 1).guid] = KEY
        fabric.ring.neighbors = ring_for(net).neighbors
        found = {port.node.description: port for port in fabric.sweep().end_ports()}
        assert found[NAME].m_key_state == "set"
        w.apply(plan_add(w, fabric.find_port(2), [PKey(0x8010)]))
    assert net.port(NAME, 1).p_keys[1] == 0x8010
    assert violations(net) == 0


def test_the_own_port_is_asked_by_turns_too() -> None:
    net = at_level(2, KEY)
    with tool(net, at=NAME) as fabric:
        guid = net.port(NAME, 1).guid
        fabric.ring.by_guid[guid], fabric.ring.spares[guid] = WRONG, (KEY,)
        assert fabric.find_port().read_p_keys()[0] == 0xFFFF
    assert violations(net) == 1


def test_a_device_that_stays_full_for_a_while_loses_nothing() -> None:
    net = subnet("two-switch")
    with tool(net) as fabric:
        until = net.now + 0.5
        spy(fabric, refuse=lambda out: errno.ENOBUFS if net.now < until else 0)
        assert len(fabric.sweep().nodes) == 8
        until = net.now + 1000
        with pytest.raises(SendRefused, match="no room"):
            fabric.find_port(2)

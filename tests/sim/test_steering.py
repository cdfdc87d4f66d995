"""Steering: the words, what they do to the subnet, scripts; data packets, resets, traps that repeat."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.errors import AddressError, FileFormatError, IbkeysError, UsageError
from ibkeys.keys.pkey import InboundCheck
from ibkeys.mad.const import AttributeID, CapabilityMask, Method, PortState, TrapNumber
from ibkeys.mad.notice import BadPKeyDetails, BadPKeySwitchPortDetails, BadQKeyDetails, CapabilityChangeDetails, Notice
from ibkeys.mad.smp import build_smp
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.state.document import dump_state, load_state
from ibkeys.sim.steering.commands import GRAMMAR, execute
from ibkeys.sim.steering.script import Script
from ibkeys.sim.subnet import Subnet
from tests.corpus import DATA
from tests.fabricsim import set_enforcement_caps, set_p_key_capacity

SM, A, B = "node01 mlx4_0", "node02 mlx4_0", "node04 mlx4_0"
LEAF = "MF0;switch-a:IS5023/U1"  # LID 7; A is at its port 2
SPINE = "S-0002c90200401040"  # LID 8; B is at its port 1


@pytest.fixture
def subnet() -> Subnet:
    net = Subnet.from_file(DATA / "fabrics" / "two-switch.net")
    net.set_sm(SM)
    return net


@pytest.fixture
def heard(subnet: Subnet) -> list[bytes]:
    mads: list[bytes] = []
    subnet.attach(subnet.port(SM, 1), lambda delivery: mads.append(delivery.mad))
    return mads


def numbers(mads: list[bytes]) -> list[int]:
    return [Notice(mad[64:128]).trap_number for mad in mads]


def packet(subnet: Subnet, words: str) -> str:
    return execute(subnet, f'packet "{A}" "{B}" {words}').partition(": ")[2]


def test_a_blank_line_and_a_comment_do_nothing(subnet: Subnet) -> None:
    assert [execute(subnet, line) for line in ("", "  ", "# reset everything", "\t# x")] == [""] * 4


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("explode", "unknown command 'explode'; the commands are link, silent"),
        ('link "x', "not closed"),
        ("link a", "write: link NODE[PORT] up|down"),
        ("link a b c", "too many words"),
        ("link a sideways", "write up, down, or"),
        ("silent a maybe", "write on or off"),
        ("silent a off --dead", "only --dead may follow, after on"),
        ("drop 101", "percentage"),
        ("drop nan", "percentage"),
        ("delay 5 -1", "seconds"),
        ("time 5", "the clock cannot be set back"),
        ("time +inf", "seconds"),
        ("seed -1", "is not a seed"),
        ("packet a b pkey=0x10000", "is not a P_Key"),
        ("packet a b pkey=1 pkey=2", "given twice"),
        ("packet a b qkey=1", "must be given together"),
        ("packet a b sl=1", "write pkey=, qkey= or expects="),
        ("nvram a gkey on", "write mkey or pkey"),
        ("events x", "is not a number of events"),
    ],
)
def test_a_line_written_wrong_changes_nothing_and_says_how(subnet: Subnet, line: str, part: str) -> None:
    before = subnet.history.changes
    with pytest.raises(UsageError, match=part.replace("[", r"\[").replace("|", r"\|")):
        execute(subnet, line)
    assert subnet.history.changes == before


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("reset nobody", AddressError),
        (f'show "{A}"[9]', AddressError),
        (f'reset "{A}"[1]', UsageError),
        (f'link "{A}" down', UsageError),
        (f'link "{LEAF}"[5] up', UsageError),
        (f'link "{A}"[1] "{B}"[1]', UsageError),
        (f'packet "{A}" "{LEAF}"[2]', UsageError),
    ],
)
def test_a_line_that_cannot_be_done(subnet: Subnet, line: str, error: type[IbkeysError]) -> None:
    with pytest.raises(error):
        execute(subnet, line)


@given(line=st.text(alphabet=st.characters(exclude_characters="\n")) | st.from_regex(r"\A(link|packet|show) .{0,30}\Z"))
def test_any_line_is_done_or_refused(line: str) -> None:
    net = Subnet.from_file(DATA / "fabrics" / "two-switch.net")
    with suppress(UsageError, AddressError):
        assert isinstance(execute(net, line), str)


def test_nodes_are_named_by_id_description_and_guid_with_a_port_in_brackets_or_after_a_colon(subnet: Subnet) -> None:
    names = (f'"{LEAF}"[2]', f"{LEAF}[2]", f"{LEAF}:2", "S-0002c90200401000[2]", "0x2c90200401000:2")
    assert len({execute(subnet, f"show {name}") for name in names}) == 1
    assert execute(subnet, "show S-0002c90200401000").count("\n") == 9
    lines = execute(subnet, "show").splitlines()
    assert [line.split()[0] for line in lines] == [node.node_id for node in subnet.nodes]


def test_a_cable_out_and_back(subnet: Subnet, heard: list[bytes]) -> None:
    port = subnet.port(B, 1)
    execute(subnet, f'link "{B}"[1] down')
    assert (port.peer, port.state) == (None, PortState.DOWN)
    assert numbers(heard) == [TrapNumber.LINK_STATE_CHANGE]
    assert subnet.node(SPINE).switch_info[11] & 0x04  # type: ignore[index]
    assert port.counter("link_downed_counter") == 1
    execute(subnet, f"link {SPINE}[1] up")
    assert (port.peer, port.state) == (subnet.port(SPINE, 1), PortState.INITIALIZE)
    execute(subnet, f'link "{B}":1 down')
    execute(subnet, f'link "{B}":1 {SPINE}[5]')
    execute(subnet, f'link "{B}":1 down')
    execute(subnet, f'link "{B}":1 up')  # to where it was last
    assert port.peer is subnet.port(SPINE, 5)


def test_silent_and_dead_nodes(subnet: Subnet) -> None:
    ask = build_smp(Method.GET, AttributeID.NODE_INFO, path=(1, 7))
    beyond = build_smp(Method.GET, AttributeID.NODE_INFO, path=(1, 7, 1))
    assert subnet.process(ask, SM, 1)
    execute(subnet, f"silent {SPINE} on")
    assert not subnet.process(ask, SM, 1)
    assert subnet.process(beyond, SM, 1)
    execute(subnet, f"silent {SPINE} on --dead")
    assert not subnet.process(beyond, SM, 1)
    execute(subnet, f"silent {SPINE} off")
    assert subnet.process(ask, SM, 1)


def test_chance(subnet: Subnet) -> None:
    for line in ("drop 10%", "delay 20 3", "duplicate 30", "corrupt 0.5", "seed 7"):
        assert execute(subnet, line)
    faults = subnet.faults
    assert (faults.drop, faults.delay, faults.delay_seconds, faults.duplicate) == (0.1, 0.2, 3.0, 0.3)
    assert faults.corrupt == 0.005


def test_time_lets_leases_run_out(subnet: Subnet) -> None:
    port = subnet.port(A, 1)
    port.m_key, port.protect_bits, port.lease_period = 5, 2, 60
    subnet.process(build_smp(Method.GET, AttributeID.PORT_INFO, 1), SM, 1, port.lid)
    execute(subnet, "time +59.5")
    assert port.protect_bits == 2
    assert "timer 0.500 s left" in execute(subnet, f'show "{A}"[1]')
    execute(subnet, "time +0.5")
    assert (port.protect_bits, port.m_key) == (0, 5)
    assert "lease-expired" in execute(subnet, "events 1")


def test_events_print_what_a_packet_held_as_it_is_written(subnet: Subnet) -> None:
    execute(subnet, f'packet "{A}" "{B}" pkey=0x23')
    assert " p_key=0x0023 " in execute(subnet, "events")
    subnet.port(A, 1).m_key, subnet.port(A, 1).protect_bits = 5, 2
    subnet.process(build_smp(Method.GET, AttributeID.PORT_INFO, 1), SM, 1, subnet.port(A, 1).lid)
    assert " method=0x01 attribute=0x0015\n" in execute(subnet, "events")
    execute(subnet, f'packet "{B}" "{A}" qkey=0x11 expects=0x12')
    assert " q_key=0x00000011 " in execute(subnet, "events")


def test_no_answer_shows_an_m_key(subnet: Subnet) -> None:
    port = subnet.port(A, 1)
    port.m_key = 0x1122334455667788
    subnet.process(build_smp(Method.SET, AttributeID.PORT_INFO, 1, m_key=0x99AABBCCDDEEFF00), SM, 1, port.lid)
    said = execute(subnet, f'show "{A}"[1]') + execute(subnet, f'show "{A}"') + execute(subnet, "events 100")
    assert "m-key-violation" in said
    assert "1122334455667788" not in said
    assert "99aabbccddeeff00" not in said.lower()


# Packets


def test_a_packet_with_a_key_of_the_receiver_arrives_and_is_counted(subnet: Subnet) -> None:
    assert packet(subnet, "") == "received"
    counts = [subnet.port(A, 1).counter(name) for name in ("port_xmit_pkts", "port_xmit_data", "port_rcv_pkts")]
    assert counts == [1, 72, 0]
    assert subnet.port(B, 1).counter("port_rcv_pkts") == 1


@pytest.mark.parametrize(
    ("table", "key", "passes"),
    [
        ([0x8001], 0x8001, True),
        ([0x8001], 0x0001, True),
        ([0x0001], 0x8001, True),
        ([0x0001], 0x0001, False),
        ([0x8002], 0x8001, False),
        ([0x8000], 0x8000, False),
        ([], 0xFFFF, False),
        ([0x7FFF, 0, 0x8001], 0x0001, True),
    ],
)
def test_the_receivers_rule(subnet: Subnet, heard: list[bytes], table: list[int], key: int, passes: bool) -> None:
    end = subnet.port(B, 1)
    end.p_keys = table
    assert packet(subnet, f"pkey={key:#x}").startswith("received" if passes else "dropped at node04 mlx4_0 port 1")
    assert end.p_key_violations == (0 if passes else 1)
    assert numbers(heard) == ([] if passes else [TrapNumber.BAD_P_KEY])
    if not passes:
        details = BadPKeyDetails(heard[0][64:128])
        assert (details.lid_addr1, details.lid_addr2, details.p_key) == (2, 4, key)
        assert details.gid_addr1 & (1 << 64) - 1 == subnet.port(A, 1).guid


def test_a_wrong_q_key(subnet: Subnet, heard: list[bytes]) -> None:
    assert packet(subnet, "qkey=0x11 expects=17") == "received"
    assert "Q_Key 0x80010000, its QP has 0x00000b1b" in packet(subnet, "qkey=0x80010000 expects=0xb1b")
    assert subnet.port(B, 1).q_key_violations == 1
    assert [BadQKeyDetails(mad[64:128]).key for mad in heard] == [0x80010000]
    assert numbers(heard) == [TrapNumber.BAD_Q_KEY]


@pytest.mark.parametrize("inbound", [True, False])
def test_enforcement_at_the_switch_ports(subnet: Subnet, heard: list[bytes], inbound: bool) -> None:
    where = subnet.port(LEAF, 2) if inbound else subnet.port(SPINE, 1)
    counter = "port_rcv_constraint_errors" if inbound else "port_xmit_constraint_errors"
    subnet.port(B, 1).p_keys = [0xFFFF, 0x8001]
    where.p_keys = [0xFFFF]
    assert packet(subnet, "pkey=0x8001") == "received"  # no enforcement yet
    where.inbound_enforcement, where.outbound_enforcement = int(inbound), int(not inbound)
    assert f"dropped by {'inbound' if inbound else 'outbound'} enforcement at {where}" in packet(subnet, "pkey=0x8001")
    assert packet(subnet, "pkey=0x7fff") == "received"
    assert (where.counter(counter), subnet.port(B, 1).p_key_violations) == (1, 0)
    assert numbers(heard) == [TrapNumber.BAD_P_KEY_SWITCH_PORT]
    details = BadPKeySwitchPortDetails(heard[0][64:128])
    assert (details.p_key, details.sw_lid_addr, details.port_no) == (0x8001, where.guard.lid, where.number)
    subnet.software.set_capability(where.guard, CapabilityMask.IS_P_KEY_SWITCH_EXTERNAL_PORT_TRAP_SUPPORTED, False)
    heard.clear()
    subnet.advance(10)
    packet(subnet, "pkey=0x8001")
    assert TrapNumber.BAD_P_KEY_SWITCH_PORT not in numbers(heard)


def test_a_packet_needs_links_that_are_active(subnet: Subnet) -> None:
    port = subnet.port(B, 1)
    port.state = PortState.ARMED
    assert packet(subnet, "") == "received"  # an Armed port receives
    assert "lost after node04" in execute(subnet, f'packet "{B}" "{A}"')  # but does not send
    port.state = PortState.INITIALIZE
    assert "lost after" in packet(subnet, "")


# Reset


def power_cycle(subnet: Subnet) -> tuple[SimPort, SimPort]:
    port, outside = subnet.port(A, 1), subnet.port(LEAF, 3)
    for end in (port, subnet.port(LEAF, 0)):
        end.m_key, end.protect_bits, end.lease_period, end.p_keys = 7, 2, 60, [0xFFFF, 0x8005]
    outside.p_keys, outside.inbound_enforcement = [0x8005], 1
    for node in (A, LEAF):
        execute(subnet, f'reset "{node}"')
    return port, outside


def test_a_reset_takes_what_is_volatile(subnet: Subnet) -> None:
    port, outside = power_cycle(subnet)
    assert (port.m_key, port.protect_bits, port.lease_period, port.lid, port.sm_lid) == (0, 0, 0, 0, 0)
    assert [key for key in port.p_keys if key] == [0xFFFF]
    assert (port.state, outside.state, outside.peer.state) == (2, 2, 2)  # type: ignore[union-attr]
    assert (outside.inbound_enforcement, outside.p_keys[0]) == (0, 0xFFFF)
    switch = subnet.node(LEAF)
    assert (switch.routes, switch.ports[0].lid) == (b"", 0)
    assert switch.switch_info[11] & 0x04  # type: ignore[index]


def test_a_reset_leaves_what_is_in_nv_ram(subnet: Subnet) -> None:
    for node in (A, LEAF):
        execute(subnet, f'nvram "{node}" mkey on')
        execute(subnet, f'nvram "{node}" pkey on')
    port, outside = power_cycle(subnet)
    assert (port.m_key, port.protect_bits, port.lease_period, port.lid) == (7, 2, 60, 0)
    assert (port.p_keys[1], outside.p_keys[0], outside.inbound_enforcement) == (0x8005, 0x8005, 0)


@pytest.mark.parametrize(("word", "left"), [("", 0xFFFF), (" 0xffff", 0xFFFF), (" 0x7fff", 0x7FFF)])
def test_a_reset_leaves_one_default_p_key_at_index_0(subnet: Subnet, word: str, left: int) -> None:
    power_cycle(subnet)
    for node in (A, LEAF):
        execute(subnet, f'reset "{node}"{word}')
    for port in (subnet.port(A, 1), subnet.port(LEAF, 0), subnet.port(LEAF, 3)):
        assert (port.p_keys[0], any(port.p_keys[1:])) == (left, False)
    with pytest.raises(UsageError, match="write 0xffff or 0x7fff"):
        execute(subnet, f'reset "{A}" 0x8001')


# Traps that repeat


def repress(subnet: Subnet, trap: bytes, lid: int, m_key: int = 0) -> None:
    mad = build_smp(Method.TRAP_REPRESS, AttributeID.NOTICE, data=trap[64:128], m_key=m_key)
    subnet.process(mad[:8] + b"\x12\x34\x56\x78" + trap[12:16] + mad[16:], SM, 1, lid)


def test_a_trap_is_repeated_until_it_is_repressed(subnet: Subnet, heard: list[bytes]) -> None:
    port = subnet.port(B, 1)
    port.subnet_timeout = 18
    packet(subnet, "pkey=0x8001")
    due = subnet.next_timer()
    assert due == pytest.approx(4.096e-6 * (1 << 18))
    for times in (2, 3):
        subnet.advance(subnet.next_timer() - subnet.now)  # type: ignore[operator]
        subnet.run_timers()
        assert heard == [heard[0]] * times
    port.m_key = 9
    repress(subnet, heard[0], port.lid)
    assert subnet.next_timer() is not None  # the M_Key was wrong
    assert port.m_key_violations == 1
    repress(subnet, heard[0], port.lid, m_key=9)
    subnet.advance(10)
    heard.clear()
    subnet.run_timers()
    assert TrapNumber.BAD_P_KEY not in numbers(heard)


def test_nobody_hears_a_trap_for_ever(subnet: Subnet, heard: list[bytes]) -> None:
    packet(subnet, "pkey=0x8001")
    for _ in range(100):
        timer = subnet.next_timer()
        if timer is None:
            break
        subnet.advance(max(0.0, timer - subnet.now))
        subnet.run_timers()
    assert subnet.next_timer() is None
    assert len(heard) == 17
    assert subnet.now < 61


def test_a_new_description_raises_trap_144(subnet: Subnet, heard: list[bytes]) -> None:
    execute(subnet, f'describe "{A}" spare host')
    details = CapabilityChangeDetails(heard[0][64:128])
    assert (details.lid_addr, details.other_local_changes, details.change_flags) == (2, 1, 1)
    fresh = Subnet.from_file(DATA / "fabrics" / "two-switch.net")
    load_state(fresh, dump_state(subnet))
    assert fresh.node("spare host").index == subnet.node("spare host").index
    with pytest.raises(UsageError):
        execute(subnet, f"describe {SPINE} {'x' * 65}")


# Scripts


def test_a_script_is_due_line_by_line() -> None:
    script = Script.parse("drop 5\n@2.5 time +1   # later\n\n# nothing\nreset a\n  @1 help\n")
    assert script.next_time == 0
    assert [line.text for line in script.due(0.5)] == ["drop 5"]
    assert (script.due(0.9), script.next_time) == ([], 1)
    assert [(line.at, line.number) for line in script.due(99)] == [(1, 6), (2.5, 2), (2.5, 5)]
    assert (script.due(100), script.next_time) == ([], None)


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [("help\n  foo", 2, 3), ("@x help", 1, 1), ("@5", 1, 1), ("@5 drop 200", 1, 9), ('@1 link "x', 1, 9)],
)
def test_a_mistake_in_a_script_has_its_place(text: str, line: int, column: int) -> None:
    with pytest.raises(FileFormatError) as caught:
        Script.parse(text, "events.txt")
    assert (caught.value.path, caught.value.line, caught.value.column) == ("events.txt", line, column)


def test_the_grammar_names_every_command_and_help_prints_it(subnet: Subnet) -> None:
    with pytest.raises(UsageError) as caught:
        execute(subnet, "?")
    for verb in str(caught.value).partition("the commands are ")[2].split(", "):
        assert f"\n{verb} " in f"\n{GRAMMAR}"
    assert execute(subnet, "help") == GRAMMAR.rstrip("\n")


@pytest.mark.parametrize(
    ("inbound", "outbound", "capacity", "drops"),
    [(True, True, 64, "dropped by inbound"), (False, True, 64, "received"), (True, True, 0, "received")],
)
def test_a_switch_that_cannot_enforce_lets_packets_pass(
    subnet: Subnet, inbound: bool, outbound: bool, capacity: int, drops: str
) -> None:
    leaf = subnet.port(A, 1).peer
    assert leaf is not None
    leaf.p_keys = [0x8001]
    leaf.inbound_enforcement = 1
    set_enforcement_caps(leaf.node, inbound, outbound)
    set_p_key_capacity(leaf.node, enforcement_cap=capacity)
    assert drops in packet(subnet, "pkey=0xffff")


@pytest.mark.parametrize(("check", "becomes"), [("partition", "received"), ("membership", "dropped by inbound")])
def test_what_inbound_enforcement_makes_of_a_limited_p_key_is_a_setting(
    subnet: Subnet, check: InboundCheck, becomes: str
) -> None:
    leaf = subnet.port(A, 1).peer
    assert leaf is not None
    leaf.p_keys = [0x7FFF]
    leaf.inbound_enforcement = 1
    subnet.inbound_check = check
    assert becomes in packet(subnet, "pkey=0x7fff")
    assert "received" in packet(subnet, "pkey=0xffff")

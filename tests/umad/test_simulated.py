"""The simulated backend as a `UmadPort`: what it promises beyond the subnet itself. Its clock is virtual."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest

from ibkeys.errors import (
    AddressError,
    AgentRefused,
    ClosedError,
    DeviceGone,
    FileFormatError,
    NoDevice,
    StoreError,
    StoreLocked,
    UsageError,
)
from ibkeys.mad.attributes import NodeInfo, PKeyTable, PortInfo
from ibkeys.mad.const import AttributeID, Method
from ibkeys.mad.smp import build_smp
from ibkeys.sim.subnet import Subnet
from ibkeys.umad.port import ETIMEDOUT, Incoming, Outgoing, SendFailure, UmadPort
from ibkeys.umad.sim_spec import SimSpec, parse_spec
from ibkeys.umad.simulated import SimulatedPort, open_simulated, port_on
from tests.corpus import DATA

DUAL_HOME = DATA / "fabrics" / "dual-home.net"
DB01, SWITCH = "db01 mlx5_0", "MF0;ib-a:SB7780/U1"
GET, SET, NODE_INFO = Method.GET, Method.SET, AttributeID.NODE_INFO


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> UmadPort:
    monkeypatch.delenv("SIM_HOST", raising=False)
    return open_simulated(f"sim:{DUAL_HOME}")


@pytest.fixture
def sim(port: UmadPort) -> SimulatedPort:
    assert isinstance(port, SimulatedPort)
    return port


def get(tid: int, *path: int, attribute: int = NODE_INFO, timeout_ms: int = 1000, m_key: int = 0) -> Outgoing:
    return Outgoing(build_smp(GET, attribute, path=path, transaction_id=tid, m_key=m_key), timeout_ms=timeout_ms)


def tid(incoming: Incoming) -> int:
    return int.from_bytes(incoming.mad[12:16])


# Where it sits


@pytest.mark.parametrize(
    ("at", "number", "name", "port_number"),
    [
        (None, None, DB01, 1),
        (DB01, 2, DB01, 2),
        (SWITCH, None, SWITCH, 0),
        (SWITCH, 0, SWITCH, 0),
        ("H-248a070300b10200", None, "db02 mlx5_0", 1),
        (0x248A070300B10202, None, "db02 mlx5_0", 1),
        ("0x248a070300b10200", None, "db02 mlx5_0", 1),
        ("backup01 mlx5_0", None, "backup01 mlx5_0", 2),  # the first port with a cable
    ],
)
def test_where_it_attaches(
    monkeypatch: pytest.MonkeyPatch, at: str | int | None, number: int | None, name: str, port_number: int
) -> None:
    monkeypatch.delenv("SIM_HOST", raising=False)
    sim = open_simulated(f"sim:{DUAL_HOME}", "sim0", number, at)
    assert (sim.home.node.description, sim.port, sim.ca_name) == (name, port_number, "sim0")


def test_sim_host_names_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIM_HOST", "db03 mlx5_0")
    assert open_simulated(f"sim:{DUAL_HOME}").home.node.description == "db03 mlx5_0"
    assert open_simulated(f"sim:{DUAL_HOME}", at=DB01).home.node.description == DB01
    assert port_on(Subnet.from_file(DUAL_HOME)).home.node.description == "db03 mlx5_0"


def test_what_is_not_there() -> None:
    with pytest.raises(NoDevice, match="mlx5_0"):
        open_simulated(f"sim:{DUAL_HOME}", ca="mlx5_0")
    with pytest.raises(NoDevice, match="ports 1 to 2"):
        open_simulated(f"sim:{DUAL_HOME}", port=3, at=DB01)
    with pytest.raises(NoDevice, match="port 0"):
        open_simulated(f"sim:{DUAL_HOME}", port=1, at=SWITCH)
    with pytest.raises(AddressError):
        open_simulated(f"sim:{DUAL_HOME}", at="nobody")
    with pytest.raises(FileFormatError, match="No such file"):
        open_simulated("sim:/nonexistent.net")


def test_attributes_and_local_ca(sim: SimulatedPort) -> None:
    local = sim.attributes()
    assert (local.ca_name, local.port, local.base_lid, local.state, local.phys_state) == ("sim0", 1, 1, 4, 5)
    assert (local.port_guid, local.link_layer) == (0x248A070300B10101, "InfiniBand")
    assert local.pkeys[:2] == (0xFFFF, 0)
    assert local.gid_prefix == 0xFE80000000000000
    ca = sim.local_ca()
    assert (ca.name, ca.node_type, ca.ca_type, [known.port for known in ca.ports]) == ("sim0", 1, "MT4117", [1, 2])


# The option string


def test_every_option() -> None:
    text = "sim:lab.net,state=/s,port-guids=ibsim,seed=7,links=initialize,sm=node 1,drop=30,duplicate=12.5%,delay=1"
    assert parse_spec(text) == SimSpec(
        "lab.net", Path("/s"), "ibsim", 7, "initialize", "node 1", drop=0.3, duplicate=0.125, delay=0.01
    )
    assert parse_spec("sim:") == parse_spec("sim") == SimSpec()
    assert parse_spec("sim:,seed=3") == SimSpec(seed=3)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("umad", "sim:FILE"),
        ("sims:x", "sim:FILE"),
        (
            "sim:x,what=1",
            "choose from state=, port-guids=, seed=, links=, sm=, sa-key=, sa-trust=, sa-wildcards=, drop=, ",
        ),
        ("sim:a,b.net", "commas"),
        ("sim:x,seed=1,seed=2", "twice"),
        ("sim:x,state=", "empty"),
        ("sim:x,port-guids=mine", "file or ibsim"),
        ("sim:x,links=up", "active or initialize"),
        ("sim:x,seed=-1", "decimal"),
        ("sim:x,drop=101", "percentage"),
        ("sim:x,drop=nan", "percentage"),
        ("sim:x,delay=a", "percentage"),
    ],
)
def test_options_that_make_no_sense(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words.replace("(", r"\(")) as caught:
        parse_spec(text)
    assert "\n" not in str(caught.value)


def test_options_reach_the_subnet() -> None:
    sim = open_simulated(f"sim:{DUAL_HOME},sm={SWITCH},drop=10,duplicate=20,delay=30,links=initialize,port-guids=ibsim")
    faults = sim.subnet.faults
    assert (faults.drop, faults.duplicate, faults.delay) == (0.1, 0.2, 0.3)
    assert sim.attributes().sm_lid == sim.subnet.port(SWITCH, 0).lid
    assert sim.attributes().state == 2


# Sending and receiving


def test_a_batch_is_answered_in_order(port: UmadPort) -> None:
    assert port.send([get(1), get(2, 1), get(3, 1, 2)]) == []
    arrived = port.recv(0)
    assert [tid(incoming) for incoming in arrived] == [1, 2, 3]
    assert [NodeInfo(incoming.mad[64:128]).node_type for incoming in arrived] == [1, 2, 1]
    assert {(incoming.status, incoming.lid, incoming.qpn, len(incoming.mad)) for incoming in arrived} == {
        (0, 0xFFFF, 0, 256)
    }
    assert port.now() == 0.0
    assert port.recv(2.5) == []
    assert port.now() == 2.5


def test_by_lid(port: UmadPort) -> None:
    port.send([Outgoing(build_smp(GET, NODE_INFO, transaction_id=4), lid=3)])
    (incoming,) = port.recv(0)
    assert (incoming.lid, NodeInfo(incoming.mad[64:128]).node_guid) == (3, 0x248A070300B10200)


def test_the_kernel_owns_the_upper_half_of_the_transaction_id(port: UmadPort) -> None:
    port.send([get(0xAAAA_BBBB_0000_0009)])
    assert port.recv(0)[0].mad[8:16] == bytes.fromhex("0000000100000009")


def test_an_attempt_without_an_answer_times_out_with_the_header_only(port: UmadPort) -> None:
    port.send([get(1, 9, timeout_ms=500), get(2, 1, 7, timeout_ms=200), get(3), get(4, 1, 7, timeout_ms=0)])
    assert [tid(incoming) for incoming in port.recv(1)] == [3]
    (first,) = port.recv(1)
    assert (tid(first), first.status, len(first.mad), port.now()) == (2, ETIMEDOUT, 24, 0.2)
    (second,) = port.recv(1)
    assert (tid(second), port.now()) == (1, 0.5)
    assert port.recv(1) == []  # nothing is said about an attempt without a timeout
    assert port.now() == 1.5


def test_the_timeouts_of_answered_requests_do_not_fill_the_memory(port: UmadPort) -> None:
    """Virtual time stands still as long as every answer is there at once, so none of these timeouts is ever due."""
    port.send([get(1, 9)])

    def ask(first: int) -> None:
        for number in range(first, first + 1000):
            port.send([get(number)])
            assert [tid(incoming) for incoming in port.recv(1)] == [number]

    ask(2)
    tracemalloc.start()
    try:
        ask(1002)
        ask(2002)
        assert tracemalloc.get_traced_memory()[0] < 256 * 1024
    finally:
        tracemalloc.stop()
    assert port.now() == 0
    assert [(tid(incoming), incoming.status) for incoming in port.recv(5)] == [(1, ETIMEDOUT)]
    assert port.now() == 1
    assert port.recv(5) == []


def test_a_transaction_id_is_busy_until_its_end(port: UmadPort) -> None:
    assert port.send([get(7), get(7), get(8)]) == [SendFailure(1, errno.EINVAL)]
    port.recv(0)
    assert port.send([get(7)]) == []


@pytest.mark.parametrize("mad", [bytes(35), bytes(257), b"\1\x03" + bytes(254)])
def test_what_the_kernel_does_not_send(port: UmadPort, mad: bytes) -> None:
    """Too short, too long, or of a class that no agent is registered for."""
    assert port.send([Outgoing(mad)]) == [SendFailure(0, errno.EINVAL)]


def test_late_and_duplicate_replies_arrive_unless_told_otherwise(sim: SimulatedPort) -> None:
    sim.subnet.faults.duplicate = 1.0
    sim.send([get(1)])
    assert [tid(incoming) for incoming in sim.recv(0)] == [1, 1]
    sim.discard_late = True
    sim.send([get(2)])
    assert [tid(incoming) for incoming in sim.recv(0)] == [2]
    sim.subnet.faults.duplicate, sim.subnet.faults.delay, sim.discard_late = 0.0, 1.0, False
    sim.send([get(3, timeout_ms=1)])
    assert [incoming.status for incoming in sim.recv(5)] == [ETIMEDOUT]
    assert [(tid(incoming), incoming.status) for incoming in sim.recv(5)] == [(3, 0)]


def test_three_ways_in_which_the_own_port_refuses(sim: SimulatedPort) -> None:
    sim.home.m_key, sim.home.protect_bits = 5, 2
    sim.send([get(1)])
    assert [incoming.status for incoming in sim.recv(9)] == [ETIMEDOUT]
    sim.local_refusal = "silent"
    assert sim.send([get(2)]) == []
    assert sim.recv(9) == []
    sim.local_refusal = "einval"
    assert sim.send([get(3), get(4, m_key=5), get(5, 1)]) == [SendFailure(0, errno.EINVAL)]
    assert [tid(incoming) for incoming in sim.recv(9)] == [4, 5]
    assert sim.home.m_key_violations == 3
    sim.send([Outgoing(build_smp(GET, NODE_INFO, transaction_id=6), lid=sim.home.lid)])
    assert [incoming.status for incoming in sim.recv(9)] == [ETIMEDOUT]  # by the own LID it is a timeout after all


def test_two_ports_share_a_subnet_and_its_clock() -> None:
    subnet = Subnet.from_file(DUAL_HOME)
    with SimulatedPort(subnet, DB01) as one, SimulatedPort(subnet, SWITCH) as two:
        one.send([get(1, 9)])
        two.send([get(1, 1)])
        assert [incoming.status for incoming in two.recv(0)] == [0]
        assert [incoming.status for incoming in one.recv(3)] == [ETIMEDOUT]
        assert two.now() == 1.0


def test_traps_go_to_the_agent_that_asked_for_them(sim: SimulatedPort) -> None:
    sim.subnet.set_sm(DB01)
    victim = sim.subnet.port(SWITCH, 0)
    victim.m_key, victim.protect_bits, victim.subnet_timeout = 5, 2, 0
    sim.send([get(1, 1)])
    assert [incoming.status for incoming in sim.recv(3)] == [ETIMEDOUT]
    sim.register(0x01, 1, [Method.TRAP])
    with pytest.raises(AgentRefused):
        sim.register(0x01, 1, [Method.TRAP])
    sim.send([get(2, 1)])
    (trap,) = sim.recv(0)
    assert (trap.mad[3], trap.lid) == (Method.TRAP, victim.lid)


def test_a_trap_is_answered_by_trap_repress(sim: SimulatedPort) -> None:
    subnet = sim.subnet
    manager = SimulatedPort(subnet, SWITCH)
    manager.register(0x01, 1, [Method.TRAP])
    sim.discard_late = True
    trap = build_smp(Method.TRAP, AttributeID.NOTICE, transaction_id=5)
    sim.send([Outgoing(trap, lid=manager.home.lid, timeout_ms=1000)])
    (came,) = manager.recv(0)
    repress = Outgoing(came.mad[:3] + bytes([Method.TRAP_REPRESS]) + came.mad[4:], lid=sim.home.lid)
    other = Outgoing(repress.mad[:15] + b"\x06" + repress.mad[16:], lid=sim.home.lid)
    manager.send([other, repress, repress])
    (answer,) = sim.recv(10)
    assert (answer.mad[3], answer.status, tid(answer)) == (Method.TRAP_REPRESS, 0, 5)
    assert sim.recv(10) == [], "neither a timeout nor one that nobody waits for"


def test_after_close_and_after_the_device_is_gone(sim: SimulatedPort) -> None:
    sim.gone = True
    with pytest.raises(DeviceGone):
        sim.recv(0)
    sim.gone = False
    sim.close()
    sim.close()
    for use in (lambda: sim.send([]), lambda: sim.recv(0), sim.attributes, lambda: sim.register(3)):
        with pytest.raises(ClosedError):
            use()


# The state file


def change(sim: SimulatedPort, key: int) -> None:
    data = PKeyTable.new(p_keys=(0xFFFF, key, *[0] * 30)).raw
    sim.send([Outgoing(build_smp(SET, AttributeID.P_KEY_TABLE, path=(), data=data, transaction_id=key))])
    assert len(sim.recv(0)) == 1


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "lab.state"


def opened(state: Path) -> SimulatedPort:
    return open_simulated(f"sim:{DUAL_HOME},state={state}", at=DB01)


def test_state_lasts_and_is_private(state: Path) -> None:
    with opened(state) as sim:
        change(sim, 0x8001)
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    assert os.listdir(state.parent) == [state.name]
    with opened(state) as sim:
        assert sim.home.p_keys[:3] == [0xFFFF, 0x8001, 0]


def test_a_set_is_on_disk_before_its_reply_is_read(state: Path) -> None:
    with opened(state) as sim:
        data = PKeyTable.new(p_keys=(0x8005, *[0] * 31)).raw
        sim.send([Outgoing(build_smp(SET, AttributeID.P_KEY_TABLE, path=(), data=data))])
        assert "8005" in state.read_text()


def test_one_process_at_a_time(state: Path) -> None:
    with opened(state) as sim:
        with pytest.raises(StoreLocked, match="another process"):
            opened(state)
        change(sim, 0x8001)  # a new file was renamed into place: still locked
        code = "import sys; from ibkeys.umad.simulated import open_simulated; open_simulated(sys.argv[1])"
        done = subprocess.run(
            [sys.executable, "-c", code, f"sim:{DUAL_HOME},state={state}"], capture_output=True, text=True, check=False
        )
        assert "StoreLocked" in done.stderr
    opened(state).close()


def test_time_between_runs_counts(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(state) as sim:
        sim.home.m_key, sim.home.protect_bits, sim.home.lease_period = 5, 2, 60
        sim.local_refusal = "silent"
        sim.send([get(1)])
        assert sim.home.lease_deadline is not None
        lease = sim.home.lease_deadline - sim.now()
        assert 59 < lease <= 60
    wall = time.time()
    monkeypatch.setattr("ibkeys.sim.state.file.time.time", lambda: wall + 61)
    with opened(state) as sim:
        sim.send([get(1, attribute=AttributeID.PORT_INFO)])
        assert PortInfo(sim.recv(0)[0].mad[64:128]).m_key == 5
        assert sim.home.protect_bits == 0


def test_a_state_file_that_cannot_be_used(state: Path, tmp_path: Path) -> None:
    for text in ("{", "[]", '{"wall": 1}', "null", json.dumps({"wall": 1, "subnet": {}})):
        state.write_text(text)
        with pytest.raises(StoreError, match=r"lab\.state"):
            opened(state)
        assert state.read_text() == text
    with pytest.raises(StoreError, match="cannot be opened"):
        opened(tmp_path / "none" / "x")
    state.unlink()
    open_simulated(f"sim:,state={state}").close()
    with pytest.raises(StoreError, match="another net file"):
        opened(state)


def test_a_save_that_fails_leaves_the_old_state(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sim = opened(state)
    change(sim, 0x8001)
    before = state.read_text()

    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("ibkeys.sim.state.file.os.fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        change(sim, 0x8002)
    assert state.read_text() == before
    assert os.listdir(state.parent) == [state.name]
    with pytest.raises(StoreError):
        sim.close()
    monkeypatch.undo()
    with opened(state) as again:
        assert again.home.p_keys[1] == 0x8001

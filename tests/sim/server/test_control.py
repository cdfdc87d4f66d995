"""Control requests of programs, which speak the client protocol as libumad2sim does."""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable
from contextlib import ExitStack

from ibkeys.mad.const import AttributeID, Method
from ibkeys.sim.server import ibsim_protocol as protocol
from ibkeys.sim.server.server import Server
from ibkeys.sim.subnet import Subnet
from tests.sim.server.programs import NET, TIMEOUT, Program, RunningOpensm, get


def test_the_sequence_of_the_client_library(running: RunningOpensm) -> None:
    one, switch = running.attach("H-1"), running.attach("the switch")
    assert (one.slot, one.node, switch.slot, switch.node) == (0, "H-1", 1, "S-1")
    vendor_id, device_id, revision, version = struct.unpack("=III4xQ", one.ask(protocol.GET_VENDOR).data[:24])
    node = running.subnet.node("H-1")
    assert (vendor_id, device_id, revision, version) == (node.vendor_id, node.device_id, node.revision, 1)
    assert one.ask(protocol.GET_NODE_INFO).data == node.node_info(1)
    assert switch.ask(protocol.GET_NODE_INFO).data == running.subnet.node("S-1").node_info(0)
    assert one.ask(protocol.GET_PORT).data[:3] == struct.pack("=HB", 2, 4)
    info = one.ask(protocol.GET_PORT_INFO).data
    assert info == one.ask(protocol.GET_PORT_INFO, b"\1").data
    assert (info[28], int.from_bytes(info[16:18])) == (1, 2)
    assert switch.ask(protocol.GET_PORT_INFO, b"\3").data[28] == 3
    assert one.ask(protocol.GET_PORT_INFO, b"\2").kind == protocol.ERROR
    assert one.ask(protocol.GET_P_KEYS).data == b"\xff\xff" + bytes(62)
    assert one.ask(protocol.GET_GUID).data[:8] == struct.pack("=Q", node.guid)
    assert one.ask(protocol.GET_GID).data[8:16] == struct.pack("=Q", node.guid)
    assert one.ask(11, b"whatever").data[:8] == b"whatever"
    assert one.ask(protocol.DISCONNECT).kind == protocol.DISCONNECT
    assert [line.split()[1] for line in running.attached()] == ["1"]


def test_the_host_never_reads_its_m_key_this_way(running: RunningOpensm) -> None:
    running.subnet.port("H-1", 1).m_key = 0x1234567890
    info = running.attach("H-1").ask(protocol.GET_PORT_INFO).data
    assert info[:8] == bytes(8)


def test_programs_attach_where_there_is_a_link(running: RunningOpensm) -> None:
    assert running.attach("H-3").ask(protocol.GET_PORT_INFO).data[28] == 2


def test_programs_that_name_no_node_attach_to_the_first_one_or_to_home(run: Callable[..., RunningOpensm]) -> None:
    assert run().attach("").node == "S-1"
    subnet = Subnet.from_text(NET)
    with ExitStack() as stack:
        server = stack.enter_context(Server(subnet, f"ibkeys-home-{os.getpid()}", home=subnet.node("H-2")))
        thread = threading.Thread(target=server.serve, daemon=True)
        thread.start()
        stack.callback(thread.join, TIMEOUT)
        stack.callback(server.stop)
        assert stack.enter_context(Program(server.name)).node == "H-2"


def test_what_connect_refuses(running: RunningOpensm) -> None:
    assert running.attach("H-9").slot is None
    sm = running.attach("H-1", is_sm=True)
    assert sm.slot == 0
    assert running.attach("H-1", is_sm=True).slot is None
    assert running.attach("H-2", is_sm=True).slot == 1
    sm.close()
    assert running.attach("H-1", is_sm=True).slot is not None


def test_connect_without_a_data_socket_is_refused(running: RunningOpensm) -> None:
    program = running.attach("H-1", connect=False)
    program.data.close()
    assert program.ask(protocol.CONNECT, protocol.client_info(program.ident, False, "")).kind == protocol.ERROR


def test_nobody_speaks_for_another_program(running: RunningOpensm) -> None:
    one, two = running.attach("H-1"), running.attach("H-2")
    assert two.ask(protocol.DISCONNECT, client=one.slot).kind == protocol.ERROR
    assert two.ask(protocol.GET_PORT, client=77).kind == protocol.ERROR
    assert one.exchange(get(AttributeID.NODE_INFO)).mad[3] == 0x81


def test_malformed_control_requests_get_no_reply(running: RunningOpensm) -> None:
    program = running.attach("H-1")
    good = struct.pack("=IIII64s", protocol.MAGIC, 0, protocol.GET_PORT, 0, b"")
    for raw in (b"", good[:79], good + b"\0", b"\0" + good[1:], good[:4] + struct.pack("=I", 256) + good[8:]):
        program.control.send(raw)
    assert program.ask(protocol.GET_PORT).kind == protocol.GET_PORT
    assert running.server.counts()["malformed"] == 5


def test_is_sm_is_set_and_cleared(running: RunningOpensm) -> None:
    port = running.subnet.port("H-1", 1)
    one, two = running.attach("H-1"), running.attach("H-1", is_sm=True)
    assert port.capability_mask & 2
    one.ask(protocol.SET_IS_SM, struct.pack("=i", 1))
    two.ask(protocol.DISCONNECT)
    assert port.capability_mask & 2
    one.close()
    running.wait_until(lambda: not running.attached())
    assert not port.capability_mask & 2


def test_is_sm_sends_trap_144_to_the_subnet_manager(running: RunningOpensm) -> None:
    sm = running.attach("H-2", is_sm=True)
    for node in running.subnet.nodes:
        for port in node.end_ports:
            port.sm_lid = 3
    running.attach("H-1", is_sm=True)
    trap = sm.receive()
    assert (trap.dlid, trap.slid, trap.dqp, trap.status, trap.length) == (3, 2, 0, 0, 256)
    assert (trap.mad[1], trap.mad[3], int.from_bytes(trap.mad[68:70])) == (1, Method.TRAP, 144)

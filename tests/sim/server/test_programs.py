"""Programs that come, go, die and send noise, and the server that goes on."""

from __future__ import annotations

from ibkeys.mad.const import AttributeID, Method, MgmtClass
from ibkeys.sim.server import clients
from ibkeys.sim.server import ibsim_protocol as protocol
from tests.sim.server.programs import Program, RunningOpensm, get, tid


def test_more_programs_than_ibsim_has_slots_for(running: RunningOpensm) -> None:
    programs = [running.attach("H-1") for _ in range(clients.MAX_CLIENTS)]
    assert [program.slot for program in programs] == list(range(clients.MAX_CLIENTS))
    assert running.attach("H-1").slot is None
    assert tid(programs[200].exchange(get(AttributeID.NODE_INFO)).mad) == 200 << 48 | 7
    programs[100].close()
    assert running.attach("H-1").slot == 100


def test_a_hundred_programs_attach_and_die(running: RunningOpensm) -> None:
    one = running.attach("H-2")
    for turn in range(100):
        program = Program(running.name, "H-1", is_sm=turn % 2 == 0)
        assert program.slot is not None
        program.send(get(AttributeID.NODE_INFO))
        if turn % 3:
            program.receive()
        program.close()
    running.wait_until(lambda: len(running.attached()) == 1)
    assert one.exchange(get(AttributeID.NODE_INFO)).status == 0
    assert not running.subnet.port("H-1", 1).capability_mask & 2


def test_a_program_that_attaches_again_gets_a_new_start(running: RunningOpensm) -> None:
    program = running.attach("H-1")
    program.data.close()
    program.data = program.open_socket("in")
    reply = program.ask(protocol.CONNECT, protocol.client_info(program.ident, False, "H-2"))
    assert protocol.parse_client_info(reply.data).ident == 0
    assert len(running.attached()) == 1


def test_a_program_that_is_an_sm_gets_no_request_of_a_class_that_it_has_no_agent_for(running: RunningOpensm) -> None:
    """A kernel drops it; OpenSM, handed one by libumad2sim, never answers the SA's questions again."""
    manager, asker = running.attach("H-1", is_sm=True), running.attach("H-2")
    baseboard = bytes((1, MgmtClass.BASEBOARD, 1, Method.GET)).ljust(256, b"\0")
    asker.send(baseboard, 2, qpn=1, sqp=1)
    assert manager.hears_nothing()
    asker.send(bytes((1, MgmtClass.SUBN_ADM, 2, Method.GET)).ljust(256, b"\0"), 2, qpn=1, sqp=1)
    assert manager.receive().mad[1] == MgmtClass.SUBN_ADM

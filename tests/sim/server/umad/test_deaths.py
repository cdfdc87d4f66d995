"""Programs that die after each message and in the middle of a long one, and a server that ends before them."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from ibkeys.mad.const import AttributeID, Method
from ibkeys.mad.sa import ACTIVE
from ibkeys.mad.smp import build_smp
from ibkeys.sim.server.umad import wire
from ibkeys.sim.server.umad.wire import Kind, WireQuestion
from tests.sim.server.programs import RunningOpensm, get, gmp
from tests.sim.server.umad.programs import DIRECTED, SA, SUBN, Program, ask, connect, hello, memory_with

Opener = Callable[..., Program]
NODE_INFO = int(AttributeID.NODE_INFO)
GET, GET_TABLE = int(Method.GET), 0x12


def long_mad(size: int = 100_000) -> bytes:
    return gmp(SA, GET_TABLE, 0x11)[:26] + bytes((ACTIVE,)) + bytes(29 + size)


STEPS: dict[str, Callable[[Program], object]] = {
    "open": lambda one: None,
    "register": lambda one: one.record(Kind.REGISTER, bytes(28)),
    "send": lambda one: one.record(Kind.SEND, one.header(0) + get(NODE_INFO)),
    "send to nowhere": lambda one: one.record(Kind.SEND, one.header(0, timeout=30) + get(NODE_INFO, path=(1, 4))),
    "ask a program": lambda one: one.record(
        Kind.SEND, one.header(1, 3) + build_smp(GET, AttributeID.SM_INFO, transaction_id=5)
    ),
    "a long one": lambda one: send_long(one),
    "many": lambda one: [one.record(Kind.SEND, one.header(0) + get(NODE_INFO, tid=each)) for each in range(300)],
}


def send_long(one: Program) -> None:
    memory = memory_with(long_mad())
    one.record(Kind.SEND, one.header(2, 3, qpn=1), memory)
    os.close(memory)


@pytest.mark.parametrize("step", STEPS)
def test_a_program_that_dies_leaves_nothing(running: RunningOpensm, program: Opener, step: str) -> None:
    other = program("H-2")
    taking = other.register(SUBN, [GET])
    other.register(SA, [GET_TABLE], 2, rmpp=1)
    before = len(os.listdir("/proc/self/fd"))
    one = program("H-1")
    for each in ((DIRECTED, 1, 0), (SUBN, 1, 0), (SA, 2, 1)):
        one.register(each[0], version=each[1], rmpp=each[2])
    STEPS[step](one)
    one.page.close()
    one.close()
    running.wait_until(lambda: len(running.attached()) == 1)
    running.wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before)
    again = program("H-1")
    agent = again.register(DIRECTED)
    assert again.exchange(agent, get(NODE_INFO)).status == 0
    assert other.send(taking, build_smp(GET, NODE_INFO), 3, timeout=0) == 0


def test_the_asker_of_a_program_that_dies_gets_a_timeout(running: RunningOpensm, program: Opener) -> None:
    one, two = program("H-1"), program("H-2")
    asking = one.register(SUBN)
    two.register(SUBN, [GET])
    assert one.send(asking, build_smp(GET, AttributeID.SM_INFO, transaction_id=5), 3, timeout=50) == 0
    two.receive()
    two.close()
    assert one.receive().status != 0
    running.wait_until(lambda: len(running.attached()) == 1)


def test_a_stranger_may_leave_at_any_moment(running: RunningOpensm) -> None:
    for raw in (
        b"",
        hello(WireQuestion.OPEN)[:9],
        hello(WireQuestion.OPEN),
        hello(WireQuestion.PORT),
        hello(WireQuestion.NAMES),
    ):
        with connect(running.name) as connected:
            if raw:
                connected.send(raw)
    assert ask(running.name, WireQuestion.NAMES)[0] == 0
    running.wait_until(lambda: not running.attached())


def test_a_reply_to_somebody_who_is_gone(running: RunningOpensm, program: Opener) -> None:
    one = program()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    socket.send_fds(one.socket, [wire.record(Kind.UNREGISTER, wire.REPLY, bytes(4))], [theirs.fileno()])
    ours.close()
    theirs.close()
    assert one.register(DIRECTED) == 0


def test_a_server_that_ends_hangs_up() -> None:
    with ExitStack() as stack:
        one = Program(RunningOpensm(stack).name)
    with one:
        assert one.is_cut_off()

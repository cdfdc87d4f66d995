"""Steering a server while it runs: over its socket, by a script, and its time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from ibkeys.errors import TransportError, UsageError
from ibkeys.sim.server import ibsim_protocol as protocol
from ibkeys.sim.server import steer_socket
from ibkeys.sim.server.server import Server
from ibkeys.sim.steering.script import Script
from ibkeys.sim.subnet import Subnet
from tests.sim.server.programs import NET, TIMEOUT, RunningOpensm


def test_steering(running: RunningOpensm) -> None:
    assert "is out" in running.steer('link "one HCA-1"[1] down')
    assert running.subnet.port("H-1", 1).peer is None
    assert steer_socket.ask(running.name, "nonsense").outcome == "usage"
    assert steer_socket.ask(running.name, "show H-9").outcome == "usage"
    assert steer_socket.ask(running.name, "x" * 5000).outcome == "usage"
    assert "clients" in running.steer("help")
    assert running.steer("counts").startswith("packets: 0")


def test_steering_in_pieces_in_silence_and_without_reading(running: RunningOpensm) -> None:
    silent = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(steer_socket.MAX_CONNECTIONS - 2)]
    for each in silent:
        each.connect(protocol.socket_name(running.name, "steer"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as slow:
        slow.settimeout(TIMEOUT)
        slow.connect(protocol.socket_name(running.name, "steer"))
        slow.send(b"clie")
        running.steer("counts")
        slow.send(b"nts\n")
        assert slow.recv(100) == b"ok\n"
    for each in silent:
        each.close()
    running.wait_until(lambda: not running.server.steering.connections)


def test_a_program_that_died_is_not_among_the_clients(running: RunningOpensm) -> None:
    program = running.attach("H-1", is_sm=True)
    assert running.attached() != []
    program.close()
    assert running.attached() == []
    assert not running.subnet.port("H-1", 1).capability_mask & 2


def test_nobody_is_there_to_be_steered() -> None:
    with pytest.raises(TransportError, match="no simulator runs"):
        steer_socket.ask("ibkeys-nobody", "help")


def test_time_that_was_let_pass_stays_ahead(running: RunningOpensm) -> None:
    before = running.subnet.now
    running.steer("time +100")
    first = running.subnet.now
    time.sleep(0.02)
    assert first >= before + 100
    assert running.subnet.now > first, "real time goes on from there"


def test_a_script_is_played_in_its_time(run: Callable[..., RunningOpensm]) -> None:
    running = run()
    running.server.stop()
    subnet = Subnet.from_text(NET)
    with ExitStack() as stack:
        server = stack.enter_context(Server(subnet, f"{running.name}-script"))
        server.steering.play(Script.parse("silent H-1 on\n@0.2 silent H-1 off\n@0.3 silent H-9 on\n"))
        assert subnet.node("H-1").silent == 1
        thread = threading.Thread(target=server.serve, daemon=True)
        thread.start()
        stack.callback(thread.join, TIMEOUT)
        stack.callback(server.stop)
        running.wait_until(lambda: subnet.node("H-1").silent == 0)
    with Server(subnet, f"{running.name}-bad") as server, pytest.raises(UsageError, match="line 1"):
        server.steering.play(Script.parse("silent H-9 on"))

"""Whose programs they are: the kernel says who sent a datagram, and what other users ask is not done."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from ibkeys.errors import TransportError, UsageError
from ibkeys.mad.const import AttributeID
from ibkeys.sim.server import clients, steer_socket
from ibkeys.sim.server import ibsim_protocol as protocol
from ibkeys.sim.server.server import Server
from ibkeys.sim.subnet import Subnet
from tests.sim.server.programs import NET, TIMEOUT, Program, RunningOpensm, fresh_name, get, idents

OTHER_USER = 65534


def test_a_program_of_another_user_gets_no_slot_and_is_told_at_once(run: Callable[..., RunningOpensm]) -> None:
    running = run(users={OTHER_USER})
    for _ in range(clients.MAX_CLIENTS + 1):
        with Program(running.name, "H-1") as stranger:
            assert stranger.slot is None
    assert len(running.server.clients) == 0
    assert running.server.counts()["of other users"] == clients.MAX_CLIENTS + 1
    assert len(running.said) == 1
    assert "--allow-others" in running.said[0]


def test_what_another_user_asks_of_an_attached_program_is_not_done(run: Callable[..., RunningOpensm]) -> None:
    users = {os.geteuid()}
    running = run(users=users)
    mine = running.attach("H-1")
    users.clear()
    assert mine.ask(protocol.DISCONNECT).kind == protocol.ERROR
    users.add(os.geteuid())
    assert mine.exchange(get(AttributeID.NODE_INFO)).status == 0


def test_a_packet_of_another_user_changes_nothing(run: Callable[..., RunningOpensm]) -> None:
    """The name of a program's socket may have been taken by another user before the program itself."""
    users = {os.geteuid()}
    running = run(users=users)
    one = running.attach("H-1")
    users.clear()
    one.send(get(AttributeID.NODE_INFO))
    running.wait_until(lambda: running.server.counts().get("of other users") == 1)
    assert running.server.counts()["packets"] == 0
    users.add(os.geteuid())
    assert one.exchange(get(AttributeID.NODE_INFO)).status == 0


def test_another_user_may_not_steer(run: Callable[..., RunningOpensm]) -> None:
    running = run(users={OTHER_USER})
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stranger:
        stranger.settimeout(TIMEOUT)
        stranger.connect(protocol.socket_name(running.name, "steer"))
        assert stranger.recv(100) == b""


def test_with_allow_others_any_user_attaches_and_steers_nothing(run: Callable[..., RunningOpensm]) -> None:
    running = run(users={OTHER_USER}, allow_others=True)
    assert running.attach("H-1").exchange(get(AttributeID.NODE_INFO)).status == 0
    with pytest.raises(TransportError, match="closed the connection"):
        steer_socket.ask(running.name, "clients", TIMEOUT)


def test_over_udp_nobody_is_told_apart_so_it_must_be_allowed() -> None:
    with pytest.raises(UsageError, match="let all users attach"):
        Server(Subnet.from_text(NET), "x", listen=("127.0.0.1", 7070))


def test_packets_that_came_before_the_program_could_know_its_slot_are_not_taken_for_its_own() -> None:
    """Whoever guesses the slot can send to its socket until that is connected: then the kernel refuses."""
    name = fresh_name()

    class Raced(clients.Clients):
        def _peer(self, ident: int, address: clients.SocketAddress) -> clients.SocketAddress:
            return protocol.socket_name(name, "in1")

    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as program,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger,
        pytest.MonkeyPatch.context() as patch,
    ):
        program.bind(protocol.socket_name(name, "in1"))
        bind = socket.socket.bind

        class Socket(socket.socket):
            def bind(self, address: Any) -> None:
                bind(self, address)
                stranger.sendto(bytes(protocol.PACKET_SIZE), address)

        patch.setattr("ibkeys.sim.server.clients.socket.socket", Socket)
        client = Raced(name).add(1, Subnet.from_text(NET).node("H-1").ports[1], b"")
        assert client is not None
        with pytest.raises(BlockingIOError):
            client.socket.recv(500)
        with pytest.raises(PermissionError):
            stranger.sendto(bytes(protocol.PACKET_SIZE), protocol.socket_name(name, "out0"))
        client.socket.close()


STRANGER = """
import os, socket, struct, sys
name, user, ident, packet = sys.argv[1], int(sys.argv[2]), sys.argv[3], bytes.fromhex(sys.argv[4])
if os.geteuid() != user:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
control = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
control.bind(f"\\0{name}:ctl{os.getpid()}\\0".encode())
control.settimeout(30)
data = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
data.bind(f"\\0{name}:in{ident}\\0".encode())
control.connect(f"\\0{name}:ctl\\0".encode())
control.send(packet)
print(struct.unpack_from("=IIII", control.recv(100))[2])
"""


def test_the_kernel_says_who_sent_a_datagram(run: Callable[..., RunningOpensm]) -> None:
    """From a process of another user: a real one where this test runs as root, else by a server for root alone."""
    other, users = (OTHER_USER, None) if os.geteuid() == 0 else (os.geteuid(), {0})
    for allow_others, answer in ((False, protocol.ERROR), (True, protocol.CONNECT)):
        running = run(users=users, allow_others=allow_others)
        ident = next(idents)
        info = protocol.client_info(ident, False, "H-1")
        packet = struct.pack("=IIII64s", protocol.MAGIC, 0, protocol.CONNECT, len(info), info)
        command = [sys.executable, "-c", STRANGER, running.name, str(other), str(ident), packet.hex()]
        said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        assert int(said.stdout) == answer, said
        assert len(running.server.clients) == allow_others

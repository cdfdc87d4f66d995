"""What the server refuses, says and saves, and how it is served over UDP."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ibkeys.errors import TransportError
from ibkeys.mad.const import AttributeID
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.server import clients
from ibkeys.sim.server import ibsim_protocol as protocol
from ibkeys.sim.server.server import Server
from ibkeys.sim.subnet import Subnet
from tests.sim.server.programs import NET, TIMEOUT, RunningOpensm, get


def test_two_servers_cannot_have_one_name(running: RunningOpensm) -> None:
    with pytest.raises(TransportError, match="in use"):
        Server(Subnet.from_text(NET), running.name)


def test_a_bug_is_counted_and_said_and_ends_nothing(run: Callable[..., RunningOpensm]) -> None:
    running = run()
    one = running.attach("H-1")
    send = running.subnet.carrier.send

    def broken(mad: bytes, origin: SimPort, dlid: int = 0xFFFF) -> Any:
        if mad[17] == AttributeID.NODE_DESCRIPTION:
            raise ZeroDivisionError("secret")
        return send(mad, origin, dlid)

    running.subnet.carrier.send = broken  # type: ignore[method-assign]
    one.send(get(AttributeID.NODE_DESCRIPTION))
    assert one.exchange(get(AttributeID.NODE_INFO)).status == 0
    assert running.server.counts()["internal errors"] == 1
    assert "ZeroDivisionError at test_server.py" in running.said[0]
    assert "secret" not in running.said[0]
    for attribute in (AttributeID.NODE_INFO, AttributeID.NODE_DESCRIPTION, AttributeID.NODE_INFO):
        one.send(get(attribute))
    assert [one.receive().mad[17] for _ in range(2)] == [AttributeID.NODE_INFO] * 2


def test_watching_sees_both_directions_in_order(run: Callable[..., RunningOpensm]) -> None:
    seen: list[Any] = []
    running = run(watch=seen.append)
    one = running.attach("H-1")
    one.exchange(get(AttributeID.NODE_INFO))
    one.exchange(get(AttributeID.NODE_INFO, path=(9,)))
    assert [(each.out, each.mad[3], each.note) for each in seen] == [
        (True, 1, ""),
        (False, 0x81, ""),
        (True, 1, ""),
        (False, 1, "no answer: no route"),
    ]


def test_changes_are_saved_while_it_serves(run: Callable[..., RunningOpensm], tmp_path: Path) -> None:
    saved = threading.Event()
    run(save=saved.set)
    assert saved.wait(TIMEOUT)


def test_remote_mode(run: Callable[..., RunningOpensm]) -> None:
    base = free_ports(clients.MAX_CLIENTS + 1)
    run(listen=("127.0.0.1", base), allow_others=True)
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as data,
    ):
        for each in (control, data):
            each.bind(("127.0.0.1", 0))
            each.settimeout(TIMEOUT)
        ident = data.getsockname()[1]
        info = protocol.client_info(ident, False, "H-1")
        control.sendto(struct.pack("=IIII64s", protocol.MAGIC, 0, protocol.CONNECT, 44, info), ("127.0.0.1", base))
        reply = protocol.parse_control(control.recv(100))
        assert reply is not None
        assert protocol.parse_client_info(reply.data).ident == 0
        lids = protocol.packet_lid(0xFFFF) * 2
        packet = protocol.header(lids[:4], lids[4:], bytes(4), bytes(4)) + get(AttributeID.NODE_INFO)
        data.sendto(packet, ("127.0.0.1", base + 1))
        raw = data.recv(500)
        assert (len(raw), raw[35]) == (288, 0x81)


def free_ports(count: int) -> int:
    """Return the first of *count* UDP ports that were free a moment ago."""
    for base in range(10_000 + os.getpid() % 10_000, 32_000, count):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as first:
            try:
                first.bind(("127.0.0.1", base))
            except OSError:
                continue
            return base
    raise AssertionError("no UDP port is free")

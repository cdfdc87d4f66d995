"""ibsim with every MAD heard that a program on libumad2sim sends and gets: a relay between their datagram sockets."""

from __future__ import annotations

import os
import selectors
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from ibkeys.sim.server import ibsim_protocol as protocol
from tests.integration.ibsim import Ibsim

SLOTS: Final = range(10)


class Heard(NamedTuple):
    """A MAD that a program sent (``out``) to a LID, or got. Those that came back unanswered are left out."""

    out: bool
    dlid: int
    mad: bytes


def _heard(out: bool, raw: bytes) -> list[Heard]:
    if not out and raw[protocol.STATUS] != bytes(4):
        return []
    return [Heard(out, protocol.lid(raw[protocol.DLID]), raw[protocol.HEADER_SIZE :])]


def _send(opened: socket.socket, raw: bytes, name: str) -> None:
    """Send *raw* to a program, which may have ended before its answer came."""
    with suppress(ConnectionRefusedError):
        opened.sendto(raw, name)


def _bound(base: str, name: str) -> socket.socket:
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    opened.bind(protocol.socket_name(base, name))
    return opened


class Tapped(Ibsim):
    """A running ibsim behind a relay; ``heard``: the MADs of its programs in the order in which they passed."""

    def __init__(self, netfile: str | Path, **options: Any) -> None:
        super().__init__(netfile, **options)
        self.heard: list[Heard] = []
        self._behind = self.socket_name
        self._before = f"{self.socket_name}-tap"
        self._selector = selectors.DefaultSelector()
        self._wake, self._end = os.pipe()

    def started(self, name: str, command: Sequence[str], environment: dict[str, str], stdin: int = -3) -> Self:
        super().started(name, command, environment, stdin)
        self.socket_name = self._before
        self._control = _bound(self._before, "ctl")
        self._out = [_bound(self._before, f"out{slot}") for slot in SLOTS]
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._selector.register(self._control, selectors.EVENT_READ, self._asked)
        for slot, opened in enumerate(self._out):
            self._selector.register(opened, selectors.EVENT_READ, self._sent(slot))
        self._clients: dict[str, tuple[socket.socket, socket.socket]] = {}
        self._slots: dict[int, str] = {}
        self._thread = threading.Thread(target=self._relay, daemon=True)
        self._thread.start()
        return self

    def close(self) -> None:
        if self.program is not None and self._thread.is_alive():
            os.close(self._end)
            self._thread.join()
            self._selector.close()
            os.close(self._wake)
            for opened in (self._control, *self._out, *chain.from_iterable(self._clients.values())):
                opened.close()
        super().close()

    def _relay(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fd == self._wake:
                    return
                key.data(key.fileobj)

    def _asked(self, control: socket.socket) -> None:
        """Pass a control request on, from a socket with the name that ibsim expects of the program."""
        raw, address = control.recvfrom(protocol.CONTROL_SIZE)
        number = bytes(address).rstrip(b"\0").rpartition(b":ctl")[2].decode()
        if number not in self._clients:
            pair = _bound(self._behind, f"ctl{number}"), _bound(self._behind, f"in{number}")
            self._clients[number] = pair
            self._selector.register(pair[0], selectors.EVENT_READ, self._answered(number))
        self._clients[number][0].sendto(raw, protocol.socket_name(self._behind, "ctl"))

    def _answered(self, number: str) -> Any:
        def pass_back(opened: socket.socket) -> None:
            raw = opened.recv(protocol.CONTROL_SIZE)
            request = protocol.parse_control(raw)
            if request is not None and request.kind == protocol.CONNECT:
                slot = protocol.parse_client_info(request.data).ident
                self._slots[slot] = number
                self._selector.register(self._clients[number][1], selectors.EVENT_READ, self._got(slot))
            _send(self._control, raw, protocol.socket_name(self._before, f"ctl{number}"))

        return pass_back

    def _sent(self, slot: int) -> Any:
        def pass_on(opened: socket.socket) -> None:
            raw = opened.recv(protocol.PACKET_SIZE)
            self.heard += _heard(True, raw)
            pair = self._clients[self._slots[slot]]
            pair[1].sendto(raw, protocol.socket_name(self._behind, f"out{slot}"))

        return pass_on

    def _got(self, slot: int) -> Any:
        def pass_back(opened: socket.socket) -> None:
            raw = opened.recv(protocol.PACKET_SIZE)
            self.heard += _heard(False, raw)
            _send(self._out[slot], raw, protocol.socket_name(self._before, f"in{self._slots[slot]}"))

        return pass_back

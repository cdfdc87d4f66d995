"""The socket by which the user of a running simulator, or root, sends it commands.

Each connection carries one command and its answer. The first line of the answer is ``ok``, ``usage`` or ``error``, the
rest is its text.
"""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Callable, Container
from typing import Final, Literal, NamedTuple

from ibkeys.errors import TransportError
from ibkeys.sim.server import ibsim_protocol as protocol
from ibkeys.sim.server.credentials import own_users, user_of_stream
from ibkeys.sim.server.listening import listen_at

MAX_LINE: Final = 4096
MAX_CONNECTIONS: Final = 16
PATIENCE: Final = 10.0
"""Seconds that a client has to send its line and read the answer."""

SteeringOutcome = Literal["ok", "usage", "error"]
_OUTCOMES: Final[dict[str, SteeringOutcome]] = {"ok": "ok", "usage": "usage", "error": "error"}


class SteeringAnswer(NamedTuple):
    """The result of a line. ``outcome``: "usage" if its syntax was wrong, "error" if it could not be executed."""

    outcome: SteeringOutcome
    text: str


class Connection:
    """One control connection. ``line``: the bytes received so far; ``rest``: the part of the answer that is not written
    yet, None before there is an answer. ``deadline``: the time of the monotonic clock at which it is closed."""

    __slots__ = ("deadline", "fd", "line", "rest", "socket")

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.fd = connection.fileno()
        self.line = b""
        self.rest: memoryview | None = None
        self.deadline = time.monotonic() + PATIENCE

    def read(self, answer: Callable[[str], SteeringAnswer]) -> bool:
        """Receive data; when the line is complete, call *answer* with it and write the result. Returns False when the
        connection is to be closed."""
        try:
            chunk = self.socket.recv(MAX_LINE)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self.line += chunk
        if chunk and b"\n" not in chunk and len(self.line) <= MAX_LINE:
            return True
        if len(self.line) > MAX_LINE:
            outcome, text = SteeringAnswer("usage", f"a line has at most {MAX_LINE} bytes")
        else:
            outcome, text = answer(self.line.partition(b"\n")[0].decode("utf-8", "replace"))
        self.rest = memoryview(f"{outcome}\n{text}".encode("utf-8", "replace"))
        return self.write()

    def write(self) -> bool:
        """Write as much of the answer as the socket accepts. Returns False when all is written or the other end is
        closed."""
        assert self.rest is not None
        try:
            self.rest = self.rest[self.socket.send(self.rest) :]
        except BlockingIOError:
            return True
        except OSError:
            return False
        return len(self.rest) > 0


def bind(name: str) -> socket.socket:
    """Open the control socket of the simulator *name* and return it. Raises TransportError."""
    return listen_at(socket.SOCK_STREAM, protocol.socket_name(name, "steer"), name, MAX_CONNECTIONS)


def accept(listening: socket.socket, users: Container[int]) -> Connection | None:
    """Accept and return a control connection; None if there is none, or its user is not one of *users*."""
    try:
        accepted, _ = listening.accept()
    except OSError:
        return None
    accepted.setblocking(False)
    if user_of_stream(accepted) not in users:
        accepted.close()
        return None
    return Connection(accepted)


def ask(name: str, line: str, timeout: float = 60.0) -> SteeringAnswer:
    """Send *line* to the simulator *name* and return its answer. *timeout*: seconds. Raises TransportError if the
    simulator does not answer, does not exist, or belongs to another user."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as asking:
            asking.settimeout(timeout)
            asking.connect(protocol.socket_name(name, "steer"))
            if user_of_stream(asking) not in own_users():
                raise TransportError(f"the simulator {name!r} belongs to another user", errno.EPERM)
            asking.sendall(line.encode("utf-8", "surrogateescape") + b"\n")
            raw = b"".join(iter(lambda: asking.recv(65536), b""))
    except TimeoutError:
        raise TransportError(f"the simulator {name!r} did not answer in {timeout:g} s", errno.ETIMEDOUT) from None
    except (ConnectionRefusedError, FileNotFoundError):
        raise TransportError(protocol.no_server(name), errno.ECONNREFUSED) from None
    except (BrokenPipeError, ConnectionResetError):
        raw = b""
    head, _, text = raw.decode("utf-8", "replace").partition("\n")
    if head not in _OUTCOMES:
        raise TransportError(
            f"the simulator {name!r} closed the connection: only its own user and root may control it", errno.EPERM
        )
    return SteeringAnswer(_OUTCOMES[head], text)

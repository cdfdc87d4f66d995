"""Finding the user at the other end of a local socket, because abstract sockets have no permissions.

The kernel reports for a stream the process that connected it (SO_PEERCRED), for a datagram the process that sent it
(SO_PASSCRED, SCM_CREDENTIALS).
"""

from __future__ import annotations

import os
import socket
import struct
from typing import Final

_CREDENTIALS: Final = struct.Struct("=iII")  # struct ucred: pid, uid, gid
SPACE: Final = socket.CMSG_SPACE(_CREDENTIALS.size)
"""The number of bytes of ancillary data that `receive` needs."""
NO_USER: Final = -1
"""The user id of a datagram without credentials."""


def own_users() -> frozenset[int]:
    """Return the ids of the users that may use the services of this process: its own user, and root."""
    return frozenset((0, os.geteuid()))


def user_of_stream(connected: socket.socket) -> int:
    """Return the user id of the process at the other end of a stream: the one that connected to it, or that
    listened."""
    raw = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    user: int = _CREDENTIALS.unpack(raw)[1]
    return user


def process_of_stream(connected: socket.socket) -> int:
    """Return the id of the process at the other end of a stream: the one that connected to it, or that listened."""
    raw = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process: int = _CREDENTIALS.unpack(raw)[0]
    return process


def show_senders(datagrams: socket.socket) -> None:
    """Let a datagram socket receive the credentials of senders. Call it before the socket is bound."""
    datagrams.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)


def receive(datagrams: socket.socket, size: int) -> tuple[bytes, int, bytes | str | None]:
    """Receive a datagram of at most *size* bytes; return it, the user id of its sender (or `NO_USER`), and the sender's
    address. Raises OSError."""
    raw, ancillary, _, address = datagrams.recvmsg(size, SPACE)
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS) and len(data) >= _CREDENTIALS.size:
            return raw, _CREDENTIALS.unpack_from(data)[1], address
    return raw, NO_USER, address

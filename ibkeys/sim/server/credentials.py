"""The user at the other end of a local socket, as the kernel reports it: abstract sockets have no permissions.

For a stream it is the user who connected it (SO_PEERCRED), for a datagram the sender (SO_PASSCRED, SCM_CREDENTIALS).
"""

from __future__ import annotations

import os
import socket
import struct
from typing import Final

_CREDENTIALS: Final = struct.Struct("=iII")  # struct ucred: pid, uid, gid
SPACE: Final = socket.CMSG_SPACE(_CREDENTIALS.size)
"""Bytes of ancillary data that `receive` needs."""
NO_USER: Final = -1
"""The user of a datagram that came without credentials."""


def own_users() -> frozenset[int]:
    """Return the users that may use the services of this process: its own, and root."""
    return frozenset((0, os.geteuid()))


def user_of_stream(connected: socket.socket) -> int:
    """Return the user ID of the process that connected a stream, or listens to it."""
    raw = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    user: int = _CREDENTIALS.unpack(raw)[1]
    return user


def process_of_stream(connected: socket.socket) -> int:
    """Return the process that connected a stream."""
    raw = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process: int = _CREDENTIALS.unpack(raw)[0]
    return process


def show_senders(datagrams: socket.socket) -> None:
    """Enable the credentials of senders on a datagram socket. Call it before the socket has a name."""
    datagrams.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)


def receive(datagrams: socket.socket, size: int) -> tuple[bytes, int, bytes | str | None]:
    """Return a datagram, the user ID of its sender, and the sender's address. Raises as ``recvmsg``."""
    raw, ancillary, _, address = datagrams.recvmsg(size, SPACE)
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS) and len(data) >= _CREDENTIALS.size:
            return raw, _CREDENTIALS.unpack_from(data)[1], address
    return raw, NO_USER, address

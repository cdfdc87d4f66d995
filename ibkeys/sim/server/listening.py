"""Opening the local sockets at which programs connect to a simulator."""

from __future__ import annotations

import errno
import socket

from ibkeys.errors import TransportError


def listen_at(kind: socket.SocketKind, address: bytes, name: str, backlog: int) -> socket.socket:
    """Open a socket of the simulator *name* that listens at *address*, an abstract name, and return it.

    *backlog*: how many connections may wait. Raises TransportError.
    """
    opened = socket.socket(socket.AF_UNIX, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        opened.bind(address)
        opened.listen(backlog)
    except OSError as error:
        opened.close()
        why = "is in use: another simulator runs there" if error.errno == errno.EADDRINUSE else "cannot be used"
        raise TransportError(f"the socket name {name!r} {why} ({error.strerror})", error.errno or 0) from None
    return opened

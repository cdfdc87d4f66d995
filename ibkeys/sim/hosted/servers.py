"""Finding the servers of simulated fabrics on this machine, asking them about a host, and stopping them."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from ibkeys.errors import TransportError, UsageError
from ibkeys.sim.server.credentials import process_of_stream, user_of_stream
from ibkeys.sim.server.ibsim_protocol import check_name, no_server
from ibkeys.sim.server.umad import wire
from ibkeys.sim.server.umad.wire import HostAnswer

PATIENCE: Final = 10.0
"""The longest time in seconds to wait for the answer of a server, or for its end."""
_LISTING_PATIENCE: Final = 0.5
_SOCKETS: Final = Path("/proc/net/unix")
_LISTENING: Final = re.compile(r" 00010000 0005 \S+ +\d+ @(.+):umad$", re.MULTILINE)
"""Flags and type of a listening SOCK_SEQPACKET. Source: net/unix/af_unix.c, unix_seq_show()."""


class RunningServer(NamedTuple):
    """A server. ``socket``: its socket name; ``pid``, ``user``: ids of its process and user. ``host``: its answer about
    a host."""

    socket: str
    pid: int
    user: int
    host: HostAnswer


def ask(name: str, host: str = "", *, with_folder: bool = False, patience: float = PATIENCE) -> RunningServer:
    """Ask the server with the socket name *name* about *host*, "" for the default host of programs.

    *with_folder*: let it create the folder for the files of its hosts. *patience*: seconds to wait for its answer.
    Raises TransportError if there is no such server or no such host, or it does not answer; UsageError if *name* is no
    valid socket name.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC) as connection:
        connection.settimeout(patience)
        try:
            connection.connect(b"\0" + f"{check_name(name)}:umad".encode())
            connection.send(wire.ask_host(host, with_folder=with_folder))
            answer = wire.parse_host_answer(connection.recv(1 << 16))
        except TimeoutError:
            raise TransportError(f"the simulator {name!r} did not answer in {patience:g} s") from None
        except OSError as error:
            raise TransportError(no_server(name), error.errno or 0) from None
        if isinstance(answer, str):
            raise TransportError(f"the simulator {name!r} answers: {answer}")
        return RunningServer(name, process_of_stream(connection), user_of_stream(connection), answer)


def running_servers() -> Iterator[RunningServer]:
    """Yield the servers of this machine that answer this user. Other programs may have sockets with such names."""
    for name in sorted({*_LISTENING.findall(_SOCKETS.read_text("utf-8", "replace"))}):
        try:
            yield ask(name, patience=_LISTING_PATIENCE)
        except (TransportError, UsageError):
            continue  # it belongs to another user, has another version, hangs, has just ended, or is no server


def stop(server: RunningServer) -> None:
    """End a server by SIGTERM and wait for its end. Raises TransportError if this user may not, or it does not end."""
    try:
        process = os.pidfd_open(server.pid)
    except ProcessLookupError:
        return
    try:
        with suppress(TransportError, ProcessLookupError):  # It is ending already.
            if ask(server.socket).pid == server.pid:
                signal.pidfd_send_signal(process, signal.SIGTERM)
        if not has_ended(process, PATIENCE):
            raise TransportError(f"the simulator {server.socket!r} (process {server.pid}) has not ended")
    except PermissionError as error:
        raise TransportError(f"the simulator {server.socket!r} belongs to another user", error.errno or 0) from None
    finally:
        os.close(process)


def has_ended(process: int, seconds: float) -> bool:
    """Wait up to *seconds* and return whether the process has ended. *process*: its pidfd."""
    import select

    waiting = select.poll()
    waiting.register(process, select.POLLIN)
    deadline = time.monotonic() + seconds
    while (remaining := deadline - time.monotonic()) > 0:
        if waiting.poll(remaining * 1000):
            return True
    return False

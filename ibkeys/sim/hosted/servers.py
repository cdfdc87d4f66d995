"""The servers of simulated fabrics on this machine: found, asked for a host, and stopped."""

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

from ibkeys.errors import TransportError
from ibkeys.sim.server.credentials import process_of_stream, user_of_stream
from ibkeys.sim.server.ibsim_protocol import check_name
from ibkeys.sim.server.umad import wire
from ibkeys.sim.server.umad.wire import HostAnswer

PATIENCE: Final = 10.0
"""Seconds within which a server answers, or ends."""
_LISTED_WITHIN: Final = 0.5
_SOCKETS: Final = Path("/proc/net/unix")
_LISTENING: Final = re.compile(r" 00010000 0005 \S+ +\d+ @(.+):umad$", re.MULTILINE)
"""Flags and type of a listening SOCK_SEQPACKET. Source: net/unix/af_unix.c, unix_seq_show()."""


class RunningServer(NamedTuple):
    """A server. ``host``: the host of which it was asked, "" for that of programs that name none."""

    socket: str
    pid: int
    user: int
    host: HostAnswer


def ask(name: str, host: str = "", *, with_folder: bool = False, patience: float = PATIENCE) -> RunningServer:
    """Ask the server *name* for *host*, and let it make the folder of its hosts' files if *with_folder*.

    *patience*: seconds to wait for its answer.

    Raises TransportError if there is no such server, or no such host.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC) as asking:
        asking.settimeout(patience)
        try:
            asking.connect(b"\0" + f"{check_name(name)}:umad".encode())
            asking.send(wire.ask_host(host, with_folder=with_folder))
            answer = wire.parse_host_answer(asking.recv(1 << 16))
        except TimeoutError:
            raise TransportError(f"the simulator {name!r} did not answer in {patience:g} s") from None
        except OSError as error:
            raise TransportError(f"no simulator runs under the socket name {name!r}", error.errno or 0) from None
        if isinstance(answer, str):
            raise TransportError(f"the simulator {name!r} answers: {answer}")
        return RunningServer(name, process_of_stream(asking), user_of_stream(asking), answer)


def running() -> Iterator[RunningServer]:
    """Yield the servers of this machine that let this user in."""
    for name in sorted({*_LISTENING.findall(_SOCKETS.read_text("utf-8", "replace"))}):
        try:
            yield ask(name, patience=_LISTED_WITHIN)
        except TransportError:  # of another user, of another version, it hangs, or it has just ended
            continue


def stop(server: RunningServer) -> None:
    """End a server as SIGTERM does, and wait for its end. Raises TransportError if this user may not, or it stays."""
    try:
        process = os.pidfd_open(server.pid)
    except ProcessLookupError:
        return
    try:
        with suppress(TransportError, ProcessLookupError):  # it is ending already
            if ask(server.socket).pid == server.pid:
                signal.pidfd_send_signal(process, signal.SIGTERM)
        if not has_ended(process, PATIENCE):
            raise TransportError(f"the simulator {server.socket!r} (process {server.pid}) has not ended")
    except PermissionError as error:
        raise TransportError(f"the simulator {server.socket!r} belongs to another user", error.errno or 0) from None
    finally:
        os.close(process)


def has_ended(process: int, seconds: float) -> bool:
    """Return whether the process of a pidfd ends within so many seconds."""
    import select

    waiting = select.poll()
    waiting.register(process, select.POLLIN)
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        if waiting.poll(left * 1000):
            return True
    return False

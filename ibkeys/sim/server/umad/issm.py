"""The issm devices: a FIFO for each port. IsSM of the port is set while a process has the FIFO open for reading.

OpenSM opens the path itself and never reads. The kernel reports by inotify that a process has opened the FIFO. Then
the server opens its writing end, by which the kernel reports that the last reader has ended or was killed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import struct
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from ibkeys.sim.nodes import SimPort
from ibkeys.sim.server.loop import Loop

_IN_OPEN: Final = 0x20
_EVENT: Final = struct.Struct("iIII")
_MOST_EVENTS: Final = 4096


class IssmDevices:
    """The issm devices of all ports for which a program requested one.

    *set_is_sm*: called with a port, and whether a process has its device open now. *for_all*: any user may open them.
    """

    def __init__(self, loop: Loop, set_is_sm: Callable[[SimPort, bool], object], *, for_all: bool) -> None:
        self._loop = loop
        self._for_all = for_all
        self._set_is_sm = set_is_sm
        self._folder: str | None = None
        self._paths: dict[SimPort, str] = {}
        self._watched: dict[int, SimPort] = {}
        self._writers: dict[SimPort, int] = {}
        self._inotify = -1

    def path(self, port: SimPort) -> str:
        """Return the path of the device of *port*, which is created if it does not exist. Raises OSError."""
        if self._folder is None:
            self._begin()
        assert self._folder is not None
        if port not in self._paths:
            path = os.path.join(self._folder, f"issm-{port.guid:016x}-{port.number}")
            os.mkfifo(path, 0o600)
            if self._for_all:
                os.chmod(path, 0o644)
            self._watched[_checked(_LIBC.inotify_add_watch(self._inotify, path.encode(), _IN_OPEN))] = port
            self._paths[port] = path
        return self._paths[port]

    def _begin(self) -> None:
        self._inotify = _checked(_LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self._folder = tempfile.mkdtemp(prefix="ibkeys-sim-")
        if self._for_all:
            os.chmod(self._folder, 0o755)
        self._loop.register(self._inotify, self._opened)

    def is_open(self, port: SimPort) -> bool:
        """Return whether a process has the device of *port* open."""
        return port in self._writers

    def _opened(self, events: int) -> None:
        """Process the inotify events. The events of this server's own opening change nothing."""
        try:
            raw = os.read(self._inotify, _MOST_EVENTS)
        except BlockingIOError:
            return
        place = 0
        while place < len(raw):
            watch, _, _, length = _EVENT.unpack_from(raw, place)
            place += _EVENT.size + length
            port = self._watched.get(watch)
            if port is not None and port not in self._writers:
                self._hold(port)

    def _hold(self, port: SimPort) -> None:
        try:
            writer = os.open(self._paths[port], os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno == errno.ENXIO:  # The process has closed it already.
                return
            raise
        self._writers[port] = writer
        self._loop.register(writer, partial(self._left, port))
        self._loop.wait_for(writer, 0)  # The end of the last reader is reported even without any requested event.
        self._set_is_sm(port, True)

    def _left(self, port: SimPort, events: int) -> None:
        writer = self._writers.pop(port)
        self._loop.unregister(writer)
        os.close(writer)
        self._set_is_sm(port, False)
        self._hold(port)  # Another process may have opened the device in between.

    def close(self) -> None:
        """Close and remove the devices."""
        for writer in self._writers.values():
            os.close(writer)
        self._writers.clear()
        if self._folder is not None:
            os.close(self._inotify)
            with suppress(OSError):
                shutil.rmtree(self._folder)
            self._folder = None


_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result

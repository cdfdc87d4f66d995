"""One descriptor of libibumad with its agents, and the errors of its calls."""

from __future__ import annotations

import errno
import os
import weakref
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from ibkeys.errors import (
    AccessDenied,
    AgentRefused,
    DeviceGone,
    ModuleMissing,
    NoDevice,
    SmpsNotAllowed,
    TransportError,
)
from ibkeys.mad.const import SMP_CLASSES
from ibkeys.umad.devices import binding

_SIMULATOR_ENDED: Final = frozenset({errno.EPIPE, errno.ENOTCONN, errno.ECONNREFUSED, errno.ECONNRESET})
"""The errors of libumad2sim's sockets after the simulator has ended."""
GONE: Final = frozenset({errno.EIO, errno.ENODEV, errno.ENXIO, errno.EBADF, *_SIMULATOR_ENDED})
"""The errors that mean that the device no longer exists."""


class Descriptor:
    """One descriptor of libibumad with its agents. It is closed once: by close(), by Python's garbage collector, or by
    the kernel at exit.

    ``agents``: the agent id of each management class, -1 for a class without an agent.
    """

    def __init__(self, ca_name: str, port: int) -> None:
        """Open the port's umad device. Raises LibraryMissing, AccessDenied, ModuleMissing, NoDevice; TransportError for
        another error of the kernel."""
        self.ffi, self.lib = binding()
        self.name = f"{ca_name} port {port}"
        self.ffi.errno = 0
        fd = self.lib.umad_open_port(ca_name.encode(), port)
        if fd < 0:
            # -EIO means only that open() failed; errno has the reason.
            reason = self.ffi.errno if fd == -errno.EIO and self.ffi.errno else -fd
            _refuse_open(self.name, reason)
        self.fd = fd
        self.agents = self.ffi.new("int32_t[256]", [-1] * 256)
        self._registered: list[int] = []
        self.close = weakref.finalize(self, _close, self.lib, fd, self._registered)
        self.close.atexit = False

    def register(self, mgmt_class: int, class_version: int, methods: Sequence[int]) -> None:
        """Register an agent for a management class; it replaces an earlier agent of the class.

        *methods*: the unsolicited methods that it receives. Raises AgentRefused, SmpsNotAllowed, DeviceGone.
        """
        ffi, lib = self.ffi, self.lib
        if self.agents[mgmt_class] >= 0:
            self._registered.remove(self.agents[mgmt_class])
            lib.umad_unregister(self.fd, self.agents[mgmt_class])
            self.agents[mgmt_class] = -1
        bits = 8 * ffi.sizeof("long")
        mask = ffi.new("long[]", 128 // bits)
        words = ffi.cast("unsigned long *", mask)
        for method in methods:
            words[method // bits] |= 1 << method % bits
        ffi.errno = 0
        # RMPP version 0: the kernel delivers the segments of a long answer as they come (see ibkeys.client.rmpp).
        agent = lib.umad_register(self.fd, mgmt_class, class_version, 0, mask)
        reason = ffi.errno
        if agent < 0:
            _refuse_agent(self.name, mgmt_class, reason or -agent)
        self.agents[mgmt_class] = agent
        self._registered.append(agent)


def _close(lib: Any, fd: int, agents: list[int]) -> None:
    # The kernel removes the agents of a closed descriptor, libumad2sim does not.
    for agent in agents:
        lib.umad_unregister(fd, agent)
    lib.umad_close_port(fd)


def failed_call(name: str, call: str, reason: int) -> TransportError:
    """Return the error of a call that libibumad or the kernel refused: DeviceGone for an errno *reason* in `GONE`, else
    TransportError."""
    if reason in GONE:
        return DeviceGone(
            f"{name}: the device went away while it was open ({call}: {os.strerror(reason)}); was the driver "
            "reloaded, the HCA reset, or a simulator ended?",
            reason,
        )
    return TransportError(f"{name}: {call}: {os.strerror(reason)}", reason)


def _refuse_open(name: str, reason: int) -> NoReturn:
    text = os.strerror(reason)
    if reason in (errno.EACCES, errno.EPERM):
        raise AccessDenied(
            f"{name}: no permission to open its umad device ({text}): run as root (rights: ls -l /dev/infiniband)",
            reason,
        )
    if reason == errno.EOPNOTSUPP:
        raise ModuleMissing(
            f"{name}: the kernel module ib_umad is too old, or was unloaded just now: modprobe ib_umad, or update the "
            "kernel",
            reason,
        )
    if reason in (errno.EINVAL, errno.ENODEV, errno.ENOENT, errno.ENXIO):
        raise NoDevice(f"{name}: no umad device belongs to it ({text}): modprobe ib_umad; ls /dev/infiniband", reason)
    raise TransportError(f"{name}: umad_open_port: {text}", reason)


def _refuse_agent(name: str, mgmt_class: int, reason: int) -> NoReturn:
    text = os.strerror(reason)
    if reason in GONE:
        raise failed_call(name, "umad_register", reason)
    if mgmt_class in SMP_CLASSES and reason in (errno.EPROTONOSUPPORT, errno.EOPNOTSUPP):
        raise SmpsNotAllowed(
            f"{name}: it has no QP0 ({text}), like a virtual function: run this on the host that owns the HCA",
            reason,
        )
    raise AgentRefused(
        f"{name}: cannot register an agent for management class {mgmt_class:#04x} ({text}): another program (OpenSM, "
        "a monitor) may have one, or the port may not support the class",
        reason,
    )

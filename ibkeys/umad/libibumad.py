"""The real stack: a `UmadPort` over libibumad and the kernel's umad devices."""

from __future__ import annotations

import errno
import os
import struct
import time
import weakref
from array import array
from collections.abc import Sequence
from contextlib import suppress
from itertools import repeat
from typing import Any, NoReturn

from ibkeys.closing import Closing
from ibkeys.errors import (
    AccessDenied,
    AgentRefused,
    ClosedError,
    DeviceGone,
    EncodeError,
    ModuleMissing,
    NoDevice,
    SmpsNotAllowed,
    TransportError,
    UsageError,
)
from ibkeys.mad import offsets as at
from ibkeys.umad import devices
from ibkeys.umad.devices import binding, list_cas
from ibkeys.umad.port import Incoming, LocalPort, Outgoing, SendFailure

__all__ = ["LibibumadPort", "list_cas", "open_port"]

MAD_SIZE = 256
SUBN_LID_ROUTED, SUBN_DIRECTED_ROUTE = 0x01, 0x81

# MADs that one receive call brings at most. Half of what a scheduler has on the way: the fabric is busy with the other
# half while these are examined and the next ones are sent.
_SLOTS = 32
_SLOT_BYTES = [struct.Struct(f"{MAD_SIZE}s" * count).unpack for count in range(_SLOTS + 1)]
# With this many requests on the way, sending waits a moment for replies. A peer that stops reading while its own
# replies are not read never ends: ibsim with its preload library does so with some 500.
_MUCH, _CHUNK = 256, 64
_MOMENT_MS = 20
_GONE = {errno.EIO, errno.ENODEV, errno.ENXIO, errno.EBADF, errno.EPIPE}


def open_port(ca: str | None = None, port: int | None = None) -> LibibumadPort:
    """Open a port of this host for SMPs.

    What is not given is chosen: the first Active port, else the first with a link. A port that is given with its
    channel adapter is opened even without a link, since it can still be asked about itself.

    Raises LibraryMissing, ModuleMissing, NoDevice, PortDown, SmpsNotAllowed, AccessDenied, AgentRefused.
    """
    binding()
    cas = list_cas()
    chosen = devices.choose_port(cas, ca, port)
    try:
        names = os.listdir(devices.SYS_INFINIBAND_MAD)
    except OSError:
        names = []
    if "abi_version" not in names:
        raise ModuleMissing(
            f"{chosen.ca_name} port {chosen.port}: the kernel module ib_umad is not loaded: modprobe ib_umad",
            errno.EOPNOTSUPP,
        ).explained(f"There is no {devices.SYS_INFINIBAND_MAD}/abi_version.")
    return LibibumadPort(chosen.ca_name, chosen.port, gsi_ca=devices.gsi_partner(cas, chosen))


class _Device:
    """One descriptor of libibumad with its agents. Closed once: by close(), the collector, or the kernel at exit."""

    def __init__(self, ca_name: str, port: int) -> None:
        self.ffi, self.lib = binding()
        self.where = f"{ca_name} port {port}"
        self.ffi.errno = 0
        fd = self.lib.umad_open_port(ca_name.encode(), port)
        if fd < 0:
            # -EIO says only that open() failed; errno has the reason
            reason = self.ffi.errno if fd == -errno.EIO and self.ffi.errno else -fd
            _refuse_open(self.where, reason)
        self.fd = fd
        self.agents = self.ffi.new("int32_t[256]", [-1] * 256)
        self._registered: list[int] = []
        self.close = weakref.finalize(self, _close, self.lib, fd, self._registered)
        self.close.atexit = False

    def register(self, mgmt_class: int, class_version: int, methods: Sequence[int]) -> None:
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
        # RMPP version 0: the kernel machine up the segments of a long answer as they come (see ibkeys.client.rmpp)
        agent = lib.umad_register(self.fd, mgmt_class, class_version, 0, mask)
        reason = ffi.errno
        if agent < 0:
            _refuse_agent(self.where, mgmt_class, reason or -agent)
        self.agents[mgmt_class] = agent
        self._registered.append(agent)


def _close(lib: Any, fd: int, agents: list[int]) -> None:
    # the kernel forgets agents with their descriptor, libumad2sim does not
    for agent in agents:
        lib.umad_unregister(fd, agent)
    lib.umad_close_port(fd)


class LibibumadPort(Closing):
    """A `UmadPort` over libibumad. Not thread-safe: one thread for each instance.

    *gsi_ca*: the device and port that carry GMPs, where that is another device than the one for SMPs; it is opened
    when a class of QP1 is registered.
    """

    def __init__(self, ca_name: str, port: int, gsi_ca: tuple[str, int] | None = None) -> None:
        self.ca_name = ca_name
        self.port = port
        self._gsi_ca = gsi_ca
        self._gsi: _Device | None = None
        self._smi: _Device | None = _Device(ca_name, port)
        self._ffi, self._lib = self._smi.ffi, self._smi.lib
        self._mads = self._ffi.new("uint8_t[]", _SLOTS * MAD_SIZE)
        self._mads_buffer = self._ffi.buffer(self._mads)
        self._early: list[Incoming] = []  # taken while sending
        self._on_the_way = 0  # requests without a reply so far, or nearly: unsolicited MADs count as replies
        self._rows = self._ffi.new("int32_t[]", _SLOTS * self._lib.IBKEYS_RECV_COLUMNS)
        try:
            for mgmt_class in (SUBN_LID_ROUTED, SUBN_DIRECTED_ROUTE):
                self._smi.register(mgmt_class, 1, ())
        except TransportError:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<LibibumadPort {self.ca_name} port {self.port}{'' if self._smi else ', closed'}>"

    def close(self) -> None:
        """Give the device back. Safe to call twice."""
        if self._smi is not None:
            # libumad2sim crashes on a reply for a descriptor that was just closed: let the last ones come in
            with suppress(TransportError):
                while self._on_the_way and self._take(self._smi, _MOMENT_MS):
                    pass
        for device in (self._smi, self._gsi):
            if device is not None:
                device.close()
        self._smi = self._gsi = None

    def now(self) -> float:
        """Return the monotonic clock in seconds."""
        return time.monotonic()

    def attributes(self) -> LocalPort:
        """Return what the kernel says about this port now. Raises DeviceGone, ClosedError."""
        self._device()
        try:
            return devices.read_port(self.ca_name, self.port)
        except NoDevice as error:
            raise _failed(f"{self.ca_name} port {self.port}", "umad_get_port", errno.ENODEV) from error

    def register(self, mgmt_class: int, class_version: int = 1, methods: Sequence[int] = ()) -> None:
        """Register an agent for a management class; registering again replaces the agent.

        *methods* are those it wants to receive unsolicited. The agents for 0x01 and 0x81 are there from the start.
        An SA agent (0x03) gets an answer of many RMPP segments one by one, and has to acknowledge them.

        Raises AgentRefused, AccessDenied, DeviceGone, UsageError, ClosedError.
        """
        device = self._device()
        if not 0 < mgmt_class <= 0xFF or not all(0 <= method < 128 for method in methods):
            raise UsageError(f"no such management class or method: {mgmt_class:#x} {list(methods)}")
        if mgmt_class not in (SUBN_LID_ROUTED, SUBN_DIRECTED_ROUTE) and self._gsi_ca is not None:
            if self._gsi is None:
                self._gsi = _Device(*self._gsi_ca)
            device = self._gsi
        device.register(mgmt_class, class_version, methods)

    def send(self, batch: Sequence[Outgoing]) -> list[SendFailure]:
        """Send a batch in order, with one call into C.

        Returns those that were not sent, each with the kernel's errno: EINVAL for a MAD that was refused by itself,
        EAGAIN for the rest of the batch when the device takes no more now.

        Raises DeviceGone, ClosedError; UsageError for a class without an agent; EncodeError for a value out of range.
        """
        smi = self._device()
        failures: list[SendFailure] = []
        for start in range(0, len(batch), _CHUNK):
            while self._on_the_way >= _MUCH and (came := self._take(smi, _MOMENT_MS)):
                self._early += came
            places = range(start, min(start + _CHUNK, len(batch)))
            if self._gsi is None:
                unsent = self._send(smi, batch[start : start + _CHUNK], places)
            else:
                unsent = self._send_both(smi, self._gsi, batch, places)
            self._on_the_way += len(places) - len(unsent)
            failures += unsent
        return failures

    def _send_both(
        self, smi: _Device, gsi: _Device, batch: Sequence[Outgoing], places: Sequence[int]
    ) -> list[SendFailure]:
        failures = []
        for device, qp in ((smi, 0), (gsi, 1)):
            mine = [place for place in places if (batch[place].qpn != 0) == qp]
            failures += self._send(device, [batch[place] for place in mine], mine) if mine else []
        return sorted(failures)

    def _send(self, device: _Device, batch: Sequence[Outgoing], places: Sequence[int]) -> list[SendFailure]:
        ffi, count = self._ffi, len(batch)
        mads, lids, timeouts, qpns, qkeys, sls, pkey_indexes = zip(*batch, strict=True)
        try:
            # one flat array, column by column as batch.h numbers them
            columns = array("I", [*map(len, mads), *lids, *timeouts, *qpns, *qkeys, *sls, *pkey_indexes])
        except (OverflowError, TypeError) as error:
            raise EncodeError(f"a MAD's address or timeout is not a 32-bit number: {error}") from None
        errors = ffi.new("int32_t[]", count)
        unsent = self._lib.ibkeys_send_batch(
            device.fd, device.agents, b"".join(mads), ffi.from_buffer("uint32_t[]", columns), count, errors
        )
        if not unsent:
            return []
        codes = ffi.unpack(errors, count)
        if errno.EPROTONOSUPPORT in codes:
            mad = mads[codes.index(errno.EPROTONOSUPPORT)]
            if not 2 <= len(mad) <= MAD_SIZE:
                raise EncodeError(f"a MAD has at most {MAD_SIZE} bytes, this one {len(mad)}")
            mgmt_class = mad[at.MGMT_CLASS]
            if device.agents[mgmt_class] < 0:
                raise UsageError(f"no agent is registered for management class {mgmt_class:#04x}")
        if not _GONE.isdisjoint(codes):
            raise _failed(device.where, "umad_send", next(code for code in codes if code in _GONE))
        if errno.EINTR in codes:
            # the signal's handlers have run by now; go on with what it kept from being sent
            rest = codes.index(errno.EINTR)
            failures = [SendFailure(places[n], code) for n, code in enumerate(codes[:rest]) if code]
            return failures + self._send(device, batch[rest:], places[rest:])
        return [SendFailure(places[n], code) for n, code in enumerate(codes) if code]

    def recv(self, timeout: float) -> list[Incoming]:
        """Wait up to *timeout* seconds for a MAD and return all that are there, with one call into C.

        [] when nothing came in time. A signal does not end the wait unless its handler raises.
        Raises DeviceGone, ClosedError.
        """
        smi = self._device()
        if self._early:
            early, self._early = self._early, []
            return early
        deadline = time.monotonic() + timeout
        while True:
            # rounded up: a wait that ends too early would be asked for again at once
            milliseconds = min(-int(-timeout * 1000 // 1), 0x7FFFFFFF) if timeout > 0 else 0
            got = self._take(smi, milliseconds) if self._gsi is None else self._take_both(smi, self._gsi, milliseconds)
            if got is not None:
                return got
            timeout = deadline - time.monotonic()

    def _take_both(self, smi: _Device, gsi: _Device, milliseconds: int) -> list[Incoming] | None:
        result = self._lib.ibkeys_poll_pair(smi.fd, gsi.fd, milliseconds)
        got = (self._take(smi, 0) or []) + (self._take(gsi, 0) or [])
        return None if result == -errno.EINTR and not got else got

    def _take(self, device: _Device, milliseconds: int) -> list[Incoming] | None:
        """Return what came, or None when a signal ended the wait."""
        count = self._lib.ibkeys_recv_batch(device.fd, self._mads, self._rows, _SLOTS, milliseconds)
        if count > 0:
            self._on_the_way = max(0, self._on_the_way - count)
            rows = self._ffi.unpack(self._rows, count * 4)
            lengths = rows[0::4]
            mads: Sequence[bytes] = _SLOT_BYTES[count](self._mads_buffer[: count * MAD_SIZE])
            if min(lengths) < MAD_SIZE:
                mads = [mad[:length] for mad, length in zip(mads, lengths, strict=True)]
            # Incoming(...) for each, without a call in Python for each
            return list(
                map(tuple.__new__, repeat(Incoming), zip(mads, rows[1::4], rows[2::4], rows[3::4], strict=True))
            )
        if count == 0:
            return []
        if count == -errno.EINTR:
            return None
        raise _failed(device.where, "umad_recv", -count)

    def _device(self) -> _Device:
        if self._smi is None:
            raise ClosedError(f"{self.ca_name} port {self.port} was closed")
        return self._smi


# Errors ---------------------------------------------------------------------------------------------------------------


def _failed(where: str, call: str, reason: int) -> TransportError:
    if reason in _GONE:
        return DeviceGone(
            f"{where}: the device went away while it was open ({call}: {os.strerror(reason)}); was the driver "
            "reloaded or the HCA reset?",
            reason,
        )
    return TransportError(f"{where}: {call}: {os.strerror(reason)}", reason)


def _refuse_open(where: str, reason: int) -> NoReturn:
    said = os.strerror(reason)
    if reason in (errno.EACCES, errno.EPERM):
        raise AccessDenied(
            f"{where}: no permission to open its umad device ({said}): run as root; who may: ls -l /dev/infiniband",
            reason,
        )
    if reason == errno.EOPNOTSUPP:
        raise ModuleMissing(f"{where}: the kernel module ib_umad is not loaded or too old: modprobe ib_umad", reason)
    if reason in (errno.EINVAL, errno.ENODEV, errno.ENOENT, errno.ENXIO):
        raise NoDevice(f"{where}: no umad device belongs to it ({said}): modprobe ib_umad; ls /dev/infiniband", reason)
    raise TransportError(f"{where}: umad_open_port: {said}", reason)


def _refuse_agent(where: str, mgmt_class: int, reason: int) -> NoReturn:
    said = os.strerror(reason)
    if reason in _GONE:
        raise _failed(where, "umad_register", reason)
    smp = mgmt_class in (SUBN_LID_ROUTED, SUBN_DIRECTED_ROUTE)
    if smp and reason in (errno.EPROTONOSUPPORT, errno.EOPNOTSUPP):
        raise SmpsNotAllowed(
            f"{where}: it has no QP0 ({said}), as a virtual function: run this on the host that owns the HCA", reason
        )
    raise AgentRefused(
        f"{where}: no agent for management class {mgmt_class:#04x} ({said}): another program (OpenSM, a monitor) may "
        "own it, or the port may not have it",
        reason,
    )

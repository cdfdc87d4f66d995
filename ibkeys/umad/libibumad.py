"""The real stack: a `UmadPort` over libibumad and the kernel's umad devices."""

from __future__ import annotations

import errno
import os
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import repeat
from typing import Any

from ibkeys.closing import Closing
from ibkeys.errors import ClosedError, ModuleMissing, NoDevice, TransportError, UsageError
from ibkeys.files import or_none
from ibkeys.mad import offsets as at
from ibkeys.mad.const import DIRECTED_ROUTE, LID_ROUTED, MAD_SIZE, SMP_CLASSES
from ibkeys.umad import devices
from ibkeys.umad.descriptor import GONE, Descriptor, failed_call
from ibkeys.umad.devices import binding, list_cas
from ibkeys.umad.port import Incoming, LocalPort, MadAnswer, Outgoing, Requests, SendFailure

__all__ = ["LibibumadPort", "list_cas", "open_port"]


# The most MADs of one receive call: half of the requests that a scheduler has in flight. The fabric works on the other
# half while these answers are examined and the next requests are sent.
_SLOTS = 32
_SLOT_BYTES = [struct.Struct(f"{MAD_SIZE}s" * count).unpack for count in range(_SLOTS + 1)]
_DATA_SIZE = 64
_DATA_BYTES = [struct.Struct(f"{_DATA_SIZE}s" * count).unpack for count in range(_SLOTS + 1)]
# With so many requests in flight, `send` first receives for a moment. Otherwise this program and a peer that waits
# until its replies are read would block each other: ibsim with its preload library does so at some 500 requests.
_MANY_IN_FLIGHT = 256
_CHUNK = 64  # the most MADs of one send call
_PAUSE_MS = 20


def open_port(ca: str | None = None, port: int | None = None) -> LibibumadPort:
    """Open *port* of the channel adapter *ca* of this host, for SMPs.

    If one of them is None, the first Active port that fits is opened, else the first one with a link. If both are
    given, the port is opened even without a link, because it can still be queried about itself.

    Raises DeviceGone, LibraryMissing, ModuleMissing, NoDevice, PortDown, SmpsNotAllowed, AccessDenied, AgentRefused;
    TransportError for another error of the kernel.
    """
    binding()
    cas = list_cas()
    selected = devices.choose_port(cas, ca, port)
    if devices.simulated_names() is None and "abi_version" not in (
        or_none(os.listdir, devices.SYS_INFINIBAND_MAD) or ()
    ):
        raise ModuleMissing(
            f"{selected.ca_name} port {selected.port}: the kernel module ib_umad is not loaded: modprobe ib_umad",
            errno.EOPNOTSUPP,
        ).explained(f"There is no {devices.SYS_INFINIBAND_MAD}/abi_version.")
    return LibibumadPort(selected.ca_name, selected.port, gsi_ca=devices.gsi_partner(cas, selected))


class LibibumadPort(Closing):
    """A `UmadPort` over libibumad. Not thread-safe: use each instance in one thread only.

    *gsi_ca*: the device and port that carry GMPs, if they are not those that carry SMPs. They are opened when a class
    of QP1 is registered. Raises the errors of `Descriptor` and of its `register`.
    """

    def __init__(self, ca_name: str, port: int, gsi_ca: tuple[str, int] | None = None) -> None:
        self.ca_name = ca_name
        self.port = port
        self._gsi_ca = gsi_ca
        self._gsi: Descriptor | None = None
        self._smi: Descriptor | None = Descriptor(ca_name, port)
        self._ffi, self._lib = self._smi.ffi, self._smi.lib
        self._mads = self._ffi.new("uint8_t[]", _SLOTS * MAD_SIZE)
        self._mads_buffer = self._ffi.buffer(self._mads)
        self._received_early: list[Incoming] = []  # received during `send`, for the next `recv`
        self._in_flight = 0  # requests without a reply; not exact, because unsolicited MADs count as replies
        self._rows = self._ffi.new("int32_t[]", _SLOTS * self._lib.IBKEYS_RECV_COLUMNS)
        self._errors = self._ffi.new("int32_t[]", _CHUNK)
        self._asked = self._ffi.new("struct ibkeys_asked[]", self._lib.IBKEYS_ASKED)
        self._tids = self._ffi.new("uint32_t[]", _SLOTS)
        self._data = self._ffi.new("uint8_t[]", _SLOTS * _DATA_SIZE)
        self._data_buffer = self._ffi.buffer(self._data)
        self._answers = self._ffi.new("struct ibkeys_answers *", (self._asked, self._tids, self._data, 0))
        try:
            for mgmt_class in (LID_ROUTED, DIRECTED_ROUTE):
                self._smi.register(mgmt_class, 1, ())
        except TransportError:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<LibibumadPort {self.ca_name} port {self.port}{'' if self._smi else ', closed'}>"

    def close(self) -> None:
        """Close the device. Safe to call twice."""
        if self._smi is not None:
            # libumad2sim crashes on a reply for a descriptor that was just closed: receive the last replies first.
            with suppress(TransportError):
                while self._in_flight and any(self._receive(self._smi, _PAUSE_MS) or ()):
                    pass
        for device in (self._smi, self._gsi):
            if device is not None:
                device.close()
        self._smi = self._gsi = None

    def now(self) -> float:
        """Return the monotonic clock in seconds."""
        return time.monotonic()

    def attributes(self) -> LocalPort:
        """Return the kernel's current attributes of this port. Raises DeviceGone, ClosedError."""
        self._device()
        try:
            return devices.read_port(self.ca_name, self.port)
        except NoDevice as error:
            raise failed_call(f"{self.ca_name} port {self.port}", "umad_get_port", errno.ENODEV) from error

    def register(self, mgmt_class: int, class_version: int = 1, methods: Sequence[int] = ()) -> None:
        """Register an agent for a management class; it replaces an earlier agent of the class.

        *methods* are the unsolicited methods that it receives. The agents for 0x01 and 0x81 exist from the start. The
        segments of a long SA answer (class 0x03, RMPP) come as single MADs, which the caller has to acknowledge.

        Raises AgentRefused, SmpsNotAllowed, DeviceGone, ClosedError, UsageError for an impossible class or method, and
        the errors of opening the device for GMPs (`Descriptor`).
        """
        device = self._device()
        if not 0 < mgmt_class <= 0xFF or not all(0 <= method < 128 for method in methods):
            raise UsageError(f"no such management class or method: {mgmt_class:#x} {list(methods)}")
        if mgmt_class not in SMP_CLASSES and self._gsi_ca is not None:
            if self._gsi is None:
                self._gsi = Descriptor(*self._gsi_ca)
            device = self._gsi
        device.register(mgmt_class, class_version, methods)

    def send(self, batch: Sequence[Outgoing]) -> list[SendFailure]:
        """Send a batch, with one call into C for each 64 MADs and queue pair. MADs of one queue pair are sent in order.

        Returns the MADs that were not sent, each with the kernel's errno: EINVAL for a MAD that the kernel refuses
        because of its contents; EAGAIN, ENOBUFS or ENOMEM for the rest of such a call when the device takes no more
        now.

        Raises DeviceGone, ClosedError; UsageError for a class without an agent; EncodeError for a value out of range;
        TransportError if MADs could not be received meanwhile.
        """
        smi = self._device()
        requests = batch if isinstance(batch, Requests) else Requests.of(batch)
        failures: list[SendFailure] = []
        for start in range(0, len(requests), _CHUNK):
            while self._in_flight >= _MANY_IN_FLIGHT and any(received := self._receive(smi, _PAUSE_MS) or ([], [])):
                self._received_early += received[1]
            places = range(start, min(start + _CHUNK, len(requests)))
            if self._gsi is None:
                unsent = self._send(smi, requests, places)
            else:
                unsent = self._send_both(smi, self._gsi, requests, places)
            self._in_flight += len(places) - len(unsent)
            failures += unsent
        return failures

    def _send_both(
        self, smi: Descriptor, gsi: Descriptor, requests: Requests, places: Sequence[int]
    ) -> list[SendFailure]:
        """Send the *requests* at *places*, SMPs by *smi* and GMPs by *gsi*; return those that were not sent."""
        failures = []
        for device, qp in ((smi, 0), (gsi, 1)):
            mine = [place for place in places if (requests[place].qpn != 0) == qp]
            failures += self._send(device, requests, mine) if mine else []
        return sorted(failures)

    def _send(self, device: Descriptor, requests: Requests, places: Sequence[int]) -> list[SendFailure]:
        """Send the *requests* at *places* by one device; return those that were not sent."""
        ffi, count, selected = self._ffi, len(places), requests.at(places)
        unsent = self._lib.ibkeys_send_batch(
            device.fd,
            device.agents,
            b"".join(selected.records),
            selected.tids,
            selected.attributes,
            selected.modifiers,
            self._asked,
            count,
            self._errors,
        )
        if not unsent:
            return []
        codes = ffi.unpack(self._errors, count)
        if errno.EPROTONOSUPPORT in codes:
            mgmt_class = requests[places[codes.index(errno.EPROTONOSUPPORT)]].mad[at.MGMT_CLASS]
            if device.agents[mgmt_class] < 0:
                raise UsageError(f"no agent is registered for management class {mgmt_class:#04x}")
        if not GONE.isdisjoint(codes):
            raise failed_call(device.name, "umad_send", next(code for code in codes if code in GONE))
        if errno.EINTR in codes:
            # The handlers of the signal have run by now: send the rest.
            rest = codes.index(errno.EINTR)
            failures = [SendFailure(places[n], code) for n, code in enumerate(codes[:rest]) if code]
            return failures + self._send(device, requests, places[rest:])
        return [SendFailure(places[n], code) for n, code in enumerate(codes) if code]

    def recv(self, timeout: float) -> list[Incoming]:
        """Wait up to *timeout* seconds for a MAD and return the MADs that have arrived, with one call into C.

        At most 32 MADs of each device are returned; [] if none arrived in time. If `send` has received MADs meanwhile,
        these are returned at once, and no others. A signal does not end the wait unless its handler raises. Raises
        TransportError (DeviceGone if the device was removed), ClosedError.
        """
        return self._wait(timeout, self._ffi.NULL)[1]

    def recv_answers(self, timeout: float) -> tuple[list[MadAnswer], list[Incoming]]:
        """Receive as `recv`, with the same errors, and return matched answers and other MADs (see
        `ibkeys.umad.port.receiver`)."""
        return self._wait(timeout, self._answers)

    def _wait(self, timeout: float, answers: Any) -> tuple[list[MadAnswer], list[Incoming]]:
        """Wait up to *timeout* seconds, through signals, and return what `_receive` returns. *answers*: as for it."""
        smi = self._device()
        if self._received_early:
            early, self._received_early = self._received_early, []
            return [], early
        deadline = time.monotonic() + timeout
        while True:
            # Rounded up: a wait that ended before the deadline would be repeated at once.
            milliseconds = min(-int(-timeout * 1000 // 1), 0x7FFFFFFF) if timeout > 0 else 0
            if self._gsi is None:
                received = self._receive(smi, milliseconds, answers)
            else:
                received = self._receive_both(smi, self._gsi, milliseconds, answers)
            if received is not None:
                return received
            timeout = deadline - time.monotonic()

    def _receive_both(
        self, smi: Descriptor, gsi: Descriptor, milliseconds: int, answers: Any
    ) -> tuple[list[MadAnswer], list[Incoming]] | None:
        result = self._lib.ibkeys_poll_pair(smi.fd, gsi.fd, milliseconds)
        smps = self._receive(smi, 0, answers) or ([], [])
        gmps = self._receive(gsi, 0) or ([], [])
        received = smps[0], smps[1] + gmps[1]
        return None if result == -errno.EINTR and not any(received) else received

    def _receive(
        self, device: Descriptor, milliseconds: int, answers: Any = None
    ) -> tuple[list[MadAnswer], list[Incoming]] | None:
        """Return the answers that C matched to requests, and all other MADs; None if a signal ended the wait.

        *answers*: the C structure for the matched answers; without it no answer is matched.
        """
        ffi = self._ffi
        answers = answers or ffi.NULL
        count = self._lib.ibkeys_recv_batch(device.fd, self._mads, self._rows, answers, _SLOTS, milliseconds)
        if count > 0:
            self._in_flight = max(0, self._in_flight - count)
            if not answers:
                return [], self._incoming(count)
            matched = answers.count
            data = _DATA_BYTES[matched](self._data_buffer[: matched * _DATA_SIZE])
            pairs = list(zip(ffi.unpack(self._tids, matched), data, strict=True)) if matched else []
            return pairs, self._incoming(count - matched) if matched < count else []
        if count == 0:
            return [], []
        if count == -errno.EINTR:
            return None
        raise failed_call(device.name, "umad_recv", -count)

    def _incoming(self, count: int) -> list[Incoming]:
        """Return the first *count* received MADs without matching them."""
        rows = self._ffi.unpack(self._rows, count * self._lib.IBKEYS_RECV_COLUMNS)
        lengths = rows[0::4]
        mads: Sequence[bytes] = _SLOT_BYTES[count](self._mads_buffer[: count * MAD_SIZE])
        if min(lengths) < MAD_SIZE:
            mads = [mad[:length] for mad, length in zip(mads, lengths, strict=True)]
        # This makes an Incoming of each without a call in Python for each.
        return list(map(tuple.__new__, repeat(Incoming), zip(mads, rows[1::4], rows[2::4], rows[3::4], strict=True)))

    def _device(self) -> Descriptor:
        if self._smi is None:
            raise ClosedError(f"{self.ca_name} port {self.port} was closed")
        return self._smi

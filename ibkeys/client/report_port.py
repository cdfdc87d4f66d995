"""A port that receives Reports: a `UmadPort` around another port, which removes Reports from the received MADs.

The SA sends a Report to every subscriber of a trap and repeats it until a ReportResp comes or its attempts are used up
(IBA 13.4.9; OpenSM: four times 200 ms). A sweep takes longer than that. So this port answers each Report of the SA as
soon as it is received, whatever code called `recv`.
"""

from __future__ import annotations

import errno
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ibkeys.client.gmp import GmpPath, gmp_path
from ibkeys.errors import AgentRefused
from ibkeys.mad import offsets as at
from ibkeys.mad.const import MAD_SIZE, REPORT, SUBN_ADM, AttributeID, Method
from ibkeys.mad.inform import ReportNotice
from ibkeys.mad.notice import Notice
from ibkeys.mad.sa import SA_CLASS_VERSION, SA_HEADER_SIZE, SaHeader
from ibkeys.umad.port import Incoming, UmadPort
from ibkeys.umad.wrapped_port import WrappedPort

MOST_WAITING: Final = 65_536
"""The most Reports that are stored until `ReportPort.take`; further Reports are only counted."""
REPEATED_FOR: Final = 5.0
"""Seconds in which the same Report counts as a repeat. OpenSM gives up after 0.8 s unless its options are changed."""
_MOST_SEEN: Final = 16_384
_NOTICE: Final = int(AttributeID.NOTICE).to_bytes(2)
_LENGTH: Final = SA_HEADER_SIZE + ReportNotice.size
_ERRNOS_OF_TAKEN_REPORTS: Final = frozenset({errno.EPERM, errno.EINVAL, errno.EBUSY})


@dataclass(frozen=True, slots=True)
class TrapReport:
    """A trap in a Report of the SA.

    ``notice``: the notice without its key (`Notice.masked`). ``issuer_gid``: the GID of the port that sent the trap.
    ``lid``: the LID of the SA that sent the Report. ``at``: when it was received, in seconds of the port's clock.
    """

    notice: Notice
    issuer_gid: int
    lid: int
    at: float

    @property
    def trap(self) -> int:
        """The TrapNumber (IBA 14.2.5.1); the DeviceID in the notice of a vendor's trap."""
        return self.notice.trap_number


class ReportPort(WrappedPort):
    """A port around *inner* that answers and stores the Reports of the SA at ``sm_lid``.

    Its `recv` returns all other MADs, and [] before the time is over if only Reports came. ``strangers``: the number of
    Reports of other senders, which are ignored. ``repeats``: the number of Reports that had come before; ``lost``: the
    number of Reports beyond `MOST_WAITING`. ``seen``: (LID, TransactionID, data) of recent Reports → the time.
    *pkey_index*: as for `ibkeys.client.gmp.gmp_path`.
    """

    def __init__(self, inner: UmadPort, pkey_index: int | None = None) -> None:
        super().__init__(inner)
        self.sm_lid = 0
        self.strangers = self.repeats = self.lost = 0
        self._pkey_index = pkey_index
        self._path: GmpPath | None = None
        self._is_registered = False
        self._waiting: deque[TrapReport] = deque()
        self.seen: OrderedDict[tuple[int, bytes, bytes], float] = OrderedDict()

    def expect(self, sm_lid: int) -> None:
        """Receive Reports from the SA at *sm_lid* from now on.

        The SA may have been restarted, so the same Report as before is no repeat any more. Raises UsageError and
        Unreachable as `ibkeys.client.gmp.gmp_path`, and TransportError and ClosedError of the inner port.
        """
        self._path = gmp_path(self.inner.attributes(), self._pkey_index)
        self.sm_lid = sm_lid
        self.seen.clear()

    def take(self) -> list[TrapReport]:
        """Return the Reports that have come since the last call, in their order. Receives nothing."""
        taken = list(self._waiting)
        self._waiting.clear()
        return taken

    def register(self, mgmt_class: int, class_version: int = 1, methods: Sequence[int] = ()) -> None:
        """Register an agent. The agent of the SA's class receives Reports too; it is registered only once. Raises
        TransportError (AgentRefused, also if another program receives the Reports), ClosedError."""
        if mgmt_class != SUBN_ADM:
            self.inner.register(mgmt_class, class_version, methods)
        elif not self._is_registered:
            try:
                self.inner.register(mgmt_class, class_version, (*methods, REPORT))
            except AgentRefused as error:
                if error.errno not in _ERRNOS_OF_TAKEN_REPORTS:
                    raise
                raise reports_taken_error(self, error.errno) from error
            self._is_registered = True

    def recv(self, timeout: float) -> list[Incoming]:
        """Wait up to *timeout* seconds for a MAD, and return the MADs that came, without Reports. Raises
        TransportError (DeviceGone if the device was removed), ClosedError."""
        incoming = self.inner.recv(timeout)
        if not any(_is_report(each) for each in incoming):
            return incoming
        other_mads, answers = [], []
        for each in incoming:
            if not _is_report(each):
                other_mads.append(each)
            elif each.lid != self.sm_lid or self._path is None:
                self.strangers += 1
            else:
                self._store(each)
                answers.append(self._path.outgoing(_answer_to(each.mad), each.lid, 0))
        if answers:
            # A refused answer is not an error: the SA sends the Report again.
            self.inner.send(answers)
        return other_mads

    def _store(self, incoming: Incoming) -> None:
        reported = ReportNotice(incoming.mad[SA_HEADER_SIZE:_LENGTH]).masked()
        now = self.inner.now()
        if self._is_repeat((incoming.lid, incoming.mad[at.TRANSACTION_ID], reported.raw), now):
            self.repeats += 1
        elif len(self._waiting) >= MOST_WAITING:
            self.lost += 1
        else:
            self._waiting.append(TrapReport(reported.notice, reported.issuer_gid, incoming.lid, now))

    def _is_repeat(self, key: tuple[int, bytes, bytes], now: float) -> bool:
        seen = self.seen
        while seen and (len(seen) > _MOST_SEEN or now - next(iter(seen.values())) > REPEATED_FOR):
            seen.popitem(last=False)
        if key in seen:
            return True
        seen[key] = now
        return False


def reports_taken_error(port: UmadPort, reason: int) -> AgentRefused:
    """Return the error for a *port* on which another program receives the Reports. *reason*: the kernel's errno."""
    return AgentRefused(
        f"{port.ca_name} port {port.port}: another program receives the SA's Reports on this port: end it, or use "
        "another port or host",
        reason,
    ).explained("The kernel gives Reports to one program only: another `ibkeys watch`, or a monitor.")


def _is_report(incoming: Incoming) -> bool:
    mad = incoming.mad
    return (
        incoming.status == 0
        and len(mad) >= _LENGTH
        and mad[at.MGMT_CLASS] == SUBN_ADM
        and mad[at.CLASS_VERSION] == SA_CLASS_VERSION
        and mad[at.METHOD] == REPORT
        and mad[at.ATTRIBUTE_ID] == _NOTICE
    )


def _answer_to(mad: bytes) -> bytes:
    """Return the ReportResp to the Report *mad*: the same MAD with another method, status 0 and no RMPP.

    It keeps the whole TransactionID, whose upper half belongs to the sender's kernel.
    """
    header = SaHeader(mad[:SA_HEADER_SIZE]).replace(
        method=Method.REPORT_RESP,
        status=0,
        rmpp_version=0,
        rmpp_type=0,
        r_resp_time=0,
        rmpp_flags=0,
        rmpp_status=0,
        segment_number=0,
        payload_length=0,
    )
    return (header.raw + mad[SA_HEADER_SIZE:]).ljust(MAD_SIZE, b"\0")

"""The SA client: records of subnet administration, from the subnet manager (IBA 15).

One query at a time. An answer of one MAD or of thousands is returned whole or raised as an error; RMPP is done here, in
the same manner on every backend: the agent is registered without the kernel's RMPP, so the kernel delivers single
segments (Linux 3.18 and later).

An SA does not answer all requesters alike. SM_Key 0 is an untrusted requester: OpenSM hides M_Keys from it and refuses
P_KeyTableRecords with status 0x0200. A request with a wrong SM_Key gets no answer: OpenSM drops it (its log has ERR
1A04).
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from ibkeys.arguments import given
from ibkeys.client.gmp import GmpPath, gmp_path
from ibkeys.client.in_flight import GRACE
from ibkeys.client.limits import Limits
from ibkeys.client.rmpp import RmppReceiver
from ibkeys.client.scheduler import BREATH, NO_ROOM
from ibkeys.client.smp import Timing
from ibkeys.client.statistics import Statistics
from ibkeys.errors import MadStatusError, MalformedMad, NoReply, SendRefused, TransferFailed, Unreachable
from ibkeys.keys.smkey import NO_SM_KEY, SMKey
from ibkeys.mad import offsets as at
from ibkeys.mad.attributes import ClassPortInfo
from ibkeys.mad.const import Method, MgmtClass, SaStatus, describe_status, method_name
from ibkeys.mad.fields import Layout
from ibkeys.mad.inform import ALL_TRAPS, InformInfo
from ibkeys.mad.records import MCMemberRecord, SaRecord, query_of
from ibkeys.mad.sa import ACTIVE, SA_CLASS_VERSION, SA_DATA_SIZE, SA_HEADER_SIZE, SaHeader, build_sa
from ibkeys.mad.smp import HEADER_SIZE, TID_MASK
from ibkeys.printable import counted
from ibkeys.umad.port import ETIMEDOUT, Incoming, UmadPort

R = TypeVar("R", bound=SaRecord)

PROGRESS_TIMEOUT: Final = 40.0
"""Seconds without a new segment after which a transfer is given up, as the kernel's receiver does."""
_FINISHED_KEPT: Final = 16
"""Transfers whose repeated last segment is still acknowledged, while later queries wait for their answers."""

_WHOLE_ON_IBSIM: Final = 224

_ADVICE: Final[dict[int, str]] = {
    SaStatus.NO_RESOURCES: "the SA has no resources for it now: ask again later",
    SaStatus.NO_RECORDS: "nothing matches",
    SaStatus.TOO_MANY_RECORDS: "more than one matches: ask for the table, or name more components",
    SaStatus.INSUFFICIENT_COMPONENTS: "name more components",
}
_UNTRUSTED: Final[dict[int, str]] = {
    SaStatus.REQUEST_INVALID: "OpenSM answers this to an untrusted requester",
    SaStatus.REQUEST_DENIED: "the SA may give it to trusted requesters only",
}
"""Why an SA may refuse a requester without an SM_Key."""
REFUSALS: Final = frozenset(_UNTRUSTED)
"""Statuses by which an SA refuses a requester that it does not trust."""


def _advice(sm_key: SMKey) -> dict[int, str]:
    """Return the advice for the user, by the status of an answer to a query with *sm_key*."""
    if not sm_key.is_zero:
        return _ADVICE
    return _ADVICE | {status: f"{why}: give its sa_key with {given('--smkey')}" for status, why in _UNTRUSTED.items()}


@dataclass(frozen=True, slots=True)
class _Answer:
    """``header``: of the first MAD of an answer; ``data``: all records in sequence, of the length in the answer."""

    header: SaHeader
    data: bytes


@dataclass(eq=False, repr=False)
class SaClient:
    """Queries the SA at one LID. Not thread-safe; no other code may use the port during a query.

    ``sm_lid``, ``pkey_index``: by default those of the local port at the time of the first query. ``limits``: on the
    size and time of one answer. ``statistics`` counts its MADs, apart from those of SMPs; acknowledgements are in
    ``sent``.
    """

    _umad: UmadPort
    timing: Timing = field(default_factory=Timing)
    sm_key: SMKey = NO_SM_KEY
    sm_lid: int | None = None
    pkey_index: int | None = None
    limits: Limits = field(default_factory=Limits)
    statistics: Statistics = field(default_factory=Statistics)
    _way: tuple[GmpPath, int] | None = None
    _tid: int = field(default_factory=lambda: random.getrandbits(31))
    _finished: dict[int, RmppReceiver] = field(default_factory=dict)
    _came: deque[Incoming] = field(default_factory=deque)

    def class_port_info(self) -> ClassPortInfo:
        """Get ClassPortInfo: the cheapest proof that the SA is there. Raises the errors of `get`, except those of
        lacking trust."""
        answer = self._ask(Method.GET, 0x0001, 0, b"", "ClassPortInfo")
        return _one(ClassPortInfo, answer, "ClassPortInfo")

    def get(self, record: type[R], **components: Any) -> R:
        """Get the one record that matches *components*, by field name.

        Raises MadStatusError (0x0300 nothing matches, 0x0400 several do, 0x0200 and 0x0700 not for this requester),
        NoReply, SendRefused, MalformedMad, TransferFailed; EncodeError for a name that is not a component; UsageError
        and Unreachable when the local port cannot query the SA.
        """
        mask, data = query_of(record, components)
        what = f"{record.name}{_shown(components)}"
        return _one(record, self._ask(Method.GET, record.attribute_id, mask, data, what), what)

    def get_table(self, record: type[R], **components: Any) -> list[R]:
        """Get all records that match *components*, in the SA's order; none is []. Without components: all there are.

        OpenSM returns only records of ports that share a P_Key with the requester. Raises the errors of `get`.
        """
        mask, data = query_of(record, components)
        what = f"{record.name}{_shown(components)}"
        return _table(record, self._ask(Method.GET_TABLE, record.attribute_id, mask, data, what), what)

    def groups(self) -> list[MCMemberRecord]:
        """Get the multicast groups, one record for each, without their members (`members`).

        The query has SM_Key 0 whatever the client's own is: a trusted requester gets a record for each member instead,
        and from OpenSM none of a group that has no member. OpenSM returns only groups of partitions of which the
        requester's port has a P_Key, full or limited, whatever the SM_Key. Raises the errors of `get_table`.
        """
        what = MCMemberRecord.name
        answer = self._ask(Method.GET_TABLE, MCMemberRecord.attribute_id, 0, b"", what, NO_SM_KEY)
        return _table(MCMemberRecord, answer, what)

    def set_inform_info(self, info: InformInfo) -> InformInfo:
        """Subscribe to traps, or end a subscription; return the InformInfo in the SA's answer (IBA 13.4.11).

        It is repeated if there is no answer: an existing subscription is not changed. Raises the errors of `get`;
        0x0200 from OpenSM: it requires its sa_key for traps 256 to 259, by number; or there was no such subscription to
        end.
        """
        verb = "subscribe to" if info.subscribe else "unsubscribe from"
        trap = "all traps" if info.trap_number == ALL_TRAPS else f"trap {info.trap_number}"
        what = f"{InformInfo.name}: {verb} {trap}"
        return _one(InformInfo, self._ask(Method.SET, InformInfo.attribute_id, 0, info.raw, what), what)

    # --- one query ----------------------------------------------------------------------------------------------------

    def _ask(
        self, method: int, attribute_id: int, mask: int, data: bytes, what: str, sm_key: SMKey | None = None
    ) -> _Answer:
        sm_key = sm_key or self.sm_key
        path, lid = self._where()
        what = f"SubnAdm{method_name(method)}({what}) to LID {lid}"
        mad = build_sa(method, attribute_id, data=data, sm_key=sm_key.reveal(), component_mask=mask)
        ours: set[int] = set()  # an SA that is slow answers an earlier attempt: that is a valid answer too
        for _ in range(self.timing.retries + 1):
            deadline = self._send_request(mad, path, lid, ours, what)
            for came in self._incoming(deadline, path):
                tid = int.from_bytes(came.mad[at.TID])
                if came.status == ETIMEDOUT and tid == self._tid:
                    break
                if came.status not in (0, ETIMEDOUT) and tid in ours:
                    raise SendRefused(f"{what}: this host did not send it (errno {came.status})", came.status)
                is_answer = came.status == 0 and tid in ours and came.mad[at.METHOD] & at.RESPONSE
                if is_answer and came.mad[at.ATTRIBUTE_ID] == mad[at.ATTRIBUTE_ID]:
                    self.statistics.replies += 1
                    return self._take_answer(came, path, what, _advice(sm_key))
                self.statistics.strays += 1
            self.statistics.timeouts += 1
        self._way = None  # another SM may be master by the next query
        raise self._silence(what, path, sm_key)

    def _where(self) -> tuple[GmpPath, int]:
        if self._way is None:
            local = self._umad.attributes()
            lid = self.sm_lid if self.sm_lid is not None else local.sm_lid
            if not lid:
                raise Unreachable(
                    f"{local.ca_name} port {local.port} knows no subnet manager (its MasterSMLID is 0), so there is no "
                    f"SA to query; if a subnet manager is running, give its LID with {given('--sm_port')}"
                )
            path = gmp_path(local, self.pkey_index)
            self._umad.register(MgmtClass.SUBN_ADM, SA_CLASS_VERSION)
            self._way = path, lid
        return self._way

    def _send_request(self, mad: bytes, path: GmpPath, lid: int, ours: set[int], what: str) -> float:
        """Send one attempt; return the time until which to wait for its answer, even if the kernel reports no
        timeout."""
        started = self._umad.now()
        while True:
            self._tid = (self._tid + 1) & TID_MASK or 1
            outgoing = mad[: at.TID.start] + self._tid.to_bytes(4) + mad[at.TID.stop :]
            failures = self._umad.send([path.outgoing(outgoing, lid, int(self.timing.timeout * 1000))])
            now = self._umad.now()
            if not failures:
                ours.add(self._tid)
                self.statistics.sent += 1
                return now + self.timing.timeout + GRACE
            self.statistics.refused += 1
            errno = failures[0].errno
            if errno not in NO_ROOM or now - started > self.timing.timeout:
                raise SendRefused(f"{what}: the kernel refused to send it (errno {errno})", errno)
            for _ in self._incoming(now + BREATH, path):
                self.statistics.strays += 1

    def _incoming(self, deadline: float, path: GmpPath) -> Iterator[Incoming]:
        """Yield the MADs of this class until *deadline*; repeated ends of earlier transfers are acknowledged."""
        while self._came or (left := deadline - self._umad.now()) > 0:
            if not self._came:
                self._came.extend(self._umad.recv(left))
                continue
            came = self._came.popleft()
            if len(came.mad) < HEADER_SIZE or came.mad[at.MGMT_CLASS] != MgmtClass.SUBN_ADM:
                self.statistics.strays += 1
                continue
            finished = self._finished.get(int.from_bytes(came.mad[at.TID])) if came.status == 0 else None
            if finished is not None:
                self._send_back(finished.take(came.mad), came, path)
            else:
                yield came

    def _send_back(self, mad: bytes | None, came: Incoming, path: GmpPath) -> None:
        if mad is not None:
            # a refusal is not an error: the sender repeats what was not acknowledged
            self.statistics.sent += not self._umad.send([path.outgoing(mad, came.lid, 0)])

    def _silence(self, what: str, path: GmpPath, sm_key: SMKey) -> NoReply:
        attempts = self.timing.retries + 1
        tried = f"{counted(attempts, 'attempt')} of {self.timing.timeout * 1000:.0f} ms"
        why = f"no SA there, a dead link, or no common P_Key: this port uses its P_Key index {path.pkey_index}"
        if not sm_key.is_zero:
            why = f"a wrong SM_Key, {why}"
        more = "" if sm_key.is_zero else "OpenSM drops a request with a wrong SM_Key, its log has ERR 1A04."
        return NoReply(f"{what}: no reply after {tried} ({why})", attempts, self.timing.timeout).explained(more)

    # --- one answer ------------------------------------------------------------------------------------------------

    def _take_answer(self, came: Incoming, path: GmpPath, what: str, advices: Mapping[int, str]) -> _Answer:
        mad = came.mad
        if len(mad) < SA_HEADER_SIZE:
            raise MalformedMad(f"{what}: an answer of {len(mad)} bytes; the header alone has {SA_HEADER_SIZE}")
        header = SaHeader(mad[:SA_HEADER_SIZE])
        if header.status:
            advice = advices.get(header.status)
            words = describe_status(header.status, MgmtClass.SUBN_ADM)
            raise MadStatusError(f"{what}: status {words}{': ' + advice if advice else ''}", header.status)
        if not header.rmpp_flags & ACTIVE:
            return _Answer(header, mad[SA_HEADER_SIZE:])
        if header.rmpp_flags == ACTIVE and header.segment_number == 0:
            return _Answer(header, _without_kernel(mad, what))
        return _Answer(header, self._transfer(came, path, what))

    def _transfer(self, came: Incoming, path: GmpPath, what: str) -> bytes:
        """Receive the segments that follow, and return the data of all of them."""
        tid = int.from_bytes(came.mad[at.TID])
        limits = self.limits
        receiver = RmppReceiver(
            max_segments=limits.sa_size * 1_000_000 // SA_DATA_SIZE, too_long=limits.reached("sa_size")
        )
        end = self._umad.now() + limits.sa_time
        self._send_back(receiver.take(came.mad), came, path)
        while receiver.failure is None and not receiver.is_complete:
            before, now = receiver.progress, self._umad.now()
            for more in self._incoming(min(now + PROGRESS_TIMEOUT, end), path):
                if more.status or int.from_bytes(more.mad[at.TID]) != tid or more.lid != came.lid:
                    self.statistics.strays += 1
                    continue
                self.statistics.replies += 1
                self._send_back(receiver.take(more.mad), more, path)
                if receiver.progress > before or receiver.failure is not None:
                    break
            else:
                why = limits.reached("sa_time") if self._umad.now() >= end else ""
                self._send_back(receiver.give_up(came.mad, why), came, path)
        if receiver.failure is not None:
            raise TransferFailed(f"{what}: the answer is incomplete: {receiver.failure}", receiver.failure.rmpp_status)
        while len(self._finished) >= _FINISHED_KEPT:
            del self._finished[next(iter(self._finished))]
        self._finished[tid] = receiver
        return receiver.answer


def _without_kernel(mad: bytes, what: str) -> bytes:
    """Return the data of an answer that OpenSM gave to libumad2sim.

    OpenSM leaves RMPP to the kernel, and libumad2sim replaces the kernel without doing RMPP: the RMPP header is as
    OpenSM wrote it, and the MAD ends with its data or is cut after 256 bytes, of which the library's reader passes on
    224.
    """
    if len(mad) <= _WHOLE_ON_IBSIM:
        return mad[SA_HEADER_SIZE:]
    raise TransferFailed(
        f"{what}: the answer is incomplete: its sender has no RMPP (ibsim's library carries at most {_WHOLE_ON_IBSIM} "
        "bytes of it)"
    )


_L = TypeVar("_L", bound=Layout)


def _one(layout: type[_L], answer: _Answer, what: str) -> _L:
    if len(answer.data) < layout.size:
        raise MalformedMad(f"{what}: the answer has {len(answer.data)} bytes of data, {layout.size} are needed")
    return layout(answer.data[: layout.size])


def _table(record: type[R], answer: _Answer, what: str) -> list[R]:
    """Split the data into records. Their distance is from the SA's answer: OpenSM pads, and so may a later layout."""
    stride, data = 8 * answer.header.attribute_offset, answer.data
    if stride == 0:
        # OpenSM sends 8 zero bytes for no record; a MAD without RMPP cannot be shorter than its 200 bytes.
        if len(data) > SA_DATA_SIZE or any(data):
            raise MalformedMad(
                f"{what}: {len(data)} bytes of records with AttributeOffset 0: the size of a record is not known"
            )
        return []
    rest = len(data) % stride
    if stride < record.size or 0 < rest < record.size:
        raise MalformedMad(
            f"{what}: {len(data)} bytes of records {stride} bytes apart, of which each has {record.size}: the answer "
            "is not a table of complete records"
        )
    return [record(data[start : start + record.size]) for start in range(0, len(data), stride)]


def _shown(components: dict[str, Any]) -> str:
    """Return the components of a query, as `` lid=5 port_num=1``; no component is a secret (see `PortInfoRecord`)."""
    return "".join(f" {name}={value}" for name, value in components.items())

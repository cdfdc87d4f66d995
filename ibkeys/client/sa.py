"""The SA client: records of subnet administration, from the subnet manager (IBA 15).

There is one query at a time. An answer of one MAD or of thousands is returned whole, or an error is raised. RMPP is
done here, the same on every backend: the agent is registered without the kernel's RMPP, so the kernel delivers single
segments (Linux 3.18 and later).

An SA does not answer all requesters alike. A requester with SM_Key 0 is not trusted: OpenSM hides M_Keys from it and
refuses P_KeyTableRecords with status 0x0200. A request with a wrong SM_Key gets no answer: OpenSM drops it (its log has
ERR 1A04).
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from ibkeys.arguments import given, key, number, refuse_wrong
from ibkeys.client.gmp import GmpPath, gmp_path
from ibkeys.client.in_flight import GRACE
from ibkeys.client.limits import Limits
from ibkeys.client.rmpp import RmppReceiver
from ibkeys.client.scheduler import NO_ROOM, NO_ROOM_PAUSE
from ibkeys.client.smp import Timing
from ibkeys.client.statistics import Statistics
from ibkeys.errors import MadStatusError, MalformedMad, NoReply, SendRefused, TransferFailed, Unreachable
from ibkeys.keys.smkey import NO_SM_KEY, SMKey
from ibkeys.mad import offsets as at
from ibkeys.mad.attributes import ClassPortInfo
from ibkeys.mad.const import MAX_UNICAST_LID, Method, MgmtClass, SaStatus, describe_status, method_name
from ibkeys.mad.fields import Layout
from ibkeys.mad.inform import ALL_TRAPS, InformInfo
from ibkeys.mad.records import MCMemberRecord, SaRecord, query_of
from ibkeys.mad.sa import ACTIVE, SA_CLASS_VERSION, SA_DATA_SIZE, SA_HEADER_SIZE, RmppType, SaHeader, build_sa
from ibkeys.mad.smp import HEADER_SIZE, TID_MASK
from ibkeys.printable import counted
from ibkeys.umad.port import ETIMEDOUT, Incoming, UmadPort

R = TypeVar("R", bound=SaRecord)

_RULES: Final = {
    "sm_key": key(SMKey, "ibkeys.SMKey"),
    "sm_lid": number(1, MAX_UNICAST_LID),
    "pkey_index": number(0, 0xFFFF),
}

PROGRESS_TIMEOUT: Final = 10.0
"""Seconds without a new segment after which a transfer is given up and the query is sent again. The kernel of a live
OpenSM has sent a segment four times by then, once every 2 seconds, and given up itself."""
_FINISHED_KEPT: Final = 16
"""The number of finished transfers whose last segment is acknowledged again if it comes during a later query."""

_LONGEST_ON_IBSIM: Final = 224
"""The most bytes of an answer of OpenSM that libumad2sim passes on."""

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
"""The status codes with which an SA refuses a requester that it does not trust."""


def _advice(sm_key: SMKey) -> dict[int, str]:
    """Return the advice to the user for each status of an answer to a query with *sm_key*."""
    if not sm_key.is_zero:
        return _ADVICE
    return _ADVICE | {status: f"{why}: give its sa_key with {given('--smkey')}" for status, why in _UNTRUSTED.items()}


@dataclass(frozen=True, slots=True)
class _Answer:
    """An answer of the SA. ``header``: the header of its first MAD; ``data``: the data of all its MADs."""

    header: SaHeader
    data: bytes


class _Stalled(TransferFailed):
    """A transfer that was given up because no new segment came for `PROGRESS_TIMEOUT`."""


def check_access(sm_key: SMKey | int | None, sm_lid: int | None, pkey_index: int | None) -> None:
    """Check what a script gives to reach the SA. Raises UsageError if a value has a wrong type or is out of bounds."""
    refuse_wrong({"sm_key": sm_key, "sm_lid": sm_lid, "pkey_index": pkey_index}, _RULES)


@dataclass(eq=False, repr=False)
class SaClient:
    """Queries the SA at one LID. Not thread-safe; no other code may use the port during a query.

    ``sm_lid``: None for MasterSMLID of the local port; ``pkey_index``: None for its P_Key of the default partition.
    Both are looked up at the first query, and again after a query without an answer. ``limits``: limits on size and
    time of one answer. ``statistics``: ``sent`` (with acknowledgements, without refused MADs), ``refused``,
    ``replies`` (with the segments of an answer), ``timeouts`` and ``strays`` of this client; its other counts stay 0.
    """

    _umad: UmadPort
    timing: Timing = field(default_factory=Timing)
    sm_key: SMKey = NO_SM_KEY
    sm_lid: int | None = None
    pkey_index: int | None = None
    limits: Limits = field(default_factory=Limits)
    statistics: Statistics = field(default_factory=Statistics)
    _path_to_sa: tuple[GmpPath, int] | None = None
    _tid: int = field(default_factory=lambda: random.getrandbits(31))
    _finished: dict[int, RmppReceiver] = field(default_factory=dict)
    _received: deque[Incoming] = field(default_factory=deque)

    def class_port_info(self) -> ClassPortInfo:
        """Get ClassPortInfo: the cheapest proof that the SA answers. An SA gives it to any requester. Raises the errors
        of `get`."""
        answer = self._ask(Method.GET, 0x0001, 0, b"", "ClassPortInfo")
        return _decode_one(ClassPortInfo, answer, "ClassPortInfo")

    def get(self, record: type[R], **components: Any) -> R:
        """Get the one record that matches *components*, the values of fields by name.

        Raises MadStatusError (0x0300 nothing matches, 0x0400 several do, 0x0200 and 0x0700 not for this requester),
        NoReply, SendRefused, MalformedMad, TransferFailed; EncodeError for a name that is not a component, and for a
        value that does not fit; UsageError, Unreachable, TransportError and ClosedError when the local port cannot
        query the SA.
        """
        mask, data = query_of(record, components)
        query = f"{record.name}{_components_text(components)}"
        return _decode_one(record, self._ask(Method.GET, record.attribute_id, mask, data, query), query)

    def get_table(self, record: type[R], **components: Any) -> list[R]:
        """Get all records that match *components*, in the SA's order; [] if none match. Without components: all
        records.

        OpenSM returns only records of ports that share a P_Key with the requester. Raises the errors of `get`.
        """
        mask, data = query_of(record, components)
        query = f"{record.name}{_components_text(components)}"
        return _split_table(record, self._ask(Method.GET_TABLE, record.attribute_id, mask, data, query), query)

    def groups(self) -> list[MCMemberRecord]:
        """Get the multicast groups, one record for each group, without their members.

        The query always has SM_Key 0. A trusted requester would get a record for each member, and from OpenSM no record
        of a group without members. Whatever the SM_Key is, OpenSM returns only groups of partitions of which the
        requester's port has a P_Key, full or limited. Raises the errors of `get_table`.
        """
        query = MCMemberRecord.name
        answer = self._ask(Method.GET_TABLE, MCMemberRecord.attribute_id, 0, b"", query, NO_SM_KEY)
        return _split_table(MCMemberRecord, answer, query)

    def set_inform_info(self, info: InformInfo) -> InformInfo:
        """Subscribe to traps, or end a subscription; return the InformInfo in the SA's answer (IBA 13.4.11).

        The request is repeated if there is no answer, which does not change an existing subscription. Raises the errors
        of `get`. Status 0x0200 of OpenSM means that it requires its sa_key for a subscription to one of the traps 256
        to 259, or that the subscription to end does not exist.
        """
        verb = "subscribe to" if info.subscribe else "unsubscribe from"
        trap = "all traps" if info.trap_number == ALL_TRAPS else f"trap {info.trap_number}"
        query = f"{InformInfo.name}: {verb} {trap}"
        return _decode_one(InformInfo, self._ask(Method.SET, InformInfo.attribute_id, 0, info.raw, query), query)

    # --- one query ----------------------------------------------------------------------------------------------------

    def _ask(
        self, method: int, attribute_id: int, mask: int, data: bytes, query: str, sm_key: SMKey | None = None
    ) -> _Answer:
        sm_key = sm_key or self.sm_key
        path, lid = self._path_and_lid()
        query = f"SubnAdm{method_name(method)}({query}) to LID {lid}"
        mad = build_sa(method, attribute_id, data=data, sm_key=sm_key.reveal(), component_mask=mask)
        own_tids: set[int] = set()  # A slow SA may answer an earlier attempt: that answer is valid too.
        stalled: TransferFailed | None = None
        for _ in range(self.timing.retries + 1):
            deadline = self._send_request(mad, path, lid, own_tids, query)
            for incoming in self._incoming(deadline, path):
                tid = int.from_bytes(incoming.mad[at.LOWER_TID])
                if incoming.status == ETIMEDOUT and tid == self._tid:
                    break
                if incoming.status not in (0, ETIMEDOUT) and tid in own_tids:
                    raise SendRefused(f"{query}: this host did not send it (errno {incoming.status})", incoming.status)
                is_answer = incoming.status == 0 and tid in own_tids and incoming.mad[at.METHOD] & at.RESPONSE
                is_of_attribute = incoming.mad[at.ATTRIBUTE_ID] == mad[at.ATTRIBUTE_ID]
                if is_answer and is_of_attribute and _begins_an_answer(incoming.mad):
                    self.statistics.replies += 1
                    try:
                        return self._take_answer(incoming, path, query, _advice(sm_key))
                    except _Stalled as error:
                        stalled = error
                        own_tids.discard(tid)
                        break
                self.statistics.strays += 1
            self.statistics.timeouts += 1
        self._path_to_sa = None  # Another SM may be master by the next query.
        raise stalled or self._no_reply_error(query, path, sm_key)

    def _path_and_lid(self) -> tuple[GmpPath, int]:
        if self._path_to_sa is None:
            local = self._umad.attributes()
            lid = self.sm_lid if self.sm_lid is not None else local.sm_lid
            if not lid:
                raise Unreachable(
                    f"{local.ca_name} port {local.port} knows no subnet manager (its MasterSMLID is 0), so there is no "
                    f"SA to query; if a subnet manager is running, give its LID with {given('--sm_port')}"
                )
            path = gmp_path(local, self.pkey_index)
            self._umad.register(MgmtClass.SUBN_ADM, SA_CLASS_VERSION)
            self._path_to_sa = path, lid
        return self._path_to_sa

    def _send_request(self, mad: bytes, path: GmpPath, lid: int, own_tids: set[int], query: str) -> float:
        """Send one attempt, add its TransactionID to *own_tids*, and return the time until which to wait for its
        answer. The kernel normally reports the timeout before. Raises SendRefused."""
        started = self._umad.now()
        while True:
            self._tid = (self._tid + 1) & TID_MASK or 1
            outgoing = mad[: at.LOWER_TID.start] + self._tid.to_bytes(4) + mad[at.LOWER_TID.stop :]
            failures = self._umad.send([path.outgoing(outgoing, lid, int(self.timing.timeout * 1000))])
            now = self._umad.now()
            if not failures:
                own_tids.add(self._tid)
                self.statistics.sent += 1
                return now + self.timing.timeout + GRACE
            self.statistics.refused += 1
            errno = failures[0].errno
            if errno not in NO_ROOM or now - started > self.timing.timeout:
                raise SendRefused(f"{query}: the kernel refused to send it (errno {errno})", errno)
            for _ in self._incoming(now + NO_ROOM_PAUSE, path):
                self.statistics.strays += 1

    def _incoming(self, deadline: float, path: GmpPath) -> Iterator[Incoming]:
        """Yield the MADs of the SA's class until *deadline*, except those of earlier transfers, which are acknowledged
        again."""
        while self._received or (remaining := deadline - self._umad.now()) > 0:
            if not self._received:
                self._received.extend(self._umad.recv(remaining))
                continue
            incoming = self._received.popleft()
            if len(incoming.mad) < HEADER_SIZE or incoming.mad[at.MGMT_CLASS] != MgmtClass.SUBN_ADM:
                self.statistics.strays += 1
                continue
            finished = self._finished.get(int.from_bytes(incoming.mad[at.LOWER_TID])) if incoming.status == 0 else None
            if finished is not None:
                self._send_back(finished.take(incoming.mad), incoming, path)
            else:
                yield incoming

    def _send_back(self, mad: bytes | None, incoming: Incoming, path: GmpPath) -> None:
        if mad is not None:
            # A refusal is not an error: the sender repeats segments that were not acknowledged.
            self.statistics.sent += not self._umad.send([path.outgoing(mad, incoming.lid, 0)])

    def _no_reply_error(self, query: str, path: GmpPath, sm_key: SMKey) -> NoReply:
        attempts = self.timing.retries + 1
        tried = f"{counted(attempts, 'attempt')} of {self.timing.timeout * 1000:.0f} ms"
        why = f"no SA there, a dead link, or no common P_Key: this port uses its P_Key index {path.pkey_index}"
        if not sm_key.is_zero:
            why = f"a wrong SM_Key, {why}"
        more = "" if sm_key.is_zero else "OpenSM drops a request with a wrong SM_Key, its log has ERR 1A04."
        return NoReply(f"{query}: no reply after {tried} ({why})", attempts, self.timing.timeout).explained(more)

    # --- one answer ------------------------------------------------------------------------------------------------

    def _take_answer(self, incoming: Incoming, path: GmpPath, query: str, advices: Mapping[int, str]) -> _Answer:
        mad = incoming.mad
        if len(mad) < SA_HEADER_SIZE:
            raise MalformedMad(f"{query}: an answer of {len(mad)} bytes; the header alone has {SA_HEADER_SIZE}")
        header = SaHeader(mad[:SA_HEADER_SIZE])
        if header.status:
            advice = advices.get(header.status)
            words = describe_status(header.status, MgmtClass.SUBN_ADM)
            raise MadStatusError(f"{query}: status {words}{': ' + advice if advice else ''}", header.status)
        if not header.rmpp_flags & ACTIVE:
            return _Answer(header, mad[SA_HEADER_SIZE:])
        if header.rmpp_flags == ACTIVE and header.segment_number == 0:
            return _Answer(header, _unsegmented_data(mad, query))
        return _Answer(header, self._transfer(incoming, path, query))

    def _transfer(self, incoming: Incoming, path: GmpPath, query: str) -> bytes:
        """Receive the transfer that begins with *incoming*, and return its data. Raises TransferFailed."""
        tid = int.from_bytes(incoming.mad[at.LOWER_TID])
        limits = self.limits
        receiver = RmppReceiver(
            max_segments=limits.sa_size * 1_000_000 // SA_DATA_SIZE, too_long=limits.describe_reached("sa_size")
        )
        end = self._umad.now() + limits.sa_time
        self._send_back(receiver.take(incoming.mad), incoming, path)
        failed: type[TransferFailed] = TransferFailed
        while receiver.failure is None and not receiver.is_complete:
            before, now = receiver.progress, self._umad.now()
            for more in self._incoming(min(now + PROGRESS_TIMEOUT, end), path):
                if more.status or int.from_bytes(more.mad[at.LOWER_TID]) != tid or more.lid != incoming.lid:
                    self.statistics.strays += 1
                    continue
                self.statistics.replies += 1
                self._send_back(receiver.take(more.mad), more, path)
                if receiver.progress > before or receiver.failure is not None:
                    break
            else:
                why = limits.describe_reached("sa_time") if self._umad.now() >= end else ""
                failed = TransferFailed if why else _Stalled
                self._send_back(receiver.give_up(incoming.mad, why), incoming, path)
        if receiver.failure is not None:
            raise failed(f"{query}: the answer is incomplete: {receiver.failure}", receiver.failure.rmpp_status)
        while len(self._finished) >= _FINISHED_KEPT:
            del self._finished[next(iter(self._finished))]
        self._finished[tid] = receiver
        return receiver.answer


def _begins_an_answer(mad: bytes) -> bool:
    """Return whether *mad* may be the first MAD of an answer, which may be an error. An acknowledgement and a later
    segment are not: the SA has nothing to acknowledge, and it sends no second segment before the first is
    acknowledged."""
    if len(mad) < SA_HEADER_SIZE or not mad[at.RMPP_FLAGS] & ACTIVE:
        return True
    header = SaHeader(mad[:SA_HEADER_SIZE])
    return header.rmpp_type != RmppType.ACK and not (header.rmpp_type == RmppType.DATA and header.segment_number > 1)


def _unsegmented_data(mad: bytes, query: str) -> bytes:
    """Return the data of an answer that OpenSM sent through libumad2sim. Raises TransferFailed if it was cut off.

    OpenSM leaves RMPP to the kernel, and libumad2sim replaces the kernel without doing RMPP. So the RMPP header is as
    OpenSM wrote it, and the MAD ends with its data. A longer MAD is cut off after 256 bytes, of which libumad2sim
    passes on 224.
    """
    if len(mad) <= _LONGEST_ON_IBSIM:
        return mad[SA_HEADER_SIZE:]
    raise TransferFailed(
        f"{query}: the answer is incomplete: its sender has no RMPP (ibsim's library carries at most "
        f"{_LONGEST_ON_IBSIM} bytes of it)"
    )


_L = TypeVar("_L", bound=Layout)


def _decode_one(layout: type[_L], answer: _Answer, query: str) -> _L:
    if len(answer.data) < layout.size:
        raise MalformedMad(f"{query}: the answer has {len(answer.data)} bytes of data, {layout.size} are needed")
    return layout(answer.data[: layout.size])


def _split_table(record: type[R], answer: _Answer, query: str) -> list[R]:
    """Split the data into records and return them. Raises MalformedMad if they are not whole.

    The distance between two records is in the answer. It may be more than their size: OpenSM adds padding.
    """
    stride, data = 8 * answer.header.attribute_offset, answer.data
    if stride == 0:
        # For an empty table OpenSM sends 8 zero bytes, or the 200 zero bytes of a MAD without RMPP.
        if len(data) > SA_DATA_SIZE or any(data):
            raise MalformedMad(
                f"{query}: {len(data)} bytes of records with AttributeOffset 0: the size of a record is not known"
            )
        return []
    rest = len(data) % stride
    if stride < record.size or 0 < rest < record.size:
        raise MalformedMad(
            f"{query}: {len(data)} bytes of records {stride} bytes apart, of which each has {record.size}: the answer "
            "is not a table of complete records"
        )
    return [record(data[start : start + record.size]) for start in range(0, len(data), stride)]


def _components_text(components: dict[str, Any]) -> str:
    """Return the components of a query as text, like `` lid=5 port_num=1``. No component is a secret (see
    `PortInfoRecord`)."""
    return "".join(f" {name}={value}" for name, value in components.items())

"""The subnet administration (SA) of the master subnet manager of a simulated subnet (IBA 15), a small subset.

It answers Get and GetTable of NodeRecord, PortInfoRecord, LinkRecord, P_KeyTableRecord and MCMemberRecord, and Get of
ClassPortInfo. Tables are sent with RMPP. It trusts as OpenSM does. A request with a wrong SM_Key other than 0 is
dropped without an answer. With SM_Key 0 the requester is untrusted: M_Keys and group members are hidden, and
P_KeyTableRecords are refused with 0x0200. Set(InformInfo) makes and ends subscriptions; traps that arrive at its port
are sent on as Reports (`ibkeys.sim.agents.subscriptions`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ibkeys.mad import offsets as at
from ibkeys.mad.attributes import ClassPortInfo
from ibkeys.mad.const import MadStatus, Method, SaStatus
from ibkeys.mad.fields import FieldRow
from ibkeys.mad.inform import InformInfo
from ibkeys.mad.records import NodeRecord, PKeyTableRecord, PortInfoRecord, SaRecord
from ibkeys.mad.sa import ACTIVE, SA_CLASS_VERSION, SA_HEADER_SIZE, SaHeader, build_sa
from ibkeys.sim.agents.rmpp_sender import AnswerTransfer
from ibkeys.sim.agents.sa_records import MAKERS, MulticastGroup, RecordSource, has_partition, shares_p_key
from ibkeys.sim.agents.subscriptions import Subscriptions
from ibkeys.sim.history import earliest
from ibkeys.sim.nodes import SimNode, SimPort

DEFAULT_SA_KEY: Final = 1
"""OpenSM's default sa_key."""
_CLASS_PORT_INFO_ID: Final = 0x0001
_PORT_LIDS: Final = frozenset({"LID", "EndportLID", "FromLID"})
"""The components by which a query names the LID of a port, so that the SA need not search all ports."""
_KEY: Final = PortInfoRecord.rows["m_key"].span
_CLASS_PORT_INFO: Final = ClassPortInfo.new(
    base_version=1, class_version=SA_CLASS_VERSION, capability_mask=0x0100, resp_time_value=16
)


class SubnetAdministration:
    """The SA of the subnet of *nodes* at *home*, the port of the master SM.

    ``sa_key``: the SM_Key of trusted requesters; ``enhanced_trust``: an untrusted requester gets no NodeRecord table
    (as with OpenSM's sa_enhanced_trust_model).
    """

    def __init__(self, nodes: Sequence[SimNode], home: SimPort) -> None:
        self.home = home
        self.sa_key = DEFAULT_SA_KEY
        self.enhanced_trust = False
        self._history = home.node.history
        self._source = RecordSource(nodes)
        self.subscriptions = Subscriptions(home, self._source)
        # The answers that are being sent, by requester and TransactionID.
        self._transfers: dict[tuple[SimPort, bytes], AnswerTransfer] = {}

    @property
    def groups(self) -> list[MulticastGroup]:
        """The multicast groups."""
        return self._source.groups

    def take(self, mad: bytes, requester: SimPort, limit: int | None = None) -> list[bytes] | None:
        """Process a request, or an RMPP MAD for an answer; return the MADs to send to the requester now.

        Returns None for a request that is dropped because its SM_Key is wrong. *limit*: the most bytes of records in an
        answer, above which the request is refused with NO_RESOURCES; None for no limit.
        """
        now, key = self._history.now, (requester, mad[at.TRANSACTION_ID])
        if mad[at.RMPP_FLAGS] & ACTIVE:
            transfer = self._transfers.get(key)
            if transfer is None:
                return []
            answers = transfer.take(mad, now)
            if transfer.is_over:
                del self._transfers[key]
            return answers
        if key in self._transfers:
            return []  # The same request again, while its answer is being sent.
        header = SaHeader(mad[:SA_HEADER_SIZE])
        if header.sm_key not in (0, self.sa_key):
            self.home.record("sm-key-dropped", requester=str(requester))
            return None
        status, stride, data = self._answer(header, mad[SA_HEADER_SIZE:], requester, limit)
        is_table = header.method == Method.GET_TABLE and not status
        answer = build_sa(
            Method.GET_RESP if header.method == Method.SET else header.method | 0x80,
            header.attribute_id,
            modifier=header.attribute_modifier,
            status=status,
            data=b"" if is_table else data,
            component_mask=header.component_mask,
            attribute_offset=stride // 8,
            transaction_id=header.transaction_id,
        )
        if not is_table:
            return [answer]
        transfer = self._transfers[key] = AnswerTransfer(answer, data, now)
        return transfer.send(now)

    def next_timer(self) -> float | None:
        """Return the time at which `resend` is due; None if no answer and no Report waits for an acknowledgement."""
        return earliest((*(transfer.due for transfer in self._transfers.values()), self.subscriptions.next_timer()))

    def resend(self) -> list[tuple[SimPort, bytes]]:
        """Return the MADs to send again now, each as (port of the receiver, MAD)."""
        now = self._history.now
        resent = list(self.subscriptions.resend(now))
        for key, transfer in list(self._transfers.items()):
            if transfer.due is not None and transfer.due <= now:
                resent += [(key[0], mad) for mad in transfer.resend(now)]
                if transfer.is_over:
                    del self._transfers[key]
        return resent

    def _answer(self, header: SaHeader, query: bytes, requester: SimPort, limit: int | None) -> tuple[int, int, bytes]:
        """Return the status, the distance between two records in bytes, and the data of all records."""
        method, attribute = header.method, header.attribute_id
        trusted = header.sm_key != 0
        if header.class_version != SA_CLASS_VERSION:
            return MadStatus.BAD_VERSION, 0, b""
        if attribute == InformInfo.attribute_id and method == Method.SET:
            info = InformInfo(query[: InformInfo.size])
            status = self.subscriptions.set(info, requester, trusted)
            return status, InformInfo.size, info.raw
        if method not in (Method.GET, Method.GET_TABLE):
            return MadStatus.METHOD_NOT_SUPPORTED, 0, b""
        if attribute == _CLASS_PORT_INFO_ID and method == Method.GET:
            return MadStatus.OK, 0, _CLASS_PORT_INFO.raw
        if attribute not in MAKERS:
            return MadStatus.METHOD_ATTRIBUTE_NOT_SUPPORTED, 0, b""
        if not trusted and attribute == PKeyTableRecord.attribute_id:
            return SaStatus.REQUEST_INVALID, 0, b""
        if not trusted and self.enhanced_trust and (method, attribute) == (Method.GET_TABLE, NodeRecord.attribute_id):
            return SaStatus.REQUEST_INVALID, 0, b""
        layout, make = MAKERS[attribute]
        query_fields = _query_fields(layout, header.component_mask, query)
        visible: dict[SimPort, bool] = {}
        matching = []
        lid = next((int(str(value)) for row, value in query_fields if row.name in _PORT_LIDS and value), None)
        for raw, port, p_key, other in make(self._source, trusted, lid):
            if any(row.decode(raw) != value for row, value in query_fields):
                continue
            if p_key and not has_partition(requester, p_key):
                continue
            if all(self._is_visible(requester, each, visible) for each in (port, other) if each is not None):
                matching.append(raw if trusted else _for_untrusted(layout, raw))
        if method == Method.GET and len(matching) != 1:
            return SaStatus.TOO_MANY_RECORDS if matching else SaStatus.NO_RECORDS, 0, b""
        data = b"".join(matching)
        if limit is not None and len(data) > limit:
            return SaStatus.NO_RESOURCES, 0, b""
        return MadStatus.OK, len(matching[0]) if matching else 0, data

    def _is_visible(self, requester: SimPort, port: SimPort, cache: dict[SimPort, bool]) -> bool:
        if port not in cache:
            cache[port] = shares_p_key(requester, port)
        return cache[port]


def _query_fields(layout: type[SaRecord], mask: int, query: bytes) -> list[tuple[FieldRow[Any], object]]:
    """Return the fields whose bits are set in the ComponentMask *mask*, with their values in *query*."""
    components = dict(layout.components)
    if layout is PortInfoRecord:
        components["m_key"] = 3  # OpenSM compares the M_Key for untrusted requesters too.
    rows = layout.rows
    return [(rows[name], rows[name].decode(query)) for name, bit in components.items() if mask >> bit & 1]


def _for_untrusted(layout: type[SaRecord], raw: bytes) -> bytes:
    return raw[: _KEY.start] + bytes(8) + raw[_KEY.stop :] if layout is PortInfoRecord else raw

"""Reads that need GMPs: PortCounters of enforcing switch ports, and data that the SA discloses to an untrusted
requester."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from ibkeys.client.sa import REFUSALS, SaClient
from ibkeys.discovery.port_counters import ConstraintErrors, enforcing_ports
from ibkeys.errors import IbkeysError, MadStatusError, NoReply
from ibkeys.fabric.live import LiveFabric
from ibkeys.keys.smkey import NO_SM_KEY, SMKey
from ibkeys.mad.const import MadStatus, NoticeType
from ibkeys.mad.inform import ALL_TRAPS, inform_info
from ibkeys.mad.records import NodeRecord, PortInfoRecord
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port

WITH_DEFAULT_KEY: Final = "port-info-sm-key-1"
"""The question: Get(PortInfoRecord) of the local port with SM_Key 1, OpenSM's default."""
WITHOUT_KEY: Final = "port-info-sm-key-0"
"""The question: Get(PortInfoRecord) of the local port with SM_Key 0. It shows whether the SA answers at all."""
BULK: Final = "node-records-sm-key-0"
"""The question: GetTable(NodeRecord) with SM_Key 0."""
WILDCARD: Final = "inform-info-all-traps-sm-key-0"
"""The question: Set(InformInfo) with SM_Key 0 and TrapNumber 0xFFFF, of Type security; ended at once."""


@dataclass(frozen=True, slots=True)
class SaProbe:
    """The SA's reaction to a question of an untrusted requester: ``answered``, ``refused``, ``silent`` or
    ``failed``."""

    answer: str
    detail: str


def read_constraint_errors(
    fabric: LiveFabric, found: Topology, pkey_index: int | None = None
) -> dict[Port, ConstraintErrors]:
    """Get PortCounters of every switch port that enforces. A port that cannot be read has the error; nothing is
    raised."""
    return fabric.read_constraint_errors(enforcing_ports(found.ports()), pkey_index)


def probe_sa(
    fabric: LiveFabric, sm_lid: int | None = None, pkey_index: int | None = None, *, with_default_key: bool = True
) -> dict[str, SaProbe]:
    """Send the SA four queries that any host may send, and return its reaction to each. Raises TransportError if the
    attributes of the local port cannot be read, and nothing else.

    One query has SM_Key 1, the well-known default. OpenSM with another sa_key does not answer it, and logs it;
    *with_default_key* false leaves this query out. Another query is a subscription, which is ended as soon as it is
    accepted.
    """
    lid = fabric.local().base_lid

    def port_info(key: SMKey) -> str:
        record = fabric.sa(key, sm_lid, pkey_index).get(PortInfoRecord, endport_lid=lid, port_num=fabric.local().port)
        return f"PortInfoRecord of LID {record.endport_lid}"

    def nodes() -> str:
        return f"{len(fabric.sa(NO_SM_KEY, sm_lid, pkey_index).get_table(NodeRecord))} NodeRecords"

    def subscription() -> str:
        return _subscribe_and_end(fabric.sa(NO_SM_KEY, sm_lid, pkey_index))

    return {
        WITHOUT_KEY: _probe(lambda: port_info(NO_SM_KEY)),
        **({WITH_DEFAULT_KEY: _probe(lambda: port_info(SMKey(1)))} if with_default_key else {}),
        BULK: _probe(nodes),
        WILDCARD: _probe(subscription),
    }


def _subscribe_and_end(client: SaClient) -> str:
    """Subscribe to all security traps without an SM_Key, end the subscription, and return the outcome.

    The Type is security, which makes it another subscription than that of a monitor on this port; its end does not end
    the monitor's.
    """
    begin, end = (inform_info(ALL_TRAPS, subscribe=each, kind=NoticeType.SECURITY) for each in (True, False))
    try:
        client.set_inform_info(begin)
    except NoReply:
        with suppress(IbkeysError):  # it may have been accepted, and only the answer lost: the silence is the outcome
            client.set_inform_info(end)
        raise
    try:
        client.set_inform_info(end)
    except IbkeysError as error:
        return f"a subscription to all traps; cancelling it was not confirmed: {error}"
    return "a subscription to all traps, ended again"


def _probe(ask: Callable[[], str]) -> SaProbe:
    """Call *ask* and return the outcome. A status of `REFUSALS`, or with one of the bits 0 to 4 set (busy, redirect,
    invalid field), is ``refused``; with any other status the SA ``answered``."""
    try:
        return SaProbe("answered", ask())
    except MadStatusError as error:
        is_refusal = error.status in REFUSALS or error.status & 0x1F != MadStatus.OK
        return SaProbe("refused" if is_refusal else "answered", str(error))
    except NoReply as error:
        return SaProbe("silent", str(error))
    except IbkeysError as error:
        return SaProbe("failed", str(error))

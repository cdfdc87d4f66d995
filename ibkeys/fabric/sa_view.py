"""The SA's records of every port's P_Key table and PortInfo, from the memory of the subnet manager.

They may differ from the port's own answers: OpenSM returns the values of the last Set or Get, and it reads a table
again only when a port comes up. So a table that was changed by another tool shows as a difference here.

The SA may be hostile, or not the fabric's own. Records of ports that no sweep found are counted and dropped, and
contradictory records are both ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from ibkeys.client.sa import REFUSALS, SaClient
from ibkeys.errors import MadStatusError, MalformedMad, NoReply, SendRefused, TransferFailed, Unreachable
from ibkeys.mad.const import P_KEYS_PER_BLOCK
from ibkeys.mad.records import PKeyTableRecord, PortInfoRecord, SaRecord
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port

R = TypeVar("R", bound=SaRecord)

SaOutcome = Literal["answered", "refused", "failed"]


@dataclass(frozen=True, slots=True)
class SaAnswer:
    """The SA's reaction to one query. ``detail``: why it did not answer, or which part of its answer was dropped."""

    outcome: SaOutcome
    detail: str = ""


@dataclass(slots=True)
class SaPort:
    """The SA's records about one port; None if there is none. ``port_info``: 64 bytes, the M_Key zeroed; ``p_key_raw``:
    the whole table."""

    port_info: bytes | None = None
    p_key_raw: bytes | None = None


@dataclass(slots=True)
class SaView:
    """The SA's records. ``answers``: by the name of the record; ``ports``: the ports of which it has any record."""

    answers: dict[str, SaAnswer] = field(default_factory=dict)
    ports: dict[Port, SaPort] = field(default_factory=dict)

    def of(self, port: Port) -> SaPort:
        """Return the records about a port."""
        return self.ports.get(port) or SaPort()


def ask_sa_view(sa: SaClient, found: Topology) -> SaView:
    """Query the SA for PortInfoRecord and P_KeyTableRecord of all ports. A failed query is in ``SaView.answers``.

    OpenSM answers only about ports that share a P_Key with the requester, and P_KeyTableRecords only to a requester
    with its sa_key. Raises TransportError; UsageError if the local port has no P_Key at the ``pkey_index`` of *sa*.
    """
    view, ports = SaView(), _by_place(found.ports())
    is_there = _ask(sa, PortInfoRecord, view, lambda records: _take_port_infos(records, view, ports))
    if is_there:
        _ask(sa, PKeyTableRecord, view, lambda records: _take_tables(records, view, ports))
    else:
        view.answers[PKeyTableRecord.name] = view.answers[PortInfoRecord.name]
    return view


_Place = tuple[int, int]
"""LID and port number, by which records name a port."""


def _by_place(ports: Iterable[Port]) -> dict[_Place, Port]:
    """Return the ports by LID and number. Two ports with the same LID and number cannot be distinguished, so neither is
    returned."""
    found: dict[_Place, Port] = {}
    twice = set()
    for port in ports:
        if port.lid:
            place = (port.lid, port.num)
            if found.setdefault(place, port) is not port:
                twice.add(place)
    return {place: port for place, port in found.items() if place not in twice}


def _ask(sa: SaClient, record: type[R], view: SaView, take: Callable[[list[R]], str]) -> bool:
    """Query all records of a kind, and record the outcome. Return whether an SA answers at all."""
    try:
        answer, is_there = SaAnswer("answered", take(sa.get_table(record))), True
    except MadStatusError as error:
        answer, is_there = SaAnswer("refused" if error.status in REFUSALS else "failed", str(error)), True
    except (MalformedMad, TransferFailed) as error:
        answer, is_there = SaAnswer("failed", str(error)), True
    except (NoReply, SendRefused, Unreachable) as error:
        answer, is_there = SaAnswer("failed", str(error)), False
    view.answers[record.name] = answer
    return is_there


@dataclass(slots=True)
class _Dropped:
    """Records that are dropped because they cannot be right."""

    strange: int = 0
    contradicted: set[Port] = field(default_factory=set)
    cut: int = 0

    def in_words(self) -> str:
        """Return which records were dropped, in words; "" if none was."""
        counts = (
            (self.strange, "for no port that was found, or past the end of its table"),
            (len(self.contradicted), "ports with contradictory records"),
            (self.cut, "ports that it shows only in part"),
        )
        return "; ".join(f"{count} {words}" for count, words in counts if count)


def _take_port_infos(records: Iterable[PortInfoRecord], view: SaView, ports: Mapping[_Place, Port]) -> str:
    dropped = _Dropped()
    for record in records:
        port = ports.get((record.endport_lid, record.port_num))
        if port is None:
            dropped.strange += 1
            continue
        info, sa_port = record.port_info.replace(m_key=0).raw, view.ports.setdefault(port, SaPort())
        if sa_port.port_info not in (None, info):
            dropped.contradicted.add(port)
        sa_port.port_info = info
    for port in dropped.contradicted:
        view.ports[port].port_info = None
    return dropped.in_words()


def _take_tables(records: Iterable[PKeyTableRecord], view: SaView, ports: Mapping[_Place, Port]) -> str:
    dropped, tables = _Dropped(), dict[Port, dict[int, bytes]]()
    for record in records:
        port = ports.get((record.lid, record.port_num))
        number = _block_number(record, port) if port is not None else None
        if port is None or number is None:
            dropped.strange += 1
            continue
        block, table = record.p_key_table.raw, tables.setdefault(port, {})
        if table.setdefault(number, block) != block:
            dropped.contradicted.add(port)
    for port, table in tables.items():
        if port in dropped.contradicted:
            continue
        if len(table) < _blocks(port):
            dropped.cut += 1
            continue
        whole = b"".join(table[number] for number in range(len(table)))
        view.ports.setdefault(port, SaPort()).p_key_raw = whole[: 2 * (port.capacity or 0)]
    return dropped.in_words()


def _block_number(record: PKeyTableRecord, port: Port) -> int | None:
    """Return the number of the block of a port's table that a record has, None for a block that the table does not
    have.

    OpenSM 3.3.23 sends BlockNum in the byte order of its host, so that block 1 comes as 256 (observed). No table is so
    large that this could be mistaken: 256 blocks are 8192 P_Keys.
    """
    number: int = record.block_num
    swapped = int.from_bytes(number.to_bytes(2), "little")
    return next((each for each in (number, swapped) if each < _blocks(port)), None)


def _blocks(port: Port) -> int:
    return -(-(port.capacity or 0) // P_KEYS_PER_BLOCK)

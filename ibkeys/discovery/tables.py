"""Reading P_KeyTable and GUIDInfo of ports, which have many blocks, and VirtualizationInfo."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from ibkeys.client.request import Envelope
from ibkeys.client.smp import SmpClient, SmpOutcome, Task
from ibkeys.errors import IbkeysError, MadStatusError, NoReply
from ibkeys.mad.attributes import Attribute, GUIDInfo, PKeyTable, PortInfo
from ibkeys.mad.const import GUIDS_PER_BLOCK, P_KEYS_PER_BLOCK, MadStatus
from ibkeys.mad.virtualization import VirtualizationInfo
from ibkeys.topology.nodes import Port

if TYPE_CHECKING:
    from ibkeys.topology.model import Topology

AT_ONCE: Final = 64
"""The most blocks in one request. Very many ports may claim tables of 2,048 blocks, and longer requests would take much
memory while they wait."""


def read_p_key_table(port: Port, gets: Envelope) -> Task:
    """Task: read the P_Key table of one port as `read_p_key_tables` does. Returns None, or the first error."""
    for _, problem in (yield from read_p_key_tables([port], gets)):
        return problem
    return None


def read_p_key_tables(ports: Sequence[Port], gets: Envelope) -> Task:
    """Task: read the whole P_Key tables of *ports* into their ``p_key_raw``.

    *ports*: one port, or external ports of one switch. *gets*: the envelope for Gets to their agent. Returns a list of
    the ports whose table could not be read, each with the first error. The length of each table is `Port.capacity`;
    capacity 0 sends nothing. Sends ceil(capacity / 32) Gets for each port.
    """
    capacity = ports[0].capacity
    if capacity is None:
        text = "P_KeyTable of {}: its size is not known, SwitchInfo could not be read"
        return [(port, NoReply(text.format(port))) for port in ports]
    blocks = -(-capacity // P_KEYS_PER_BLOCK)
    group_size = max(1, AT_ONCE // max(1, blocks))
    problems: list[tuple[Port, IbkeysError]] = []
    for start in range(0, len(ports), group_size):
        group = ports[start : start + group_size]
        tables: list[SmpOutcome] = yield from _read_tables(
            gets, PKeyTable, [port.p_key_modifier(0) for port in group], blocks
        )
        for port, table in zip(group, tables, strict=True):
            if isinstance(table, IbkeysError):
                problems.append((port, table))
            else:
                port.p_key_raw = table[: 2 * capacity]
    return problems


def gets_to(client: SmpClient, port: Port) -> Envelope:
    """Return the envelope for Gets to the agent of *port*: on the route to it, with the M_Key of its end port."""
    return client.gets_to(port.agent_path, port.node, port.end_port.m_key)


def read_guid_info(port: Port, gets: Envelope) -> Task:
    """Task: read all blocks of an end port's GUIDInfo into ``port.guid_info``. *gets*: the envelope for Gets to its
    agent.

    Returns None, or the first error. The length is PortInfo.GUIDCap, which must have been read; 0 sends nothing.
    """
    assert port.info is not None
    count = PortInfo(port.info).guid_cap
    if not count:
        return None
    table = yield from _read_table(gets, GUIDInfo, 0, -(-count // GUIDS_PER_BLOCK))
    if isinstance(table, IbkeysError):
        return table
    port.guid_info = table[: 8 * count]
    return None


def unread_aliases(topology: Topology, guids: Iterable[int]) -> list[Port]:
    """Return the end ports of *topology* that may have alias GUIDs (GUIDCap above 1) and whose GUIDInfo was not read.

    *guids*: the GUIDs to be recognized. Returns [] if all of them are port GUIDs.
    """
    ends = list(topology.end_ports())
    if not set(guids) - {port.guid for port in ends}:
        return []
    return [
        port for port in ends if port.guid_info is None and port.info is not None and PortInfo(port.info).guid_cap > 1
    ]


def read_alias_guids(client: SmpClient, topology: Topology, guids: Iterable[int]) -> None:
    """Read GUIDInfo of the ports that `unread_aliases` returns, and add a trouble to *topology* for each that fails.

    Sends ceil(GUIDCap / 8) Gets for each port.
    """
    client.run(_read_aliases(client, port, topology) for port in unread_aliases(topology, guids))


def _read_aliases(client: SmpClient, port: Port, topology: Topology) -> Task:
    problem = yield from read_guid_info(port, gets_to(client, port))
    if problem is not None:
        from ibkeys.topology.troubles import Trouble

        topology.troubles.append(Trouble.of(port, GUIDInfo.name, problem))


def read_virtualization(port: Port, gets: Envelope) -> Task:
    """Task: read VirtualizationInfo of a port that may have virtual ports into ``port.virtualization_raw``.

    Returns None, or the error. If the agent does not know the attribute, the port has no virtual ports, and the value
    is b"".
    """
    try:
        port.virtualization_raw = yield gets.ask(VirtualizationInfo)
    except MadStatusError as error:
        if error.status not in NOT_VIRTUALIZED:
            return error
        port.virtualization_raw = b""
    except IbkeysError as error:
        return error
    return None


NOT_VIRTUALIZED = (MadStatus.METHOD_ATTRIBUTE_NOT_SUPPORTED, MadStatus.INVALID_FIELD)
"""The statuses with which an agent without virtual ports may answer a Get of VirtualizationInfo."""


def _read_tables(gets: Envelope, attribute: type[Attribute], firsts: Sequence[int], blocks: int) -> Task:
    """Task: get tables of *blocks* blocks each; return a list of what `_read_table` returns for each.

    *firsts*: the AttributeModifiers of their first blocks. All of them are one request if they have at most `AT_ONCE`
    blocks together.
    """
    if 0 < len(firsts) * blocks <= AT_ONCE:  # True for nearly all calls.
        outcomes = yield gets.ask_each(attribute, [first + block for first in firsts for block in range(blocks)])
        return [_table(outcomes[at : at + blocks]) for at in range(0, len(outcomes), blocks)]
    tables: list[SmpOutcome] = []
    for first in firsts:
        tables.append((yield from _read_table(gets, attribute, first, blocks)))
    return tables


def _read_table(gets: Envelope, attribute: type[Attribute], first: int, blocks: int) -> Task:
    """Task: get one table; return its bytes, or the first error. *first*: the AttributeModifier of its first block;
    *blocks*: their number.

    After an error no further request is sent. A request has at most `AT_ONCE` blocks.
    """
    whole: list[bytes] = []
    for start in range(first, first + blocks, AT_ONCE):
        part = _table((yield gets.ask_each(attribute, range(start, min(start + AT_ONCE, first + blocks)))))
        if isinstance(part, IbkeysError):
            return part
        whole.append(part)
    return b"".join(whole)


def _table(outcomes: Sequence[SmpOutcome]) -> SmpOutcome:
    """Return the bytes of consecutive blocks, or the first error among them."""
    blocks: list[bytes] = []
    for outcome in outcomes:
        if isinstance(outcome, IbkeysError):
            return outcome
        blocks.append(outcome)
    return b"".join(blocks)

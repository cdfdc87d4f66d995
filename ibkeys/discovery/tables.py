"""Tables that are read in blocks: P_KeyTable of a port, GUIDInfo of an end port; and whether it has virtual ports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ibkeys.client.request import Envelope
from ibkeys.client.scheduler import PER_NODE
from ibkeys.client.smp import Outcome, SmpClient, Task
from ibkeys.errors import IbkeysError, MadStatusError, NoReply
from ibkeys.mad.attributes import Attribute, GUIDInfo, PKeyTable, PortInfo
from ibkeys.mad.const import GUIDS_PER_BLOCK, P_KEYS_PER_BLOCK, MadStatus
from ibkeys.mad.virtualization import VirtualizationInfo
from ibkeys.topology.model import Topology, Trouble
from ibkeys.topology.nodes import Port


def read_p_key_table(port: Port, gets: Envelope) -> Task:
    """Task: read all blocks of a port's P_Key table into ``port.p_key_raw``. *gets*: how the port's agent is asked.

    Returns None, or the first error. The length is `Port.capacity`; capacity 0 sends nothing.
    Sends ceil(capacity / 32) Gets.
    """
    capacity = port.capacity
    if capacity is None:
        return NoReply(f"P_KeyTable of {port}: its size is not known, SwitchInfo could not be read")
    first = p_key_modifier(port, 0)
    blocks = range(first, first - (-capacity // P_KEYS_PER_BLOCK))
    try:
        if len(blocks) == 1:  # nearly all
            raw = yield gets.ask(PKeyTable, first)
        else:
            at_once = 1 if port.is_external else PER_NODE  # several ports of a switch are read at a time
            raw = yield from _read_blocks(gets, PKeyTable, blocks, at_once)
        port.p_key_raw = raw[: 2 * capacity]
    except IbkeysError as error:
        return error
    return None


def gets_to(client: SmpClient, port: Port) -> Envelope:
    """Return how the agent of *port* is asked: on the route to it, with the M_Key of its end port."""
    return client.gets_along(port.agent_path, port.node, port.end_port.m_key)


def p_key_modifier(port: Port, block: int) -> int:
    """Return the AttributeModifier of one P_KeyTable block: on a switch the port is in bits 31..16 (IBA 14.2.5.7)."""
    return (port.num << 16 | block) if port.is_external else block


def read_guid_info(port: Port, gets: Envelope) -> Task:
    """Task: read all blocks of an end port's GUIDInfo into ``port.guid_info``. *gets*: how the port's agent is asked.

    Returns None, or the first error. The length is PortInfo.GUIDCap, which must have been read; 0 sends nothing.
    """
    assert port.info is not None
    count = PortInfo(port.info).guid_cap
    if not count:
        return None
    try:
        raw = yield from _read_blocks(gets, GUIDInfo, range(-(-count // GUIDS_PER_BLOCK)), PER_NODE)
    except IbkeysError as error:
        return error
    port.guid_info = raw[: 8 * count]
    return None


def unread_aliases(found: Topology, named: Iterable[int]) -> list[Port]:
    """Return the end ports of *found* that may have alias GUIDs (GUIDCap above 1) and whose GUIDInfo was not read; none
    if all GUIDs *named* are ports' own."""
    ends = list(found.end_ports())
    if not set(named) - {port.guid for port in ends}:
        return []
    return [
        port for port in ends if port.guid_info is None and port.info is not None and PortInfo(port.info).guid_cap > 1
    ]


def read_alias_guids(client: SmpClient, found: Topology, named: Iterable[int]) -> None:
    """Read GUIDInfo of the ports that `unread_aliases` returns. What cannot be read is in ``found.troubles``.

    Sends ceil(GUIDCap / 8) Gets for each of them.
    """
    client.run(_read_aliases(client, port, found) for port in unread_aliases(found, named))


def _read_aliases(client: SmpClient, port: Port, found: Topology) -> Task:
    problem = yield from read_guid_info(port, gets_to(client, port))
    if problem is not None:
        found.troubles.append(Trouble.of(port, GUIDInfo.name, problem))


def read_virtualization(port: Port, gets: Envelope) -> Task:
    """Task: read VirtualizationInfo of a port that may have virtual ports into ``port.virtualization_raw``.

    Returns None, or the error. An agent that does not know the attribute has no virtual ports: then it is empty.
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
"""What an agent without virtual ports answers to a Get of VirtualizationInfo."""


def _read_blocks(gets: Envelope, attribute: type[Attribute], blocks: range, at_once: int) -> Task:
    """Task: get *blocks*, *at_once* in flight; return their bytes. *blocks* are AttributeModifiers.

    Raises the first error, and asks for no more. A table may have 2,048 blocks, and very many ports may claim so: what
    waits for its turn would only take memory.
    """
    whole: list[bytes] = []
    for start in range(0, len(blocks), at_once):
        some = blocks[start : start + at_once]
        if len(some) == 1:  # nearly all: a list of one would cost more
            whole.append((yield gets.ask(attribute, some[0])))
            continue
        outcomes: Sequence[Outcome] = yield [gets.ask(attribute, block) for block in some]
        for outcome in outcomes:
            if isinstance(outcome, IbkeysError):
                raise outcome
            whole.append(outcome)
    return whole[0] if len(whole) == 1 else b"".join(whole)

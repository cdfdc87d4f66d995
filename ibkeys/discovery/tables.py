"""Tables that are read in blocks: P_KeyTable of a port, GUIDInfo of an end port."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ibkeys.client.scheduler import PER_NODE, Request
from ibkeys.client.smp import Outcome, SmpClient, Task
from ibkeys.errors import IbkeysError, NoReply
from ibkeys.keys.mkey import MKey
from ibkeys.mad.attributes import GUIDInfo, PKeyTable, PortInfo
from ibkeys.mad.const import GUIDS_PER_BLOCK, P_KEYS_PER_BLOCK
from ibkeys.topology.model import Port


def read_p_key_table(client: SmpClient, port: Port, path: tuple[int, ...], m_key: MKey) -> Task:
    """Task: read all blocks of a port's P_Key table, on the route *path*, into ``port.p_key_raw``.

    Returns None, or the first error. The length is `Port.capacity`; capacity 0 sends nothing.
    Sends ceil(capacity / 32) Gets.
    """
    capacity = port.capacity
    if capacity is None:
        return NoReply(f"P_KeyTable of {port}: its size is not known, SwitchInfo could not be read")
    node, first = port.node, p_key_modifier(port, 0)
    raw: Outcome = yield from _read_blocks(
        lambda block: client.get_along(path, PKeyTable, first + block, node, m_key),
        -(-capacity // P_KEYS_PER_BLOCK),
        1 if port.is_external else PER_NODE,  # several ports of a switch are read at a time
    )
    if isinstance(raw, IbkeysError):
        return raw
    port.p_key_raw = raw[: 2 * capacity]
    return None


def p_key_modifier(port: Port, block: int) -> int:
    """Return the AttributeModifier of one P_KeyTable block: on a switch the port is in bits 31..16 (IBA 14.2.5.7)."""
    return (port.num << 16 | block) if port.node.is_switch else block


def read_guid_info(client: SmpClient, port: Port, path: tuple[int, ...]) -> Task:
    """Task: read all blocks of an end port's GUIDInfo, on the route *path*, into ``port.guid_info``.

    Returns None, or the first error. The length is PortInfo.GUIDCap, which must have been read; 0 sends nothing.
    """
    assert port.info is not None
    count = PortInfo(port.info).guid_cap
    if not count:
        return None
    raw: Outcome = yield from _read_blocks(
        lambda block: client.get_along(path, GUIDInfo, block, port.node, port.m_key),
        -(-count // GUIDS_PER_BLOCK),
        PER_NODE,
    )
    if isinstance(raw, IbkeysError):
        return raw
    port.guid_info = raw[: 8 * count]
    return None


def _read_blocks(request: Callable[[int], Request], count: int, at_once: int) -> Task:
    """Task: get *count* blocks, *at_once* in flight; return their bytes, or the first error and ask for no more.

    A table may have 2,048 blocks, and very many ports may claim so: what waits for its turn would only take memory.
    """
    whole = bytearray()
    for start in range(0, count, at_once):
        blocks: Sequence[Outcome] = yield [request(block) for block in range(start, min(start + at_once, count))]
        for outcome in blocks:
            if isinstance(outcome, IbkeysError):
                return outcome
            whole += outcome
    return bytes(whole)

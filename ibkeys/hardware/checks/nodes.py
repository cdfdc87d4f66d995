"""Checks of the capabilities of the nodes in the sweep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import reduce
from operator import and_, or_
from typing import Final

from ibkeys.hardware.check import CheckAnswer, as_assumed, check, not_checked, seen
from ibkeys.hardware.reading import FabricReading
from ibkeys.keys.pkey import PARTITION_MASK
from ibkeys.mad.attributes import NodeInfo, PortInfo, SpeedsAboveNdr
from ibkeys.mad.const import P_KEYS_PER_BLOCK, CapabilityMask
from ibkeys.mad.fields import Layout
from ibkeys.printable import counted

_MOST_SHOWN: Final = 8


def _counts_text(counts: Counter[str]) -> str:
    """Return a text like ``12 x 128, 2 x 64``, the most frequent first and at most `_MOST_SHOWN` of them."""
    shown = [f"{number} x {what}" for what, number in counts.most_common(_MOST_SHOWN)]
    return ", ".join(shown) + (f" and {len(counts) - _MOST_SHOWN} more" if len(counts) > _MOST_SHOWN else "")


@check("nodes.all-answer", "simulator", "every node that a cable leads to answers everything that a sweep asks")
def all_answer(reading: FabricReading) -> CheckAnswer:
    """Return the attributes that the sweep could not read, counted by attribute and kind."""
    found = reading.topology
    counts = Counter(f"{trouble.attribute or 'field'} {trouble.reading}" for trouble in found.troubles)
    text = f"{counted(len(found.nodes), 'node')}; not read: {_counts_text(counts) or 'nothing'}"
    return as_assumed(not counts, text, unread=dict(counts), nodes=len(found.nodes))


@check("nodes.kinds", "unknown", "vendor, device and size of each kind of node are recorded")
def kinds(reading: FabricReading) -> CheckAnswer:
    """Return how many nodes of each kind are in the sweep."""
    counts: Counter[str] = Counter()
    for node in reading.topology.nodes:
        info = node.node_info
        counts[
            f"{node.type_name} 0x{info.vendor_id:06x}:0x{info.device_id:04x} with {counted(node.num_ports, 'port')}"
        ] += 1
    return seen(_counts_text(counts), kinds=dict(counts))


@check("nodes.p-key-capacity", "standard", "PartitionCap is not 0, and of a CA a multiple of 32")
def p_key_capacity(reading: FabricReading) -> CheckAnswer:
    """Return how many nodes of each type have each PartitionCap."""
    caps = [(node.type_name, node.node_info.partition_cap) for node in reading.topology.nodes]
    counts = Counter(f"{kind} {cap}" for kind, cap in caps)
    is_so = all(cap and not (kind == "ca" and cap % P_KEYS_PER_BLOCK) for kind, cap in caps)
    return as_assumed(is_so, _counts_text(counts), capacities=dict(counts))


@check("nodes.enforcement", "simulator", "every switch can enforce partitions, inbound and outbound")
def enforcement(reading: FabricReading) -> CheckAnswer:
    """Return how many switches have each combination of the enforcement capabilities in SwitchInfo."""
    infos = [node.switch_info for node in reading.topology.nodes if node.is_switch]
    known = [info for info in infos if info is not None]
    if not known:
        return not_checked("no switch, or SwitchInfo was not read")
    counts = Counter(
        f"inbound {_yes(info.inbound_enforcement_cap)}, outbound {_yes(info.outbound_enforcement_cap)}, "
        f"{info.partition_enforcement_cap} entries"
        for info in known
    )
    is_so = all(
        info.partition_enforcement_cap and info.inbound_enforcement_cap and info.outbound_enforcement_cap
        for info in known
    )
    return as_assumed(is_so, _counts_text(counts), switches=dict(counts))


def _yes(bit: int) -> str:
    return "yes" if bit else "no"


@check("nodes.index-0", "standard", "index 0 of every P_Key table holds the default partition")
def index_0(reading: FabricReading) -> CheckAnswer:
    """Check that every P_Key table begins with a P_Key of the default partition."""
    tables = [port.p_keys for port in reading.end_ports if port.p_keys]
    if not tables:
        return not_checked("no P_Key table was read")
    others = sum(int(table[0]) & PARTITION_MASK != PARTITION_MASK for table in tables)
    return as_assumed(not others, f"{counted(len(tables), 'table')}, {others} with something else", others=others)


@check("nodes.capabilities", "unknown", "bits of CapabilityMask of all end ports, and of some, are recorded")
def capabilities(reading: FabricReading) -> CheckAnswer:
    """Return the CapabilityMask bits, other than IsSM, that all end ports have, and those that only some have."""
    masks = [info.capability_mask & ~CapabilityMask.IS_SM for info in reading.port_infos]
    if not masks:
        return not_checked("no PortInfo was read")
    every, some = reduce(and_, masks), reduce(or_, masks)
    return seen(f"all have 0x{every:08x}, some 0x{some & ~every:08x} too", all=f"0x{every:08x}", some=f"0x{some:08x}")


@check("nodes.m-key-state", "unknown", "how many ports show an M_Key, hide it or have none, by level, is recorded")
def m_key_state(reading: FabricReading) -> CheckAnswer:
    """Return how many end ports are in each M_Key state at each level. No M_Key is in the answer."""
    counts = Counter(
        f"{port.m_key_state} at level {port.port_info.m_key_protect_bits}"
        for port in reading.end_ports
        if port.port_info
    )
    return seen(_counts_text(counts), states=dict(counts)) if counts else not_checked("no PortInfo was read")


@check("nodes.reserved-bits", "standard", "bits of NodeInfo and PortInfo that the tables of ibkeys do not name are 0")
def reserved_bits(reading: FabricReading) -> CheckAnswer:
    """Return the places of bytes with a bit set that belongs to no known field. The values of the bits are left out."""
    nodes = [node.node_info.raw for node in reading.topology.nodes]
    ports = [port.info for port in reading.topology.ports() if port.info is not None]
    bytes_ = {"NodeInfo": _unnamed(nodes, NodeInfo), "PortInfo": _unnamed(ports, PortInfo, SpeedsAboveNdr)}
    text = "; ".join(f"{name}: byte {', '.join(map(str, places))}" for name, places in bytes_.items() if places)
    return as_assumed(not text, text or "all of them are 0", bytes=bytes_)


def _unnamed(raws: Iterable[bytes], *layouts: type[Layout]) -> list[int]:
    """Return the places of bytes that have, in any of *raws*, a bit set that no field of *layouts* covers."""
    size = layouts[0].size
    named = 0
    for layout in layouts:
        for row in layout.rows.values():
            named |= row.bits << 8 * (size - row.stop)
    union = reduce(or_, (int.from_bytes(raw[:size]) for raw in raws), 0)
    return [place for place, byte in enumerate((union & ~named).to_bytes(size)) if byte]


@check("nodes.descriptions", "standard", "NodeDescription is printable text")
def descriptions(reading: FabricReading) -> CheckAnswer:
    """Return how many names hold characters that must not be sent to a terminal."""
    names = [node.description or "" for node in reading.topology.nodes]
    odd = sum(not name.isprintable() for name in names)
    return as_assumed(not odd, f"{counted(len(names), 'name')}, {odd} with control characters", odd=odd)

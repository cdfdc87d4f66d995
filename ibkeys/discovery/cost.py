"""The cost of a sweep: the SMPs that it sent, and the fewest SMPs that could have read the same, by attribute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ibkeys.mad.attributes import NodeDescription, NodeInfo, PKeyTable, PortInfo, SwitchInfo
from ibkeys.mad.const import P_KEYS_PER_BLOCK
from ibkeys.mad.decode import attribute_name
from ibkeys.topology.model import Topology


@dataclass(frozen=True, slots=True)
class SweepCost:
    """The SMPs of one sweep.

    ``sent``: name of the attribute → the number of SMPs sent. ``least``: name of the attribute → the fewest SMPs that
    could have read the same. Attributes that are not in ``least`` (GUIDInfo, SMInfo, forwarding tables that prove a
    link) are left out of the totals.
    """

    sent: Mapping[str, int]
    least: Mapping[str, int]

    @property
    def total(self) -> int:
        """The number of SMPs sent for the attributes in ``least``."""
        return sum(self.sent.get(name, 0) for name in self.least)

    @property
    def least_total(self) -> int:
        """The fewest SMPs with which the result can be read."""
        return sum(self.least.values())

    def __str__(self) -> str:
        over = 100 * (self.total - self.least_total) / self.least_total if self.least_total else 0.0
        parts = ", ".join(f"{name} {self.sent.get(name, 0)}/{least}" for name, least in self.least.items())
        others = ", ".join(f"{name} {count}" for name, count in self.sent.items() if name not in self.least)
        text = f"{self.total} SMPs sent, the minimum is {self.least_total} ({over:+.1f} %): {parts}"
        return text + (f"; apart from these {others}" if others else "")


def cost_of(fabric: Topology, p_keys: bool, before: Mapping[int, int], after: Mapping[int, int]) -> SweepCost:
    """Return the cost of the sweep that found *fabric*.

    *before*, *after*: `Statistics.by_attribute` of the client before and after the sweep. *p_keys*: whether it read
    P_Key tables. The fewest SMPs are: NodeInfo of the own node and once for each link, NodeDescription for each node,
    SwitchInfo for each switch, PortInfo for each port, and with *p_keys* ``ceil(capacity / 32)`` blocks for each port.
    """
    sent: dict[str, int] = {}
    for attribute, count in after.items():
        if count > before.get(attribute, 0):
            mgmt_class, number = divmod(attribute, 1 << 16)  # as the keys of Statistics.by_attribute are made
            name = attribute_name(number, mgmt_class) if mgmt_class else attribute_name(number)
            sent[name or f"attribute 0x{number:04x}"] = count - before.get(attribute, 0)
    ports = list(fabric.ports())
    least = {
        NodeInfo.name: 1 + sum(port.peer is not None for node in fabric.nodes for port in node.ports.values()) // 2,
        NodeDescription.name: len(fabric.nodes),
        SwitchInfo.name: sum(node.is_switch for node in fabric.nodes),
        PortInfo.name: len(ports),
        PKeyTable.name: sum(-(-(port.capacity or 0) // P_KEYS_PER_BLOCK) for port in ports) if p_keys else 0,
    }
    return SweepCost(sent, least)

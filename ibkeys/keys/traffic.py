"""The kinds of packets, and for each the rule by which its P_Key is checked (IBA 9.6.1, 10.9.8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Traffic:
    """One kind of packets. ``key``: its name in JSON documents; ``name``: its name in words; ``rule``: its P_Key
    rule."""

    key: str
    name: str
    rule: str


TRAFFIC: Final = (
    Traffic("qp0", "SMPs (QP0)", "not checked: no P_Key table keeps an SMP out, only an M_Key does"),
    Traffic(
        "qp1",
        "GMPs (QP1), SA queries too",
        "received if any entry of the table matches; the sender chooses the index in its own table",
    ),
    Traffic(
        "queue_pairs",
        "UD, RC and UC queue pairs",
        "a queue pair holds one index: it sends the P_Key at that index, and receives only packets whose P_Key matches "
        "it",
    ),
    Traffic(
        "raw_packets",
        "raw packets",
        "carry no P_Key: only FilterRawInbound and FilterRawOutbound of a switch port drop them",
    ),
    Traffic(
        "reliable_datagram",
        "RD (reliable datagram)",
        "an EE context holds the port and one index: it sends the P_Key at that index, and receives only packets whose "
        "P_Key matches it. Linux has no such queue pairs",
    ),
)

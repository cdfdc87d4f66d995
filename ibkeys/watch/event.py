"""One event: its kind, the port that reports it, the two ends of the packet, and the key.

An event never holds an M_Key, not even one that was offered and refused: the sender may have mistyped the true key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from ibkeys.keys.pkey import PARTITION_MASK
from ibkeys.topology.nodes import Port
from ibkeys.topology.port_id import identity

EventSource = Literal["report", "counters", "opensm-log"]
"""The origin of an event: a Report of the SA, two readings of a counter, a line of OpenSM's log."""
EventKind = Literal[
    "bad-m_key",
    "bad-p_key",
    "bad-q_key",
    "bad-p_key-at-switch",
    "m_key-violations",
    "p_key-violations",
    "q_key-violations",
    "rcv-constraint-errors",
    "xmit-constraint-errors",
    "port-in-service",
    "port-out-of-service",
    "group-created",
    "group-deleted",
    "link-state",
    "port-changed",
    "other-trap",
]
"""The kinds of events. ``bad-...``: a trap that names both ends. ``...-violations``, ``...-errors``: a counter that
rose. The others come with subscriptions to all traps."""


@dataclass(frozen=True, slots=True)
class EventEnd:
    """One end of an event, as far as it is known; None for an unknown value.

    A port that no sweep found has its LID or GUID only.
    """

    node_guid: int | None = None
    port_guid: int | None = None
    node_desc: str | None = None
    node_type: str | None = None
    port: int | None = None
    lid: int | None = None

    @classmethod
    def of(cls, port: Port) -> EventEnd:
        """Return a port of a sweep as the end of an event."""
        known = port.id
        return cls(known.node_guid, known.port_guid, known.node_desc, known.node_type, known.port, known.lid)

    @property
    def is_known(self) -> bool:
        """Whether a sweep found this port."""
        return self.node_guid is not None

    def to_json(self) -> dict[str, Any]:
        """Return the keys that every port carries in every JSON document, null for unknown values."""
        return identity(self.node_guid, self.port_guid, self.node_desc, self.node_type, self.port, self.lid)


_NOT_IN_POLICY: Final = "no partition of the policy has this P_Key"


@dataclass(frozen=True, slots=True)
class Event:
    """An event that happened once, or with ``count`` above 1 several times since ``since``.

    ``time``, ``since``: ISO 8601 in UTC; ``time`` is when the event happened last. ``trap``: the TrapNumber, None for a
    counter. ``at``: the port that refused, counted or reports. ``sender``, ``receiver``: the ends of the packet; for a
    wrong M_Key ``sender`` is the sender of the SMP. ``partition_name``, ``policy_line``: the name and line of the
    partition of ``p_key``, if a given policy defines it. ``method`` to ``modifier``: fields of the SMP with a wrong
    M_Key. ``value``: the counter's current value. ``detail``: further text. ``not_in_policy``: no partition of the
    policy has ``p_key``. ``doubtful``: the uncertain parts, with the reason.
    """

    time: str
    source: EventSource
    kind: EventKind
    trap: int | None
    at: EventEnd
    sender: EventEnd | None = None
    receiver: EventEnd | None = None
    p_key: int | None = None
    q_key: int | None = None
    partition_name: str | None = None
    policy_line: int | None = None
    method: str | None = None
    attribute: str | None = None
    modifier: int | None = None
    value: int | None = None
    detail: str = ""
    doubtful: tuple[str, ...] = ()
    count: int = 1
    since: str = ""
    not_in_policy: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the event as ``ibkeys watch -f json`` has it, without its schema."""
        p_key = self.p_key
        return {
            "time": self.time,
            "since": self.since or self.time,
            "count": self.count,
            "source": self.source,
            "kind": self.kind,
            "trap": self.trap,
            "at": self.at.to_json(),
            "from": self.sender.to_json() if self.sender is not None else None,
            "to": self.receiver.to_json() if self.receiver is not None else None,
            "pkey": f"0x{p_key:04x}" if p_key is not None else None,
            "q_key": f"0x{self.q_key:08x}" if self.q_key is not None else None,
            "partition": f"0x{p_key & PARTITION_MASK:04x}" if p_key is not None else None,
            "partition_name": self.partition_name,
            "policy_line": self.policy_line,
            "method": self.method,
            "attribute": self.attribute,
            "attribute_modifier": self.modifier,
            "value": self.value,
            "detail": "; ".join(filter(None, (self.detail, _NOT_IN_POLICY * self.not_in_policy))),
            "doubtful": list(self.doubtful),
        }

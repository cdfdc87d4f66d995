"""One Set of a plan: what it is built on, what it writes, how it is proven. No I/O."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Protocol

from ibkeys.apply.survey import Target
from ibkeys.change.consent import Objection
from ibkeys.change.portinfo import set_image, settled, without_key
from ibkeys.discovery.tables import p_key_modifier
from ibkeys.errors import IbkeysError
from ibkeys.keys.mkey import MKey
from ibkeys.keys.pkey import EMPTY, PARTITION_MASK, PKey
from ibkeys.mad.attributes import Attribute, PKeyTable, PortInfo
from ibkeys.mad.const import P_KEYS_PER_BLOCK
from ibkeys.plan.order import EnforcementStep
from ibkeys.store.journal import Entry

_BLOCK = struct.Struct(f">{P_KEYS_PER_BLOCK}H")


class Kind(Protocol):
    """What `Job` needs to know of an attribute: all in terms of its 64 bytes."""

    name: str
    attribute: type[Attribute]
    modifier: int

    def build(self, now: bytes) -> bytes:
        """Return what to send, made of what was just read. Raises Refused (``stale``)."""
        ...

    def moved_on(self, read: bytes, now: bytes) -> bool:
        """Whether more changed from one read to the next than changes by itself."""
        ...

    def kept(self, raw: bytes) -> bytes:
        """Return what the journal may keep of it."""
        ...

    def wrong(self, sent: bytes, stored: bytes) -> str:
        """Return what is not stored as sent, in words; empty when all is."""
        ...


class Job:
    """One attribute of one port on its way. ``unsent``: its Set never left, because its node was silent before."""

    __slots__ = ("after", "before", "entry", "error", "kind", "problem", "read_at", "target", "unsent")

    def __init__(self, target: Target, kind: Kind) -> None:
        self.target = target
        self.kind = kind
        self.before = b""
        self.after = b""
        self.read_at = 0.0
        self.entry: Entry | None = None
        self.problem: IbkeysError | None = None
        self.error: IbkeysError | None = None
        self.unsent = False

    @property
    def needs_set(self) -> bool:
        """Whether what was read differs from what is wanted."""
        return self.error is None and self.before != self.after


class BlockJob:
    """Entries of one P_KeyTable block. *known*: the table as it should be found; *writes*: index → P_Key, `EMPTY` to
    clear; *empties*: what an entry without P_Key held before, where that was 0x8000 and not 0."""

    name = "P_KeyTable"
    attribute: type[Attribute] = PKeyTable

    def __init__(
        self,
        target: Target,
        block: int,
        known: Mapping[int, PKey],
        writes: Mapping[int, PKey],
        empties: Mapping[int, int],
    ) -> None:
        start = block * P_KEYS_PER_BLOCK
        self.start, self.width = start, min(P_KEYS_PER_BLOCK, (target.port.capacity or 0) - start)
        self.modifier = p_key_modifier(target.port, block)
        self.writes = {index: key for index, key in writes.items() if start <= index < start + P_KEYS_PER_BLOCK}
        self._target, self._known, self._empties = target, known, empties

    def build(self, now: bytes) -> bytes:
        """Write the entries over *now*; every other entry stays as it is."""
        values = list(_BLOCK.unpack(now))
        for index, key in self.writes.items():
            have = values[index - self.start]
            expected = self._known.get(index, EMPTY)
            if _key(have) not in (expected, key):
                raise Objection(
                    "stale",
                    f"{self._target.port}: index {index} was {expected or 'empty'} a moment ago and is {PKey(have)} "
                    "now; somebody else writes this table",
                ).refusal()
            if _key(have) != key:
                values[index - self.start] = key if key else self._empties.get(index, 0)
        values[self.width :] = [0] * (P_KEYS_PER_BLOCK - self.width)
        return _BLOCK.pack(*values)

    def moved_on(self, read: bytes, now: bytes) -> bool:
        """Whether any entry changed."""
        return read != now

    def kept(self, raw: bytes) -> bytes:
        """A P_KeyTable holds no secret."""
        return raw

    def wrong(self, sent: bytes, stored: bytes) -> str:
        """Compare the entries that exist."""
        pairs = list(zip(_BLOCK.unpack(sent), _BLOCK.unpack(stored), strict=True))[: self.width]
        parts = [
            f"index {self.start + offset} is {PKey(have)} instead of {PKey(want)}"
            for offset, (want, have) in enumerate(pairs)
            if want != have
        ]
        return "; ".join(parts[:4]) + (f"; and {len(parts) - 4} more" if len(parts) > 4 else "")


def _key(value: int) -> PKey:
    return PKey(value) if value & PARTITION_MASK else EMPTY


class EnforcementJob:
    """The enforcement bits of one external port of a switch. *settle_for_now*: PortInfo may have changed since the
    sweep in other fields than those."""

    name = "PortInfo"
    attribute: type[Attribute] = PortInfo

    def __init__(self, target: Target, step: EnforcementStep, settle_for_now: bool = False) -> None:
        self.modifier = target.port.num
        self._target, self._settle_for_now = target, settle_for_now
        self.changes = {
            name: int(value)
            for name, value in (
                ("partition_enforcement_inbound", step.inbound),
                ("partition_enforcement_outbound", step.outbound),
            )
            if value is not None
        }

    def build(self, now: bytes) -> bytes:
        """Change the bits and nothing else. The M_Key of an external port is its own, which is none."""
        info, shown = PortInfo(now), self._target.port.port_info
        if shown is not None and _others(shown) != _others(info) and not self._settle_for_now:
            raise Objection("stale", f"{self._target.port}: PortInfo changed since it was shown").refusal()
        if all(getattr(info, name) == value for name, value in self.changes.items()):
            return now
        return set_image(info, MKey(info.m_key), **self.changes).raw

    def moved_on(self, read: bytes, now: bytes) -> bool:
        """Whether more changed than states, speeds and counters."""
        return settled(PortInfo(read)) != settled(PortInfo(now))

    def kept(self, raw: bytes) -> bytes:
        """PortInfo without its M_Key."""
        return without_key(PortInfo(raw))

    def wrong(self, sent: bytes, stored: bytes) -> str:
        """Compare the bits."""
        info = PortInfo(stored)
        return "; ".join(
            f"{PortInfo.rows[name].name} is {getattr(info, name)} instead of {value}"
            for name, value in self.changes.items()
            if getattr(info, name) != value
        )


def _others(info: PortInfo) -> bytes:
    """PortInfo without the enforcement bits, states, speeds and counters."""
    return settled(info.replace(partition_enforcement_inbound=0, partition_enforcement_outbound=0))

"""Edits: the values that one Set changes, entries of a P_KeyTable block or fields of PortInfo. An edit is built from a
fresh read and verified by another.

The engine reads, journals and sends. An edit builds the bytes to send, leaves out secrets for the journal, and compares
the bytes that were stored.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Final

from ibkeys.change.consent import Objection
from ibkeys.change.images import P_KEY_BLOCK
from ibkeys.change.pending_set import PendingSet, SetProof
from ibkeys.change.portinfo import set_image, with_valid_lids, without_key, without_volatile_fields
from ibkeys.change.target import PortTarget, key_for_set
from ibkeys.client.smp import SmpClient, Task
from ibkeys.errors import IbkeysError, NoReply, NotStored
from ibkeys.keys.mkey import MKey
from ibkeys.keys.pkey import EMPTY, PARTITION_MASK, PKey
from ibkeys.mad.attributes import Attribute, PKeyTable, PortInfo
from ibkeys.mad.const import P_KEYS_PER_BLOCK, Method
from ibkeys.port_text import PortText, at_port

_MOST_NAMED: Final = 4
"""Most entries that an error names; further ones are counted."""


class _ReadBackEdit(ABC):
    """An edit that is proven by one Get of the attribute that it set. ``max_sends``: see `Edit`; the default is
    once."""

    name: ClassVar[str]
    attribute: ClassVar[type[Attribute]]
    is_alone: ClassVar[bool] = False
    max_sends: int = 1
    key_name: str | None = None
    modifier: int
    target: PortTarget

    @abstractmethod
    def describe_wrong(self, before: bytes, sent: bytes, stored: bytes) -> str:
        """Return, in words, the values that are not stored as sent; "" if all are. The arguments are the attribute as
        it was *before* the Set, as the Set *sent* it, and as it is *stored* now."""

    @abstractmethod
    def changed_meanwhile(self, read: bytes, present: bytes) -> bool:
        """Return whether the attribute changed between two reads, apart from fields that change by themselves."""

    def changed_nothing(self, before: bytes, stored: bytes) -> bool:
        """Return whether a Set that was not stored as sent changed nothing at all."""
        return not self.changed_meanwhile(before, stored)

    def prove(self, client: SmpClient, pending: PendingSet) -> Task:
        """Task: get the attribute, compare it with the bytes that were sent, and return the SetProof. If they agree, a
        lost reply or a Status does not matter."""
        target, answer = self.target, pending.set_error
        route, node, key = target.handle.route, target.port.node, target.m_key
        try:
            stored: bytes = yield client.request(Method.GET, self.attribute, self.modifier, route, node=node, m_key=key)
        except IbkeysError as error:
            return SetProof(error, is_silent=isinstance(error, NoReply))
        wrong = self.describe_wrong(pending.before, pending.after, stored)
        if not wrong:
            return SetProof()
        untouched = self.changed_nothing(pending.before, stored)
        if isinstance(answer, NoReply):
            times = " each time" if self.max_sends > 1 and untouched else ""
            lost = PortText.joined(pending.text, f" was lost{times}: {wrong} (", str(answer), ")")
            return SetProof(NotStored(lost), never_arrived=untouched)
        refused = answer or NotStored(PortText.joined(pending.text, f" was accepted but not stored: {wrong}"))
        return SetProof(refused, changed_nothing=untouched)


class PKeyBlockEdit(_ReadBackEdit):
    """Entries of one P_KeyTable block.

    *known*: the table as it is expected before the Set, index → P_Key. *writes*: index → P_Key, `EMPTY` to clear the
    entry; entries of other blocks are ignored. *empties*: index → value to write into a cleared entry in place of 0:
    0x8000, if an earlier empty entry had that. *takes_over*: also overwrite an entry that has neither the known nor the
    wanted value.
    """

    name = "P_KeyTable"
    attribute: ClassVar[type[Attribute]] = PKeyTable

    def __init__(
        self,
        target: PortTarget,
        block: int,
        known: Mapping[int, PKey],
        writes: Mapping[int, PKey],
        empties: Mapping[int, int] | None = None,
        takes_over: bool = False,
    ) -> None:
        start = block * P_KEYS_PER_BLOCK
        self.start, self.width = start, min(P_KEYS_PER_BLOCK, (target.port.capacity or 0) - start)
        self.modifier = target.port.p_key_modifier(block)
        self.writes = {index: key for index, key in writes.items() if start <= index < start + P_KEYS_PER_BLOCK}
        self.target, self._known, self._empties, self._takes_over = target, known, empties or {}, takes_over

    def build(self, present: bytes) -> bytes:
        """Return the block *present* with the P_Keys of this edit in their entries. All other entries of the table keep
        their values; entries beyond its end become 0. Raises Refused (``stale``) if an entry has neither the known nor
        the wanted P_Key, unless *takes_over*."""
        values = list(P_KEY_BLOCK.unpack(present))
        for index, key in self.writes.items():
            have = values[index - self.start]
            expected = self._known.get(index, EMPTY)
            if _key(have) not in (expected, key) and not self._takes_over:
                text = (
                    f"index {index} was {expected or 'empty'} when this change was planned and is {PKey(have)} now; "
                    "another program is writing this table"
                )
                raise Objection("stale", at_port(self.target.port, text)).refusal()
            if _key(have) != key:
                values[index - self.start] = key if key else self._empties.get(index, 0)
        values[self.width :] = [0] * (P_KEYS_PER_BLOCK - self.width)
        return P_KEY_BLOCK.pack(*values)

    def changed_meanwhile(self, read: bytes, present: bytes) -> bool:
        """Return whether any entry changed."""
        return read != present

    def without_secrets(self, raw: bytes) -> bytes:
        """Return *raw* as it is: a P_KeyTable holds no secret."""
        return raw

    def describe_wrong(self, before: bytes, sent: bytes, stored: bytes) -> str:
        """Return, in words, the entries within the table's capacity that are not stored as sent."""
        pairs = list(zip(P_KEY_BLOCK.unpack(sent), P_KEY_BLOCK.unpack(stored), strict=True))[: self.width]
        parts = [
            f"index {self.start + offset} is {PKey(have)} instead of {PKey(want)}"
            for offset, (want, have) in enumerate(pairs)
            if want != have
        ]
        more = f"; and {len(parts) - _MOST_NAMED} more" if len(parts) > _MOST_NAMED else ""
        return "; ".join(parts[:_MOST_NAMED]) + more

    def fallback(self, sent: bytes) -> bytes | None:
        """Return None: a refused table has no alternative form."""
        return None


def _key(value: int) -> PKey:
    return PKey(value) if value & PARTITION_MASK else EMPTY


class PortInfoEdit(_ReadBackEdit):
    """Fields of PortInfo that are set to *changes*; all other fields and the M_Key stay.

    *shown*: the PortInfo for which the change was planned; None: the present PortInfo is not compared with it.
    *takes_over*: fields other than *changes* may have changed since then.
    """

    name = "PortInfo"
    attribute: ClassVar[type[Attribute]] = PortInfo

    def __init__(
        self, target: PortTarget, changes: Mapping[str, int], shown: PortInfo | None, takes_over: bool = False
    ) -> None:
        self.modifier = target.port.num
        self.changes = dict(changes)
        self.target, self._shown, self._takes_over = target, shown, takes_over

    def build(self, present: bytes) -> bytes:
        """Return the PortInfo to send, made from *present*, which changes these fields and nothing else; *present*
        itself if each field has its wanted value already.

        The Set writes back the M_Key that the port has now, which may differ from its M_Key at the time of planning. An
        external port of a switch has no M_Key: its own zero is written back. The target gets the M_Key for the Set, and
        an end port also the PortInfo *present*. Raises Refused (``stale``) and the errors of `key_for_set`
        (MKeyNeeded).
        """
        info = PortInfo(present)
        changed = ""
        if self._shown is not None:
            as_shown = {name: getattr(self._shown, name) for name in self.changes}
            changed = what_changed(self._shown, info.replace(**as_shown))
        if changed and not self._takes_over:
            text = at_port(self.target.handle, f"PortInfo changed since it was shown ({changed})")
            raise Objection("stale", text).refusal()
        if all(getattr(info, name) == value for name, value in self.changes.items()):
            return present
        target = self.target
        if target.port.is_end_port:
            target.port.info = present
        target.m_key = key_for_set(target.handle)
        return set_image(info, MKey(info.m_key) if target.port.is_external else target.m_key, **self.changes).raw

    def changed_meanwhile(self, read: bytes, present: bytes) -> bool:
        """Return whether fields changed that do not change by themselves (`without_volatile_fields`)."""
        return without_volatile_fields(PortInfo(read)) != without_volatile_fields(PortInfo(present))

    def without_secrets(self, raw: bytes) -> bytes:
        """Return the PortInfo *raw* with its M_Key zeroed."""
        return without_key(PortInfo(raw))

    def describe_wrong(self, before: bytes, sent: bytes, stored: bytes) -> str:
        """Return, in words, the fields that are not stored as wanted."""
        return wrong_fields(PortInfo(stored), self.changes)

    def fallback(self, sent: bytes) -> bytes | None:
        """Return the same PortInfo with stand-ins for LID and MasterSMLID if no SM has assigned them yet, as
        ibportstate sends it; None if both are valid. An external port of a switch has neither.
        """
        image = with_valid_lids(PortInfo(sent)).raw
        return None if self.target.port.is_external or image == sent else image


class CountersEdit(PortInfoEdit):
    """Violation counters that are set to 0."""

    def describe_wrong(self, before: bytes, sent: bytes, stored: bytes) -> str:
        """Return, in words, the counters that were not cleared. A violation may be counted between the Set and the
        read, so a smaller number proves the Set as well as 0 does."""
        was, now = PortInfo(before), PortInfo(stored)
        return "; ".join(
            f"{PortInfo.rows[name].name} is still {getattr(now, name)}"
            for name in self.changes
            if getattr(now, name) >= getattr(was, name) > 0
        )

    def changed_nothing(self, before: bytes, stored: bytes) -> bool:
        """Return whether no counter was cleared."""
        was, now = PortInfo(before), PortInfo(stored)
        return all(getattr(now, name) >= getattr(was, name) for name in self.changes)


def what_changed(shown: PortInfo, now: PortInfo) -> str:
    """Return the names of the fields that differ, other than those that change by themselves; empty when none
    differs."""
    before, after = without_volatile_fields(shown), without_volatile_fields(now)
    if before == after:
        return ""
    changed = [row.name for row, value in PortInfo(after).items() if value != row.decode(before)]
    return ", ".join(changed) or "reserved bits"


def wrong_fields(stored: PortInfo, wanted: Mapping[str, int]) -> str:
    """Return, in words, the fields of *stored* that are not as *wanted*; empty when all are."""
    return "; ".join(
        f"{PortInfo.rows[attr].name} is {getattr(stored, attr)} instead of {value}"
        for attr, value in wanted.items()
        if getattr(stored, attr) != value
    )

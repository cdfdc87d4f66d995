"""Sending one Set(PortInfo) and proving it."""

from __future__ import annotations

from collections.abc import Callable

from ibkeys.change.consent import Objection
from ibkeys.change.portinfo import set_image, settled, with_valid_lids, without_key
from ibkeys.change.writer import Writer
from ibkeys.errors import IbkeysError, MadStatusError, NoReply, NotStored, SendRefused
from ibkeys.fabric.handle import PortHandle
from ibkeys.keys.mkey import MKey
from ibkeys.mad.attributes import PortInfo
from ibkeys.store.journal import Entry

Proof = Callable[[PortInfo, PortInfo], str]
"""(PortInfo before the Set, PortInfo read back) → what is not as wanted, in words; empty when all is."""


def fresh_port_info(writer: Writer, port: PortHandle, shown: PortInfo) -> PortInfo:
    """Read PortInfo again right before the Set. Raises Refused (``stale``) when more than states, counters changed."""
    now = port.read_port_info()
    changed = what_changed(shown, now)
    if changed and not writer.consent.covers("stale"):
        raise Objection("stale", f"{port}: PortInfo changed since it was shown ({changed})").refusal()
    return now


def what_changed(shown: PortInfo, now: PortInfo) -> str:
    """Return which fields differ, other than those that change by themselves; empty when none does."""
    before, after = settled(shown), settled(now)
    if before == after:
        return ""
    changed = [row.name for row, value in PortInfo(after).items() if value != row.decode(before)]
    return ", ".join(changed) or "reserved bits"


def write_port_info(
    writer: Writer, port: PortHandle, shown: PortInfo, changes: dict[str, int], proof: Proof | None = None
) -> PortInfo:
    """Set the fields *changes* and nothing else; return PortInfo as read back. The M_Key stays.

    Journals first. *proof* judges what is read back, by default that every field is as wanted. Raises Refused,
    NotStored, NoReply, MadStatusError, SendRefused.
    """
    judge = proof or (lambda _before, stored: wrong_fields(stored, changes))
    now = fresh_port_info(writer, port, shown)
    end_info = port.port.end_port.port_info
    assert end_info is not None
    key = writer.key_for_set(port, end_info)
    # The M_Key of the attribute is that of the end port; an external port has none and is sent its own zero.
    image = set_image(now, MKey(now.m_key) if port.port.is_external else key, **changes)

    def record(sent: PortInfo) -> None:
        entries.append(writer.record(port, "PortInfo", port.port.num, without_key(now), without_key(sent)))

    entries: list[Entry] = []
    problem = send_port_info(port, image, key, record, lambda: not judge(now, port.read_port_info()))
    stored = port.read_port_info()
    wrong = judge(now, stored)
    if not wrong:
        settle(entries)
        return stored
    for entry in entries:
        entry.failed()
    raise problem or NotStored(f"{port}: Set(PortInfo) was accepted but not stored: {wrong}")


def settle(entries: list[Entry]) -> None:
    """Note in the journal that the last of a port's Sets was proven, and that those before it were not stored."""
    for entry in entries[:-1]:
        entry.failed()
    entries[-1].done()


def send_port_info(
    port: PortHandle,
    image: PortInfo,
    key: MKey,
    record: Callable[[PortInfo], None],
    took_effect: Callable[[], bool],
) -> IbkeysError | None:
    """Send a Set(PortInfo) once; return what went wrong, None when the agent answered with success.

    *record* puts what is about to be sent into the journal.

    The caller settles by a fresh read what the error means: an agent may apply a Set and still complain, and a reply
    may be lost. Only where the agent refused it for a LID or MasterSMLID that no SM has assigned yet, and nothing took
    effect, it is sent again with a stand-in for those, as ibportstate does.
    """
    modifier = port.port.num
    record(image)
    try:
        port.fabric.set(PortInfo, modifier, port.route, image.raw, key)
    except MadStatusError as error:
        valid = with_valid_lids(image)
        if port.port.is_external or valid == image or took_effect():
            return error
        record(valid)
        try:
            port.fabric.set(PortInfo, modifier, port.route, valid.raw, key)
        except (NoReply, MadStatusError, SendRefused) as again:
            return again
    except (NoReply, SendRefused) as error:
        return error
    return None


def wrong_fields(stored: PortInfo, wanted: dict[str, int]) -> str:
    """Return which fields of *stored* are not as *wanted*, in words; empty when all are."""
    return "; ".join(
        f"{PortInfo.rows[attr].name} is {getattr(stored, attr)} instead of {value}"
        for attr, value in wanted.items()
        if getattr(stored, attr) != value
    )

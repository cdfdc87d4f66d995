"""Sending one Set(PortInfo) and proving it."""

from __future__ import annotations

from collections.abc import Callable

from ibkeys.change.consent import Objection
from ibkeys.change.edits import what_changed
from ibkeys.change.portinfo import with_valid_lids
from ibkeys.change.writer import Writer
from ibkeys.errors import IbkeysError, MadStatusError, NoReply, SendRefused
from ibkeys.fabric.handle import PortHandle
from ibkeys.keys.mkey import MKey
from ibkeys.mad.attributes import PortInfo
from ibkeys.store.journal import Entry


def fresh_port_info(writer: Writer, port: PortHandle, shown: PortInfo) -> PortInfo:
    """Read PortInfo again right before the Set. Raises Refused (``stale``) when more than states, counters changed."""
    now = port.read_port_info()
    changed = what_changed(shown, now)
    if changed and not writer.consent.covers("stale"):
        raise Objection("stale", f"{port}: PortInfo changed since it was shown ({changed})").refusal()
    return now


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

"""Sending one Set(PortInfo) and proving it, for changes that leave the M_Key alone."""

from __future__ import annotations

from typing import Any

from ibkeys.change.consent import Objection
from ibkeys.change.portinfo import set_image, settled, without_key
from ibkeys.change.writer import Writer
from ibkeys.errors import IbkeysError, MadStatusError, NoReply, NotStored
from ibkeys.fabric.session import PortHandle
from ibkeys.mad.attributes import PortInfo


def fresh_port_info(writer: Writer, port: PortHandle, shown: PortInfo) -> PortInfo:
    """Read PortInfo again right before the Set. Raises Refused (``stale``) when more than states and counters changed."""
    now = port.read_port_info()
    if settled(now) != settled(shown) and not writer.consent.covers("stale"):
        changed = [
            row.name
            for row, value in PortInfo(settled(now)).items()
            if value != row.decode(settled(shown))
        ]
        raise Objection("stale", f"{port}: PortInfo changed since it was shown ({', '.join(changed) or 'reserved bits'})").refusal()
    return now


def write_port_info(writer: Writer, port: PortHandle, shown: PortInfo, changes: dict[str, int]) -> PortInfo:
    """Set the fields *changes* and nothing else; return PortInfo as read back.

    Journals first. A reply with a status, and silence, are settled by the fresh read: an agent may apply a Set and
    still complain, and a reply may be lost. Raises Refused, NotStored, NoReply, MadStatusError.
    """
    now = fresh_port_info(writer, port, shown)
    end_info = port.port.end_port.port_info
    assert end_info is not None
    key = writer.key_for_set(port, end_info)
    # The M_Key of the attribute is that of the end port; an external port of a switch has none and is sent its own zero.
    stored_key = now.m_key if port.port.is_external else key.reveal()
    image = set_image(now, key, **changes).replace(m_key=stored_key)
    modifier = port.port.num
    entry = writer.record(port, "PortInfo", modifier, without_key(now), without_key(image))
    problem: IbkeysError | None = None
    try:
        port.fabric.set(PortInfo, modifier, port.route, image.raw, key)
    except (MadStatusError, NoReply) as error:
        problem = error
    stored = port.read_port_info()
    wrong = wrong_fields(stored, changes)
    if not wrong:
        entry.done()
        return stored
    entry.failed()
    if problem is not None:
        raise problem
    raise NotStored(f"{port}: Set(PortInfo) was accepted but not stored: {wrong}")


def wrong_fields(stored: PortInfo, wanted: dict[str, Any]) -> str:
    """Return which fields of *stored* are not as *wanted*, in words; empty when all are."""
    return "; ".join(
        f"{PortInfo.rows[attr].name} is {getattr(stored, attr)} instead of {value}"
        for attr, value in wanted.items()
        if getattr(stored, attr) != value
    )

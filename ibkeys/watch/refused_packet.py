"""A refused packet, read from a text that an administrator has: a trap in hex, lines of OpenSM's log, an event of
`ibkeys watch`, or two LIDs and a P_Key."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from ibkeys.mad.const import TrapNumber
from ibkeys.mad.hex_text import mads_in, notice_of
from ibkeys.mad.notice import BadPKeyDetails, BadPKeySwitchPortDetails, BadQKeyDetails, Notice
from ibkeys.watch.opensm_log import LogNotice, LogReader

_TRAPS: Final = (TrapNumber.BAD_P_KEY, TrapNumber.BAD_Q_KEY, TrapNumber.BAD_P_KEY_SWITCH_PORT)
_TYPED: Final = re.compile(r"([0-9]{1,5})[\s,]+([0-9]{1,5})[\s,]+(0x[0-9a-f]{1,4})", re.IGNORECASE)
_HIGHEST_LID: Final = 0xBFFF


@dataclass(frozen=True, slots=True)
class RefusedPacket:
    """A packet that a port refused because of its P_Key or Q_Key.

    ``trap``: 257, 258 or 259; None if only LIDs and P_Key are known. ``sender``, ``receiver``: their LIDs. ``at_lid``,
    ``at_port``: LID and number of the switch port of trap 259. ``p_key`` is None for trap 258, ``q_key`` for others.
    """

    trap: int | None
    sender: int
    receiver: int
    p_key: int | None = None
    q_key: int | None = None
    at_lid: int | None = None
    at_port: int | None = None


def read_refused(text: str) -> RefusedPacket | None:
    """Return the refused packet in *text*; None if it has none, or one without the LIDs of both ends.

    *text*: a Notice or MAD in hex (`ibkeys.mad.hex_text`), lines of OpenSM's log, an event of ``ibkeys
    watch -f json``, or ``LID LID P_KEY``, the sender first.
    """
    text = text.strip()
    if typed := _TYPED.fullmatch(text):
        return _plausible(RefusedPacket(None, int(typed[1]), int(typed[2]), int(typed[3], 16)))
    if text.startswith("{"):
        return _of_event(text)
    for raw in mads_in(text):
        notice = notice_of(raw)
        found = _of_notice(notice) if notice is not None else None
        if found is not None:
            return found
    return _of_log(text)


def _of_notice(notice: Notice) -> RefusedPacket | None:
    details, trap = notice.details, notice.number
    if isinstance(details, BadPKeySwitchPortDetails):
        lid = details.sw_lid_addr or notice.issuer_lid
        found = RefusedPacket(
            trap, details.lid_addr1, details.lid_addr2, details.p_key, at_lid=lid, at_port=details.port_no
        )
    elif isinstance(details, BadPKeyDetails):
        found = RefusedPacket(trap, details.lid_addr1, details.lid_addr2, details.p_key)
    elif isinstance(details, BadQKeyDetails):
        found = RefusedPacket(trap, details.lid_addr1, details.lid_addr2, q_key=details.key)
    else:
        return None
    return _plausible(found)


def _of_event(text: str) -> RefusedPacket | None:
    try:
        event = json.loads(text)
    except ValueError:
        return None
    trap = event.get("trap") if isinstance(event, dict) else None
    if trap not in _TRAPS:
        return None
    at = event.get("at") if trap == TrapNumber.BAD_P_KEY_SWITCH_PORT else None
    try:
        return _plausible(
            RefusedPacket(
                trap,
                _number(event["from"]["lid"]),
                _number(event["to"]["lid"]),
                None if event.get("pkey") is None else int(event["pkey"], 16),
                None if event.get("q_key") is None else int(event["q_key"], 16),
                None if at is None else _number(at["lid"]),
                None if at is None else _number(at["port"]),
            )
        )
    except (KeyError, TypeError, ValueError):
        return None


def _number(value: Any) -> int:
    """Raises TypeError if *value* is no number."""
    if not isinstance(value, int):
        raise TypeError
    return value


def _of_log(text: str) -> RefusedPacket | None:
    """Return the last refused packet in lines of the log."""
    reader = LogReader()
    notices = [notice for line in text.splitlines() for notice in reader.take(line.strip(), 0.0)]
    found = [_of_log_notice(notice) for notice in (*notices, *reader.overdue(0.0))]
    return next((each for each in reversed(found) if each is not None), None)


def _of_log_notice(notice: LogNotice) -> RefusedPacket | None:
    if notice.trap not in _TRAPS or notice.key is None:
        return None
    is_q_key, is_switch = notice.trap == TrapNumber.BAD_Q_KEY, notice.trap == TrapNumber.BAD_P_KEY_SWITCH_PORT
    return _plausible(
        RefusedPacket(
            notice.trap,
            notice.lid1,
            notice.lid2,
            None if is_q_key else notice.key & 0xFFFF,
            notice.key if is_q_key else None,
            notice.lid if is_switch else None,
            notice.port if is_switch else None,
        )
    )


def _plausible(found: RefusedPacket) -> RefusedPacket | None:
    """Return *found*; None if an end has no unicast LID, or there is no key."""
    if not (0 < found.sender <= _HIGHEST_LID and 0 < found.receiver <= _HIGHEST_LID):
        return None
    if not 0 <= (found.p_key or 0) <= 0xFFFF or not 0 <= (found.q_key or 0) <= 0xFFFF_FFFF:
        return None
    return found if (found.p_key is None) != (found.q_key is None) else None

"""Making an event from the lines of OpenSM's log about a trap."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from ibkeys.mad.const import TrapNumber, method_name
from ibkeys.store.sqlite import timestamp
from ibkeys.watch.event import Event, EventEnd, EventKind
from ibkeys.watch.names import Names
from ibkeys.watch.notices import name_of_attribute
from ibkeys.watch.opensm_log import LogNotice, time_of

_KINDS: Final[dict[int, EventKind]] = {
    TrapNumber.BAD_M_KEY: "bad-m_key",
    TrapNumber.BAD_P_KEY: "bad-p_key",
    TrapNumber.BAD_Q_KEY: "bad-q_key",
    TrapNumber.BAD_P_KEY_SWITCH_PORT: "bad-p_key-at-switch",
}


def event_of_log(notice: LogNotice, names: Names, now: datetime) -> Event:
    """Return the event of a notice in OpenSM's log. *names* finds the ports of its ends. *now*: the current time, with
    a time zone.
    """
    time = timestamp(lambda: time_of(notice, now))
    kind = _KINDS[notice.trap]
    at = names.switch_port(notice.lid, notice.port) if notice.port else names.end(notice.lid, notice.gid)
    is_m_key, is_q_key = kind == "bad-m_key", kind == "bad-q_key"
    return Event(
        time,
        "opensm-log",
        kind,
        notice.trap,
        at,
        _end(notice.lid1, notice.gid1, names),
        at if is_m_key else _end(notice.lid2, notice.gid2, names),
        p_key=None if is_m_key or is_q_key else notice.key,
        q_key=notice.key if is_q_key else None,
        method=method_name(notice.method) if notice.method else None,
        attribute=name_of_attribute(notice.attribute) if notice.method else None,
        modifier=notice.modifier if notice.method else None,
        doubtful=notice.doubts,
    )


def _end(lid: int, gid: int, names: Names) -> EventEnd | None:
    return names.end(lid, gid) if lid or gid else None

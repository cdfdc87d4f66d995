"""Events as lines for people."""

from __future__ import annotations

import re
from typing import Final

from ibkeys.cli.exits import clean
from ibkeys.cli.render import UNREADABLE
from ibkeys.watch.event import Event, EventEnd, EventKind

LONGEST_NAME: Final = 20
_PLAIN: Final = re.compile(r"(?!LID [0-9]|0x)\w[\w ./;:+-]*")
"""Names that need no quotes: they cannot be mistaken for a LID or GUID, and their characters are plain."""
_COUNTERS: Final[dict[EventKind, str]] = {
    "m_key-violations": "M_KeyViolations",
    "p_key-violations": "P_KeyViolations",
    "q_key-violations": "Q_KeyViolations",
    "rcv-constraint-errors": "PortRcvConstraintErrors",
    "xmit-constraint-errors": "PortXmitConstraintErrors",
}


class EventLines:
    """Turns events, one after the other, into lines. Before the first event of a day there is a line with the date.

    *with_guids*: whether each event has a second line with GUIDs and LIDs, and lines about its uncertain parts.
    """

    def __init__(self, with_guids: bool) -> None:
        self._with_guids = with_guids
        self._day = ""

    def lines_of(self, event: Event) -> list[str]:
        """Return the lines for *event*."""
        day, _, time = event.time.rstrip("Z").partition("T")
        lines = [] if day == self._day else [f"{day} (times in UTC)"]
        self._day = day
        doubt = " (?)" if event.doubtful else ""
        lines.append(f"{time}  {_what_happened(event, _since(event, day))}{_policy(event)}{doubt}")
        if self._with_guids:
            lines += [f"          {line}" for line in (_identities(event), *event.doubtful)]
        return [clean(line) for line in lines]


def _what_happened(event: Event, since: str) -> str:
    kind = event.kind
    rest = f"; {event.detail}" if event.detail else ""
    if kind in _COUNTERS:
        increase = f" +{event.count}{since}" if event.count else ""
        return f"{_COUNTERS[kind]}{increase}, now {event.value}, at {_name(event.at)}{rest}"
    repeats = f" ({event.count} times{since})" if event.count > 1 else ""
    if not kind.startswith("bad-"):
        return f"{kind.replace('-', ' ')} at {_name(event.at)}{rest}{repeats}"
    words = f"{_key(event)}: {_name(event.sender)} > {_name(event.receiver)}"
    if kind == "bad-m_key" and event.method:
        words += f", {event.method}({event.attribute})"
    if event.receiver != event.at:
        words += f", stopped at {_name(event.at)}"
    return words + rest + repeats


def _key(event: Event) -> str:
    if event.kind == "bad-m_key":
        return "wrong M_Key"
    if event.kind == "bad-q_key":
        return "wrong Q_Key" + (f" 0x{event.q_key:08x}" if event.q_key is not None else "")
    return "wrong P_Key" + (f" 0x{event.p_key:04x}" if event.p_key is not None else "")


def _policy(event: Event) -> str:
    if event.partition_name is not None:
        line = f", line {event.policy_line}" if event.policy_line is not None else ""
        return f" [{event.partition_name}{line}]"
    return " [not in policy]" if event.not_in_policy else ""


def _since(event: Event, day: str) -> str:
    """Return the words for the time since which repeats of *event* are counted; "" for a single event.

    *day*: the day of the event; if the counting began on another day, the words have that day.
    """
    if event.since in ("", event.time):
        return ""
    since_day, _, since = event.since.rstrip("Z").partition("T")
    return f" since {since if since_day == day else f'{since_day} {since}'}"


def _name(end: EventEnd | None) -> str:
    """Return *end*, a port of an event, as ``NAME[PORT]``. A name that could be mistaken for a LID or GUID is quoted.

    A port that no sweep found has its LID or GUID in place of the name; None is "?".
    """
    if end is None:
        return UNREADABLE
    if not end.is_known:
        unknown = f"LID {end.lid}" if end.lid is not None else f"0x{end.port_guid or 0:016x}" if end.port_guid else ""
        return (unknown or UNREADABLE) + (f"[{end.port}]" if end.port is not None else "")
    name = end.node_desc or f"0x{end.node_guid:016x}"
    if len(name) > LONGEST_NAME:
        name = f"{name[: LONGEST_NAME // 2]}..{name[2 - LONGEST_NAME // 2 :]}"
    return f"{name if _PLAIN.fullmatch(name) else repr(name)}[{end.port}]"


def _identities(event: Event) -> str:
    ends = {"from": event.sender, "to": event.receiver, "at": event.at}
    return ", ".join(f"{word} {_identity(end)}" for word, end in ends.items() if end is not None)


def _identity(end: EventEnd) -> str:
    guid = end.port_guid or end.node_guid
    lid = end.lid if end.lid is not None else UNREADABLE
    return f"{f'0x{guid:016x}' if guid else UNREADABLE} LID {lid}"

"""Security notices in OpenSM's log, for use without an SM_Key.

OpenSM 3.3.23 writes up to three lines about one trap. The first, at level ERROR, is ``Received Generic Notice`` with
number and reporter. For traps 257 and 258 a second line follows, ``Bad P_Key:...`` with key and LIDs. The last, at
level INFO, is ``Reporting Security Notice`` with all data. ERROR lines reach the file at once. INFO lines wait in a
buffer for the next ERROR line; if log_flags lacks 0x02, there are none. The INFO line of older versions has only number
and reporter. Source: opensm osm_trap_rcv.c:log_trap_info, osm_inform.c:log_notice; lines of 3.3.23 as they were
observed.

The lines are not evidence: a log may hold text that nodes chose themselves. Only lines of exactly these forms are used,
and only the numbers in them. The M_Key that ``Reporting Security Notice "Bad M_Key"`` shows is not read.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from ipaddress import AddressValueError, IPv6Address
from typing import Final

from ibkeys.mad.const import SECURITY_TRAPS, TrapNumber

FROM_BUFFER: Final = "OpenSM's log has named only the reporter so far: the rest is missing, or still in OpenSM's buffer"
ALREADY_TOLD: Final = "an earlier event that named only the reporter may be the same"
NO_SENDER: Final = "OpenSM's log does not say who sent it"
_MOST_WAITING: Final = 64
_MOST_TOLD: Final = 1024

_HEAD: Final = (
    r"([A-Z][a-z]{2} [ 0-9][0-9] [0-9]{2}:[0-9]{2}:[0-9]{2}) [0-9]{6} \[([0-9A-F]{1,16})\](?: 0x[0-9A-Fa-f]{2})? -> "
)
_FUNCTION: Final = r"[a-z_]{1,40}: "
_LID: Final = r"([0-9]{1,5})"
_QPS: Final = (
    r"SL [0-9]{1,2}, QP1 0x[0-9a-f]{1,8}, QP2 0x[0-9a-f]{1,8}, GID1 ([0-9a-f:.]{2,45}), GID2 ([0-9a-f:.]{2,45})"
)
_RECEIVED: Final = re.compile(
    _HEAD + _FUNCTION + r"Received Generic Notice type:2 num:(25[6-9]) \([ -~]{1,60}\) Producer:[0-9]{1,8} "
    r"\([ -~]{1,40}\) from LID:" + _LID + r" TID:0x[0-9a-f]{16}"
)
_BAD_KEY: Final = re.compile(
    _HEAD + _FUNCTION + r"Bad ([PQ])_Key:0x([0-9a-f]{1,8}) on SL:[0-9]{1,2} from LID1:" + _LID + " "
    r"QP1:0x[0-9a-f]{1,8} to LID2:" + _LID + r" QP2:0x[0-9a-f]{1,8}"
)
_SECURITY: Final = _HEAD + _FUNCTION + 'Reporting Security Notice "'
_REPORTING_M_KEY: Final = re.compile(
    _SECURITY + r'Bad M_Key" from LID ' + _LID + r", GUID 0x([0-9a-f]{16}), Method 0x([0-9a-f]{1,2}), "
    r"Attribute 0x([0-9a-f]{1,4}), AttrMod 0x([0-9a-f]{1,8}), M_Key 0x[0-9a-f]{16}"
)
_REPORTING_KEY: Final = re.compile(
    _SECURITY + r'Bad ([PQ])_Key" from LID ' + _LID + r", GUID 0x([0-9a-f]{16}) : LID1 " + _LID + r", LID2 " + _LID +
    r", [PQ]_Key 0x([0-9a-f]{1,8}), " + _QPS
)  # fmt: skip
_REPORTING_AT_SWITCH: Final = re.compile(
    _SECURITY + r'Bad P_Key \(switch external port\)" from switch LID ' + _LID + r", GUID 0x([0-9a-f]{16}) port "
    r"([0-9]{1,3}) : data_valid 0x[0-9a-f]{4}, LID1 " + _LID + r", LID2 " + _LID + r", PKey 0x([0-9a-f]{4}), " + _QPS
)
_REPORTING_ANY: Final = re.compile(
    _HEAD + _FUNCTION + r"Reporting Generic Notice type:2 num:(25[6-9])(?: \([ -~]{1,60}\))? from "
    r"LID:(0x[0-9A-F]{4}|[0-9]{1,5}) GID:([0-9a-fx:.,]{2,60})"
)
"""The lines that versions before 3.3.18 or so write about every trap."""


@dataclass(frozen=True, slots=True)
class LogNotice:
    """The contents of the log's lines about one trap. ``lid``, ``gid``: the reporter's; 0 for an unknown value.

    ``when``: the log's time, local and without a year, as ``Nov 22 15:34:00``. ``thread``: the ID of the thread that
    wrote the line. ``port``: of trap 259. ``lid1`` sent the packet to ``lid2``. ``key``: P_Key or Q_Key. ``is_whole``:
    whether a further line would add nothing. ``doubts``: uncertain parts.
    """

    when: str
    thread: str
    trap: int
    lid: int
    gid: int = 0
    port: int = 0
    lid1: int = 0
    gid1: int = 0
    lid2: int = 0
    gid2: int = 0
    key: int | None = None
    method: int = 0
    attribute: int = 0
    modifier: int = 0
    is_whole: bool = False
    doubts: tuple[str, ...] = ()


def read_received(line: str) -> LogNotice | None:
    """Return the notice of a line ``Received Generic Notice`` about a security trap, None for any other line."""
    found = _RECEIVED.fullmatch(line)
    if found is None:
        return None
    when, thread, trap, lid = found.groups()
    return _checked(LogNotice(when, thread, int(trap), int(lid)))


def add_bad_key(notice: LogNotice, line: str) -> LogNotice | None:
    """Return *notice* with the data of a following line ``Bad P_Key`` or ``Bad Q_Key``, None for any other line."""
    found = _BAD_KEY.fullmatch(line)
    if found is None:
        return None
    _, thread, which, key, lid1, lid2 = found.groups()
    if thread != notice.thread or notice.trap != _TRAP_OF[which]:
        return None
    return _checked(replace(notice, key=int(key, 16), lid1=int(lid1), lid2=int(lid2), is_whole=True))


def read_reporting(line: str) -> LogNotice | None:
    """Return the notice of a line ``Reporting ... Notice`` about a security trap, None for any other line."""
    if found := _REPORTING_KEY.fullmatch(line):
        when, thread, which, lid, guid, *packet = found.groups()
        return _with_packet(LogNotice(when, thread, _TRAP_OF[which], int(lid), int(guid, 16)), *packet)
    if found := _REPORTING_AT_SWITCH.fullmatch(line):
        when, thread, lid, guid, port, *packet = found.groups()
        notice = LogNotice(when, thread, TrapNumber.BAD_P_KEY_SWITCH_PORT, int(lid), int(guid, 16), int(port))
        return _with_packet(notice, *packet)
    if found := _REPORTING_M_KEY.fullmatch(line):
        when, thread, lid, guid, *smp = found.groups()
        method, attribute, modifier = (int(each, 16) for each in smp)
        notice = LogNotice(when, thread, TrapNumber.BAD_M_KEY, int(lid), int(guid, 16), doubts=(NO_SENDER,))
        return _checked(replace(notice, method=method, attribute=attribute, modifier=modifier, is_whole=True))
    if found := _REPORTING_ANY.fullmatch(line):
        when, thread, trap, lid, _gid = found.groups()
        older = ("this OpenSM's log names the reporter only",)
        return _checked(LogNotice(when, thread, int(trap), int(lid, 0), is_whole=True, doubts=older))
    return None


_TRAP_OF: Final = {"P": TrapNumber.BAD_P_KEY, "Q": TrapNumber.BAD_Q_KEY}


def _with_packet(notice: LogNotice, lid1: str, lid2: str, key: str, gid1: str, gid2: str) -> LogNotice | None:
    """Return *notice* with the addresses and the key of the packet in its line; None if a number is out of range. An
    invalid GID is left out."""
    notice = replace(notice, lid1=int(lid1), lid2=int(lid2), key=int(key, 16), is_whole=True)
    with suppress(AddressValueError):
        notice = replace(notice, gid1=int(IPv6Address(gid1)), gid2=int(IPv6Address(gid2)))
    return _checked(notice)


def _checked(notice: LogNotice) -> LogNotice | None:
    """Return *notice*, or None if one of its numbers is out of range: then the line is not a notice."""
    lids = (notice.lid, notice.lid1, notice.lid2)
    most = 0xFFFF if notice.trap in (TrapNumber.BAD_P_KEY, TrapNumber.BAD_P_KEY_SWITCH_PORT) else 0xFFFF_FFFF
    fits = max(lids) <= 0xFFFF and notice.port <= 0xFF and (notice.key is None or notice.key <= most)
    return notice if fits and notice.trap in SECURITY_TRAPS else None


class LogReader:
    """Reads lines of the log, and returns each trap once, although up to three lines are about the same trap.

    ``told``: how many traps of a kind, by number and LID, were returned before a further line about each came.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[LogNotice, float]] = {}
        self.told: dict[tuple[int, int], int] = {}

    def take(self, line: str, now: float) -> list[LogNotice]:
        """Return the traps that are complete with *line*. *now*: seconds of any clock."""
        if (received := read_received(line)) is not None:
            before = self._waiting.pop(received.thread, None)
            self._waiting[received.thread] = received, now
            told = [self._incomplete(before[0])] if before is not None else []
            return told + self._too_many()
        if (reporting := read_reporting(line)) is not None:
            return self._reporting(reporting)
        for thread, (notice, since) in self._waiting.items():
            if (more := add_bad_key(notice, line)) is not None:
                self._waiting[thread] = more, since
                break
        return []

    def _reporting(self, notice: LogNotice) -> list[LogNotice]:
        waiting = self._waiting.get(notice.thread)
        if waiting is not None and (waiting[0].trap, waiting[0].lid) == (notice.trap, notice.lid):
            del self._waiting[notice.thread]
            return [notice if notice.key is not None or waiting[0].key is None else waiting[0]]
        key = notice.trap, notice.lid
        if not self.told.get(key):
            return [notice]
        self.told[key] -= 1
        if notice.trap in _TRAP_OF.values():  # the notice that was returned before had all facts of this line
            return []
        return [replace(notice, doubts=(*notice.doubts, ALREADY_TOLD))]

    def _too_many(self) -> list[LogNotice]:
        """Return the oldest incomplete trap if there are too many: an OpenSM has few threads."""
        if len(self._waiting) <= _MOST_WAITING:
            return []
        thread = next(iter(self._waiting))
        return [self._incomplete(self._waiting.pop(thread)[0])]

    def overdue(self, since: float) -> list[LogNotice]:
        """Return the incomplete traps whose first line came at *since* or before."""
        late = [thread for thread, (_, came) in self._waiting.items() if came <= since]
        return [self._incomplete(self._waiting.pop(thread)[0]) for thread in late]

    def _incomplete(self, notice: LogNotice) -> LogNotice:
        key = notice.trap, notice.lid
        if key in self.told or len(self.told) < _MOST_TOLD:
            self.told[key] = self.told.get(key, 0) + 1
        return notice if notice.is_whole else replace(notice, doubts=(*notice.doubts, FROM_BUFFER))


def time_of(notice: LogNotice, now: datetime) -> datetime:
    """Return the time of *notice* in UTC. The log has local time of this host without a year; the last year that fits
    is taken.

    *now* is the time of day with a time zone; it is returned if the log's time is invalid.
    """
    local = now.astimezone()
    for year in (local.year, local.year - 1):
        try:
            when = datetime.strptime(f"{year} {notice.when}", "%Y %b %d %H:%M:%S").astimezone(local.tzinfo)
        except ValueError:
            continue
        if when <= local + timedelta(days=1):
            return when.astimezone(UTC)
    return now

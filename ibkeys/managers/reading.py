"""Judging whether a running OpenSM has read the current version of a file. It is judged by times, because OpenSM does
not report it.

OpenSM reads its options file and its policy when it starts and again in every heavy sweep. At the end of a heavy sweep
without errors it writes opensm-subnet.lst. A sweep with errors reads too but does not write that file, and a standby
reads its options on SIGHUP. So a file that changed since the start is seldom known to be in force. Source: opensm
osm_state_mgr.c (do_sweep), osm_dump.c.
"""

from __future__ import annotations

from typing import Final, Literal

from ibkeys.host.file_access import FileFact

FileReading = Literal[
    "as-at-start", "may-have-been-read", "not-read", "changed", "unknown", "absent", "absent-since-start", "not-judged"
]
WORDS: Final[dict[FileReading, str]] = {
    "as-at-start": "not changed since OpenSM started",
    "may-have-been-read": "changed since OpenSM started; a heavy sweep ended after that, so it may have been read",
    "not-read": "changed after the last heavy sweep that ended without errors: the next one applies it (armed)",
    "changed": "changed since OpenSM started; it is not known whether it was read since then",
    "unknown": "it is not known whether it changed since OpenSM started",
    "absent": "not there now; whether it was there when OpenSM started is not known",
    "absent-since-start": "not there, and not there when OpenSM started either",
    "not-judged": "",
}
CHANGED: Final = frozenset({"may-have-been-read", "not-read", "changed", "unknown", "absent"})
"""Results by which the values in force may differ from the present file."""
MARGIN: Final = 0.1
"""The seconds by which the times of processes and files may differ on one host."""


def judge(fact: FileFact | None, started: float | None, exact: float, last_sweep: float | None) -> FileReading:
    """Judge whether a process has read the file *fact* as it is now.

    *started*: when the process started, known within *exact* seconds; *last_sweep*: when its last heavy sweep without
    errors ended. Times are seconds since 1970.
    """
    if fact is None:
        return "absent"
    if started is None or fact.changed is None or fact.written is None:
        return "unknown"
    changed = max(fact.changed, fact.written)
    margin = MARGIN + exact
    if changed < started - margin:
        return "as-at-start"
    if changed <= started + margin:
        return "unknown"
    if last_sweep is None:
        return "changed"
    return "may-have-been-read" if changed <= last_sweep + margin else "not-read"


def judge_absent(directory: FileFact | None, started: float | None, exact: float) -> FileReading:
    """Judge whether a file that does not exist existed at the start, by the last change of its *directory*."""
    if directory is None or directory.written is None or directory.changed is None or started is None:
        return "absent"
    changed = max(directory.written, directory.changed)  # mtime alone can be set back, as by a restored backup
    return "absent-since-start" if changed < started - MARGIN - exact else "absent"

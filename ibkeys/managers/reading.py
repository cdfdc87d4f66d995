"""Whether a running OpenSM has read the current version of a file: judged by times, because OpenSM does not say.

OpenSM reads its options file and its policy when it starts and again in every heavy sweep. At the end of a heavy sweep
without errors it writes opensm-subnet.lst. A sweep with errors reads too and leaves no such trace, and a standby reads
its options on SIGHUP. So a file that changed since the start can seldom be said to be in force.
Source: opensm osm_state_mgr.c (do_sweep), osm_dump.c.
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
"""What is in force may be something else than what the file says now."""
MARGIN: Final = 0.1
"""Seconds by which the times of processes and files may differ on one host."""


def judge(fact: FileFact | None, started: float | None, exact: float, last_sweep: float | None) -> FileReading:
    """Say whether the file *fact* was read as it is now by a process that *started* then, known within *exact* seconds,
    and whose last heavy sweep without errors ended at *last_sweep*. Times are seconds since 1970."""
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
    """Say whether a file that is not there was there at the start, by the last change of its *directory*."""
    if directory is None or directory.written is None or directory.changed is None or started is None:
        return "absent"
    changed = max(directory.written, directory.changed)  # mtime alone can be set back, as by a restored backup
    return "absent-since-start" if changed < started - MARGIN - exact else "absent"

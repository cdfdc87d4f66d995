"""Judging whether a running OpenSM has read the present version of a file. OpenSM does not report this, so the times of
its start, its last sweep and the file's last change are compared.

OpenSM reads its options file and its policy when it starts and again in every heavy sweep. At the end of a heavy sweep
without errors it writes opensm-subnet.lst. A sweep with errors reads the files too, but does not write
opensm-subnet.lst; and a standby reads its options on SIGHUP. So a file that changed since the start is seldom known to
be in force. Source: opensm osm_state_mgr.c (do_sweep), osm_dump.c.
"""

from __future__ import annotations

from typing import Final, Literal

from ibkeys.host.file_access import FileFact

FileReading = Literal[
    "as-at-start",
    "told",
    "at-takeover",
    "may-have-been-read",
    "not-read",
    "changed",
    "unknown",
    "absent",
    "absent-since-start",
    "not-judged",
]
WORDS: Final[dict[FileReading, str]] = {
    "as-at-start": "not changed since OpenSM started",
    "told": "written by operation {operation}, which told OpenSM to read it",
    "at-takeover": "written by operation {operation}; a standby reads it when it takes over",
    "may-have-been-read": "changed since OpenSM started; a heavy sweep ended after that, so it may have been read",
    "not-read": "changed after the last heavy sweep that ended without errors: the next one applies it (armed)",
    "changed": "changed since OpenSM started; it is not known whether it was read since then",
    "unknown": "it is not known whether it changed since OpenSM started",
    "absent": "not there now; whether it was there when OpenSM started is not known",
    "absent-since-start": "not there, and not there when OpenSM started either",
    "not-judged": "",
}
ABSENT: Final = frozenset({"absent", "absent-since-start"})
"""The results for a file that is not there."""
CHANGED: Final = frozenset({"may-have-been-read", "not-read", "changed", "unknown", "absent"})
"""The results with which the values in force may differ from those in the present file."""
MARGIN: Final = 0.1
"""The most seconds by which the clocks of processes and of files differ on one host."""


def judge(
    fact: FileFact | None, started: float | None, start_precision: float, last_sweep: float | None
) -> FileReading:
    """Return whether a process has read the present version of a file. *fact*: the facts of the file, None if it does
    not exist.

    *started*: when the process started; *start_precision*: the most seconds by which that may be wrong; *last_sweep*:
    when its last heavy sweep without errors ended. Times are seconds since 1970, None if not known.
    """
    if fact is None:
        return "absent"
    if started is None or fact.changed is None or fact.written is None:
        return "unknown"
    changed = max(fact.changed, fact.written)
    margin = MARGIN + start_precision
    if changed < started - margin:
        return "as-at-start"
    if changed <= started + margin:
        return "unknown"
    if last_sweep is None:
        return "changed"
    return "may-have-been-read" if changed <= last_sweep + margin else "not-read"


def judge_absent(directory: FileFact | None, started: float | None, start_precision: float) -> FileReading:
    """Return whether a file that does not exist now was also absent when a process started, by the time of the last
    change of its *directory* (None: not known). *started*, *start_precision*: as in `judge`."""
    if directory is None or directory.written is None or directory.changed is None or started is None:
        return "absent"
    changed = max(directory.written, directory.changed)  # a program that restores a backup sets mtime back
    return "absent-since-start" if changed < started - MARGIN - start_precision else "absent"

"""Whether an OpenSM that was seen is still running: its ID and start time identify it."""

from __future__ import annotations

from ibkeys import files
from ibkeys.host.host_files import HostFiles
from ibkeys.host.opensm_process import OpensmProcess, started_at


def is_running(host: HostFiles, process: OpensmProcess) -> bool:
    """Return whether *process* runs: one that has died and was not heard by its parent is no OpenSM any more.

    One whose start is not known does not count. Raises HostNotReached. Source: proc(5), fields 3 and 22 of stat.
    """
    try:
        stat = host.read(process.folder / "stat", files.SETTINGS).decode("utf-8", "replace")
    except OSError:
        return False
    state = stat.rpartition(")")[2].split()[:1]
    return state not in ([], ["Z"], ["X"]) and process.ticks is not None and started_at(stat) == process.ticks

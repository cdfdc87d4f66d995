"""The locks that lie beside the files of this host's OpenSMs, for ``doctor``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from ibkeys.errors import FileError
from ibkeys.host.host_lock import find_lock, lock_file
from ibkeys.host.lock_holder import holder_in_words
from ibkeys.managers.machines.this_host import THIS
from ibkeys.managers.report import HostReport
from ibkeys.managers.site import Running
from ibkeys.umad.probe import ProbeResult

NAME: Final = "OpenSM lock"
_ADVICE: Final = (
    "finish or undo that change where it was begun (ibkeys journal there names it); if it has ended there, any later "
    "change through OpenSM from there removes the lock; where neither is possible, the next change needs --override "
    "stale-lock"
)


def check_locks(host: HostReport) -> Iterator[ProbeResult]:
    """Yield a check for each lock on this host, with the run that holds it or that was interrupted while it held it."""
    places = {path for each in host.instances for path in Running(each, THIS, None).lock_places()}
    for path in sorted(places):
        file = lock_file(path)
        try:
            is_closed = file.is_file() and not os.access(file, os.R_OK)
        except OSError:
            yield ProbeResult(NAME, None, f"{file}: this user may not see whether there is a lock; root may")
            continue
        if is_closed:
            yield ProbeResult(NAME, None, f"{file}: somebody is changing something, or was cut off; root can see who")
            continue
        try:
            found = find_lock(path)
        except FileError as error:
            yield ProbeResult(NAME, False, str(error))
            continue
        if found is not None:
            who = f"{file}: {holder_in_words(found.text)}"
            if found.is_held:
                yield ProbeResult(NAME, None, f"{who}, is changing something")
            else:
                yield ProbeResult(NAME, False, f"{who}, was cut off", _ADVICE)

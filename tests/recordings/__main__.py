"""Writes recordings anew: ``python -m tests.recordings [SCENARIO...]``, of all scenarios without a name.

What differs then shows ``git diff``. A recording whose scenario is gone is removed.
"""

from __future__ import annotations

import sys

from tests.recordings.kept import FOLDER, path_of
from tests.recordings.recorder import record, written
from tests.recordings.scenarios import SCENARIOS


def main(names: list[str]) -> None:
    """Write the recordings of the scenarios *names*."""
    FOLDER.mkdir(exist_ok=True)
    for name in names or SCENARIOS:
        path_of(name).write_text(written(record(SCENARIOS[name])))
    for path in FOLDER.glob("*.json"):
        if path.stem not in SCENARIOS:
            path.unlink()


main(sys.argv[1:])

"""The files and options of an OpenSM."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ibkeys.managers.instance import DUMP_FILE
from tests.integration.served import Served

KEY = "0x1122334455667788"


SM_KEY = "0x7766554433221100"


UP_SECONDS = 60


@contextmanager
def opensm(fabric: Served, *arguments: str, name: str = "osm", **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run an OpenSM in a folder of its own until its first sweep has ended, or it is standby."""
    folder = fabric.folder / name
    folder.mkdir(exist_ok=True)
    own = {"OSM_CACHE_DIR": str(folder), "OSM_TMP_DIR": str(folder), **environment}
    command = fabric.arguments(["opensm", "-f", "log", *arguments])
    with (folder / "out").open("wb") as out:
        process = subprocess.Popen(
            command, cwd=folder, env={**fabric.environment, **own}, stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
        try:
            deadline = time.monotonic() + UP_SECONDS
            while not (folder / DUMP_FILE).exists() and b"Entering STANDBY" not in (folder / "out").read_bytes():
                assert time.monotonic() < deadline, (folder / "out").read_text()
                assert process.poll() is None, (folder / "out").read_text()
                time.sleep(0.05)  # polls a condition
            yield process
        finally:
            process.terminate()
            process.wait(30)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)

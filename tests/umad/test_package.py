"""Importing the room is cheap."""

from __future__ import annotations

import subprocess
import sys


def test_importing_the_room_loads_neither_extension_nor_cffi() -> None:
    code = "import sys, ibkeys.umad; print([m for m in sys.modules if 'cffi' in m or '_libibumad' in m])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"

"""The command lines that start Python and ibkeys again as they were started."""

from __future__ import annotations

import os
import sys


def own_python() -> list[str]:
    """Return the command line that starts this Python again. Option -P keeps it from importing a package of the same
    name from the current folder, where anybody may have put one; it is left out if this process itself runs from
    there.
    """
    try:
        here = {"", os.getcwd()}
    except FileNotFoundError:
        here = {""}
    return [sys.executable, *([] if here & set(sys.path) else ["-P"])]


def own_program() -> list[str]:
    """Return the command line that starts this program again."""
    return [*own_python(), "-m", "ibkeys"]

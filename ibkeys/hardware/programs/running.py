"""Running one program of infiniband-diags on the same port, and reading its output.

The output may have M_Keys: while it is read it is in a folder that only this user can read, and only names of fields
that differ are kept. No key is given to these programs.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from ibkeys import files
from ibkeys.errors import FileFormatError, Unreachable
from ibkeys.hardware.look import FabricReading
from ibkeys.host.run_program import run_with_reason
from ibkeys.printable import clean

_SECONDS: Final = 120.0
"""The most seconds for a program: ibnetdiscover of a large fabric is the slowest."""
_T = TypeVar("_T")


def ask(
    look: FabricReading, command: Sequence[str], read: Callable[[Path, int], _T], *, asks_fabric: bool = False
) -> _T:
    """Run *command*, with the options for our port, and return the result of *read* for the file with its output.

    *asks_fabric*: it sends SMPs to other nodes too. Raises Unreachable when it may not or cannot be run, or fails, in
    words for the report; FileFormatError when its output is not understood; the errors of reading the local port.
    """
    if why := _why_not(look, asks_fabric):
        raise Unreachable(why)
    program = command[0]
    if shutil.which(program) is None:
        raise Unreachable(f"{program} is not installed (infiniband-diags)")
    where = ["-C", look.local.ca_name, "-P", str(look.local.port)]
    ran = run_with_reason([program, *where, *command[1:]], _SECONDS)
    if ran.printed is None:
        raise Unreachable(f"{program} failed: {clean(ran.why)}")
    with tempfile.TemporaryDirectory(prefix="ibkeys-") as folder:  # mode 0700
        path = Path(folder) / program
        path.touch(0o600)
        path.write_text(ran.printed, encoding="utf-8", errors="replace")
        try:
            return read(path, files.LARGE)
        except FileFormatError as error:
            # its path would be that of the folder, which no longer exists
            raise FileFormatError(error.fault, program, error.line, error.column) from None


def _why_not(look: FabricReading, asks_fabric: bool) -> str:
    """Return why no program is run at all; "" if it may."""
    if look.fabric.is_simulated:
        return "a subnet that is simulated in this process: no other program can reach it"
    if look.own_is_protected:
        return "the local port has an M_Key at level 2 or 3, and its Gets would be counted there: no key is given to it"
    return look.why_alone() if asks_fabric else ""

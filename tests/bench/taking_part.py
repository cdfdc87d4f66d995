"""Which files and functions of ibkeys take part in a command: ``python -m tests.bench.taking_part [COMMAND...]``.

Counted are the Python functions of the tree that this is started in, as `sys.setprofile` sees them called. Not counted:
lambdas and comprehensions; what runs while a module is imported; the simulator, and what only the simulator calls,
because a real port has none of it. Without COMMAND it is `READ`, one port's P_Key table on a simulated fabric.

What it found stands on standard error: both counts, then each file with its functions, in the order of the first call.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any, Final

FABRIC: Final = "tests/data/fabrics/two-switch.net"
READ: Final = ("pkey-show", "-D", "0,1", "3", "--backend", f"sim:{FABRIC}")
_ROOT: Final = os.path.join(os.getcwd(), "ibkeys", "")
_SIMULATOR: Final = tuple(_ROOT + each for each in ("sim/", "umad/simulated.py", "umad/sim_spec.py"))


class Called:
    """The functions that were called while `watch` was set, by file, in the order of their first call."""

    def __init__(self) -> None:
        self.functions: dict[str, list[str]] = {}
        self._left_out = 0
        """How many of the running functions are a module's body or the simulator's: what they call is not counted."""

    def watch(self, frame: FrameType, event: str, _value: Any) -> None:
        """Take an event of `sys.setprofile`."""
        code = frame.f_code
        if event not in ("call", "return"):
            return
        if code.co_name == "<module>" or code.co_filename.startswith(_SIMULATOR):
            self._left_out += 1 if event == "call" else -1
        elif event == "call" and not self._left_out and code.co_filename.startswith(_ROOT) and code.co_name[0] != "<":
            own = self.functions.setdefault(code.co_filename.removeprefix(_ROOT), [])
            if code.co_qualname not in own:
                own.append(code.co_qualname)


def called_by(command: Sequence[str]) -> dict[str, list[str]]:
    """Run *command* in this process, and return what it called: file → functions."""
    from ibkeys.cli import main

    called = Called()
    sys.setprofile(called.watch)
    with contextlib.suppress(SystemExit):
        main(list(command))
    sys.setprofile(None)
    return called.functions


if __name__ == "__main__":
    found = called_by(sys.argv[1:] or READ)
    print(len(found), "files,", sum(map(len, found.values())), "functions", file=sys.stderr)
    for path, functions in found.items():
        print(path, *functions, sep="\n    ", file=sys.stderr)

"""Running a program of this host that only reads, such as rdma, ibv_devinfo or smpquery."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

_SECONDS: Final = 5.0
_REASON_LINES: Final = 2
"""Number of first lines of standard error that are kept as the reason of a failure."""

RunProgram = Callable[[Sequence[str]], str | None]
"""A function that runs a program and returns its output, None if it does not exist or failed."""


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of running a program. ``printed``: its output, None if it does not exist or failed. ``why``: the
    reason then, from its standard error."""

    printed: str | None
    why: str = ""


def run_program(command: Sequence[str]) -> str | None:
    """Run *command* for a few seconds at most; return its output, None if it does not exist or failed."""
    return run_with_reason(command, _SECONDS).printed


def run_with_reason(command: Sequence[str], seconds: float) -> Ran:
    """Run *command* for *seconds* at most; return its output, or the reason of a failure."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            text=True,
            errors="replace",
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Ran(None, f"it took more than {seconds:.0f} s")
    except (OSError, subprocess.SubprocessError) as error:
        return Ran(None, str(error))
    if done.returncode != 0:
        return Ran(None, "; ".join(done.stderr.split("\n")[:_REASON_LINES]).strip("; ") or f"exit {done.returncode}")
    return Ran(done.stdout)

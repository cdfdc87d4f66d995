"""Running a program of this host that only reads, such as rdma, ibv_devinfo or smpquery."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

_SECONDS: Final = 5.0
_REASON_LINES: Final = 2
"""So many lines of standard error are kept as the reason of a failure, the first ones."""

RunProgram = Callable[[Sequence[str]], str | None]
"""Runs a program and returns what it printed, None when it is not there or failed."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A program that was run. ``printed``: what it printed, None when it is not there or failed. ``why``: the reason
    then, from its standard error."""

    printed: str | None
    why: str = ""


def run_program(command: Sequence[str]) -> str | None:
    """Run *command* for a few seconds at most; return what it printed, None when it is not there or failed."""
    return run_with_reason(command, _SECONDS).printed


def run_with_reason(command: Sequence[str], seconds: float) -> Ran:
    """Run *command* for *seconds* at most; as `run_program`, with the reason of a failure."""
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

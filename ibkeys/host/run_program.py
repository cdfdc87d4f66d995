"""Running a program of this host that only reads, such as rdma, ibv_devinfo or smpquery."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

_SECONDS: Final = 5.0
_REASON_LINES: Final = 2
"""Number of lines of standard error, from the first, that make the reason of a failure."""

RunProgram = Callable[[Sequence[str]], str | None]
"""A function that runs a program and returns its output, None if it does not exist or failed."""


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """The result of running a program. ``output``: its standard output, None if the program does not exist or failed.
    ``reason``: why it failed: the first lines of its standard error, its exit status, the time limit, or why it could
    not be started; "" if it did not fail."""

    output: str | None
    reason: str = ""


def run_program(command: Sequence[str]) -> str | None:
    """Run *command* for 5 seconds at most; return its standard output, None if the program does not exist, fails or
    takes longer."""
    return run_with_reason(command, _SECONDS).output


def run_with_reason(command: Sequence[str], seconds: float) -> ProgramResult:
    """Run *command* for *seconds* at most; return its standard output, or the reason of a failure."""
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
        return ProgramResult(None, f"it took more than {seconds:.0f} s")
    except (OSError, subprocess.SubprocessError) as error:
        return ProgramResult(None, str(error))
    if done.returncode != 0:
        reason = "; ".join(done.stderr.split("\n")[:_REASON_LINES]).strip("; ")
        return ProgramResult(None, reason or f"exit {done.returncode}")
    return ProgramResult(done.stdout)

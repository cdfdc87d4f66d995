"""Running a program of this host that only reads, such as rdma or ibv_devinfo."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from typing import Final

_SECONDS: Final = 5.0

Run = Callable[[Sequence[str]], str | None]
"""Runs a program and returns what it printed, None when it is not there or failed."""


def run_program(command: Sequence[str], seconds: float = _SECONDS) -> str | None:
    """Run *command* for *seconds* at most; return what it printed, None when it is not there or failed."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=seconds,
            text=True,
            errors="replace",
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None

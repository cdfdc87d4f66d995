"""Calling systemctl on this host, for OpenSMs that are services of systemd. systemctl must not ask for a password.

Source: systemctl(1).
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from typing import Final

from ibkeys.errors import HostRefused
from ibkeys.managers.opensm.process import OpensmProcess
from ibkeys.printable import clean

SYSTEMCTL_SECONDS: Final = 30.0
_UNIT: Final = re.compile(r"[A-Za-z0-9:_.@\\][A-Za-z0-9:_.@\\-]*\.service")
_MOST_CHARACTERS: Final = 300


def is_unit(name: str | None) -> bool:
    """Return whether *name* can be the name of a service, and systemctl cannot take it for an option or a pattern."""
    return name is not None and _UNIT.fullmatch(name) is not None


def unit_of(process: OpensmProcess, tools: Mapping[str, str]) -> str | None:
    """Return the systemd unit of *process* if it is the main process of that unit; None if it is not, or systemd does
    not answer. *tools*: the environment of systemctl."""
    if process.unit is None or not is_unit(process.unit):
        return None
    try:
        main = systemctl(tools, "show", "--property=MainPID", unit=process.unit)
    except HostRefused:
        return None
    return process.unit if main.strip() == f"MainPID={process.pid}" else None


def systemctl(tools: Mapping[str, str], verb: str, *options: str, unit: str) -> str:
    """Run ``systemctl VERB OPTION... UNIT``, and return its output. *tools*: its environment. Raises HostRefused if it
    fails, does not end within `SYSTEMCTL_SECONDS`, or is not installed."""
    command = f"systemctl {verb} {unit}"
    try:
        result = subprocess.run(
            ["systemctl", "--no-ask-password", verb, *options, "--", unit],
            env=tools,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SYSTEMCTL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise HostRefused(f"{command}: has not ended after {SYSTEMCTL_SECONDS:.0f} seconds", "") from None
    except OSError as error:
        raise HostRefused(f"{command}: {error.strerror}", "") from None
    if result.returncode:
        output = clean(result.stderr.decode("utf-8", "replace").strip())[:_MOST_CHARACTERS]
        raise HostRefused(f"{command}: {output or f'it ended with status {result.returncode}'}", "")
    return result.stdout.decode("utf-8", "replace")

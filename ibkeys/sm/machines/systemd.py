"""The systemd of this host, for OpenSMs that are its services. It is asked through systemctl, which must not prompt for
input.

Source: systemctl(1).
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ibkeys.errors import HostRefused
from ibkeys.host.opensm_process import OpensmProcess
from ibkeys.printable import clean

SYSTEMCTL_SECONDS: Final = 30.0
_UNIT: Final = re.compile(r"[A-Za-z0-9:_.@\\][A-Za-z0-9:_.@\\-]*\.service")
_MOST_WORDS: Final = 300


def is_unit(name: str | None) -> bool:
    """Return whether *name* can be that of a service: nothing that systemctl would take for an option or a pattern."""
    return name is not None and _UNIT.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Systemd:
    """The systemd of this host. ``tools``: the environment of systemctl."""

    tools: Mapping[str, str]

    def unit_of(self, process: OpensmProcess) -> str | None:
        """Return the unit whose main process this is, None if it is that of none, or systemd does not say."""
        unit = process.unit
        if unit is None or not is_unit(unit):
            return None
        try:
            main = self._ask("show", "--property=MainPID", "--", unit)
        except HostRefused:
            return None
        return unit if main.strip() == f"MainPID={process.pid}" else None

    def send_sighup(self, unit: str) -> None:
        """Send SIGHUP to the main process of a unit. Raises HostRefused."""
        self._ask("kill", "--signal=HUP", "--kill-who=main", "--", unit)

    def stop(self, unit: str) -> None:
        """Begin to stop a unit; whether it has stopped shows later. Raises HostRefused."""
        self._ask("stop", "--no-block", "--", unit)

    def start(self, unit: str) -> None:
        """Start a unit. Raises HostRefused."""
        if not is_unit(unit):
            raise HostRefused(f"{unit!r} is not a valid name of a service", "")
        self._ask("start", "--", unit)

    def _ask(self, verb: str, *words: str) -> str:
        """Return what systemctl says. Raises HostRefused if it says no, does not end, or is not there."""
        asked = f"systemctl {verb} {words[-1]}"
        try:
            done = subprocess.run(
                ["systemctl", "--no-ask-password", verb, *words],
                env=self.tools,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=SYSTEMCTL_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise HostRefused(f"{asked}: has not ended after {SYSTEMCTL_SECONDS:.0f} seconds", "") from None
        except OSError as error:
            raise HostRefused(f"{asked}: {error.strerror}", "") from None
        if done.returncode:
            said = clean(done.stderr.decode("utf-8", "replace").strip())[:_MOST_WORDS]
            raise HostRefused(f"{asked}: {said or f'it ended with status {done.returncode}'}", "")
        return done.stdout.decode("utf-8", "replace")

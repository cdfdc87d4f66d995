"""A systemctl that stops and starts OpenSMs which no systemd runs, for an ibkeys that takes them for its services."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.integration.opensms import NodesOpensm

_SYSTEMCTL = """#!/bin/sh
cd {units} || exit 1
printf '%s\\n' "$*" >>asked
for unit; do :; done
case $2 in
show) echo "MainPID=$(cat "$unit.pid")" ;;
kill) kill -s HUP "$(cat "$unit.pid")" ;;
stop) kill "$(cat "$unit.pid")" ;;
start) setsid sh "$unit.start" </dev/null >"$unit.log" 2>&1 & ;;
*) exit 1 ;;
esac
"""
_AS_SERVICES = """
from dataclasses import replace
import ibkeys.managers.opensm.process as processes
import ibkeys.managers.machines.this_host as this_host
this_host.THIS.tools["PATH"] = {tools!r} + ":" + this_host.THIS.tools["PATH"]
seen = processes._read_process
def seen_as_service(host, folder, *more):
    found = seen(host, folder, *more)
    return replace(found, unit="opensm@" + found.cache.name + ".service")
processes._read_process = seen_as_service
"""


class StandInSystemd:
    """Runs OpenSMs as services named after their folders. *on_exit*: gets what ends those that it started."""

    def __init__(
        self, folder: Path, opensms: list[NodesOpensm], on_exit: Callable[[Callable[[], None]], object]
    ) -> None:
        self._tools, self._units = folder / "tools", folder / "units"
        for each in (self._tools, self._units):
            each.mkdir(parents=True)
        tool = self._tools / "systemctl"
        tool.write_text(_SYSTEMCTL.format(units=self._units))
        tool.chmod(0o755)
        for opensm in opensms:
            self._take_over(opensm)
        on_exit(self._end)

    def _take_over(self, opensm: NodesOpensm) -> None:
        """Let a running OpenSM be a service, which is started as it was."""
        unit = self._units / f"opensm@{opensm.cache.name}.service"
        process = Path(f"/proc/{opensm.process.pid}")
        command, variables = ((process / name).read_text().rstrip("\0").split("\0") for name in ("cmdline", "environ"))
        pid = f"{unit}.pid"
        Path(pid).write_text(f"{opensm.process.pid}\n")
        Path(f"{unit}.start").write_text(
            f"echo $$ >{shlex.quote(pid)}\ncd {shlex.quote(str(opensm.cache))}\n"
            f"exec env -i {shlex.join(variables)} {shlex.join(command)}\n"
        )

    def _end(self) -> None:
        for each in self._units.glob("*.pid"):
            with suppress(ProcessLookupError):
                os.kill(int(each.read_text()), signal.SIGKILL)

    @property
    def first(self) -> str:
        """The Python that runs before an ibkeys that has this systemd."""
        return _AS_SERVICES.format(tools=str(self._tools))

    def asked(self, verb: str) -> list[str]:
        """Return the services for which systemctl was asked to do this, in order."""
        lines = (self._units / "asked").read_text().splitlines()
        return [line.split()[-1] for line in lines if line.split()[1] == verb]

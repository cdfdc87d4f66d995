"""Real programs on our own libibumad: no preloading, the loader finds it as any other library."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.integration.ibsim import RUN_TIMEOUT
from tests.integration.served import Served


class OwnUmad(Served):
    """A running ``ibkeys sim serve`` to which programs attach by our libibumad, with the GUIDs of the file."""

    def __init__(self, netfile: str | Path, *, sim_host: str | None = None, **options: Any) -> None:
        super().__init__(netfile, sim_host=sim_host, **{"port_guids": "file", "library": "own", **options})

    def wait_until(self, happened: Callable[[], bool]) -> None:
        """Return when something has happened at the server."""
        deadline = time.monotonic() + RUN_TIMEOUT
        while not happened():
            assert time.monotonic() < deadline

    def end_server(self) -> None:
        """Let the server end; the programs are left."""
        assert self.program is not None
        self.program.terminate()
        self.program.wait(RUN_TIMEOUT)

    def ibkeys_on(self, host: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Run ``ibkeys`` on *host*, with journal and key store in the folder of the fabric."""
        return self.run(self.ibkeys_command(*words), env=self.at(host), check=True)

    def on(
        self, host: str, *command: str | Path, timeout: float = RUN_TIMEOUT, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a program on *host*."""
        return self.run(command, timeout, env=self.at(host), check=check)

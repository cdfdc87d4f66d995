"""A served subnet with its OpenSM and the ibkeys commands beside it."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.integration.ibsim import RUN_TIMEOUT, parse_dump
from tests.integration.opensms import Log, start_with, sweep
from tests.integration.served import Served

KEY = 0xA94F13D02E7C5B68


SHOWN = f"0x{KEY:016x}"


LEASE = 60


END_PORT_LIDS = {1: 1, 2: 1, 3: 1, 4: 1, 5: 1, 6: 1, 7: 0, 8: 0}  # LID -> port number


class Subnet(Served):
    """The served subnet, and what each tool says of its M_Keys."""

    def wait_until_no_sm(self) -> None:
        """Return when the server has noticed that OpenSM died."""
        deadline = time.monotonic() + RUN_TIMEOUT
        while " SM" in self.steer("clients"):
            assert time.monotonic() < deadline, self.steer("clients")

    def wait_for_event(self, what: str) -> None:
        """Return when the server knows of an event."""
        deadline = time.monotonic() + RUN_TIMEOUT
        while what not in self.steer("events 200"):
            assert time.monotonic() < deadline, self.steer("events 50")

    def portinfo(self, lid: int, *options: str) -> dict[str, str]:
        """Return what smpquery shows of the port with *lid*."""
        done = self.query(lid, *options)
        assert done.returncode == 0, done.stdout + done.stderr
        return parse_dump(done.stdout)

    def query(self, lid: int, *options: str) -> subprocess.CompletedProcess[str]:
        return self.run(["smpquery", "-K", *options, "portinfo", str(lid), str(END_PORT_LIDS[lid])])

    def mkeys(self, *options: str | Path) -> dict[int, dict[str, Any]]:
        """Return what ``ibkeys mkey-show --all`` says of the end ports, by LID."""
        done = self.ibkeys("mkey-show", "--all", "-f", "json", *options)
        assert done.returncode == 0, done.stdout + done.stderr
        ports = json.loads(done.stdout)["ports"]
        return {port["lid"]: port for port in ports if port["port"] == END_PORT_LIDS[port["lid"]]}


@contextmanager
def opensm(served: Subnet, level: int) -> Iterator[Log]:
    """Run OpenSM with M_Keys; it has brought the subnet up when this begins, and is killed when it ends."""
    conf = f"m_key {KEY:#x}\nm_key_protection_level {level}\nm_key_lease_period {LEASE}\n"
    with ExitStack() as stack:
        process, log = start_with(served, conf)
        stack.callback(served.wait_until_no_sm)
        stack.callback(log.close)
        stack.callback(process.wait, RUN_TIMEOUT)
        stack.callback(process.kill)
        log.wait("SUBNET UP")
        sweep(process, log)  # then its files are written
        yield log

"""An OpenSM that has brought a served subnet up."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from tests.corpus import DATA
from tests.integration.ibsim import RUN_TIMEOUT
from tests.integration.opensms import Log, start_with, sweep
from tests.integration.served import Served
from tests.integration.subnet import SHOWN, Subnet


@contextmanager
def brought_up() -> Iterator[Subnet]:
    """Serve a subnet that an OpenSM without M_Keys has brought up; it is stopped. `KEY` is in the file ``key``."""
    with Subnet(DATA / "fabrics" / "two-switch.net") as fabric:
        (fabric.folder / "key").touch(0o600)
        (fabric.folder / "key").write_text(f"{SHOWN}\n")
        fabric.opensm()
        fabric.wait_until_no_sm()
        yield fabric


@contextmanager
def running_opensm(served: Served, conf: str) -> Iterator[Log]:
    """Run OpenSM, which has brought the subnet up when this begins, and is stopped when it ends."""
    process, log = start_with(served, conf)
    try:
        log.wait("SUBNET UP")
        sweep(process, log)  # a sweep that follows the first one would take back what a test changes
        yield log
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(RUN_TIMEOUT)
        log.close()

"""Subnet managers that nobody named."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack

from tests.integration import opensms
from tests.integration.ibsim import RUN_TIMEOUT
from tests.integration.subnet import Subnet

NODES = {
    "node01 mlx4_0": 0x2C903000A1011,
    "node05 mlx4_0": 0x2C903000A1051,
    "node06 mlx4_0": 0x2C903000A1061,
}


def stranger(served: Subnet, stack: ExitStack, node: str) -> subprocess.Popen[str]:
    """Start a standby, which does not show its port, and return it."""
    words = ["opensm", "-f", "stdout", "-D", "0x07"]
    other, log = opensms.start(served, words, served.folder, node)
    stack.callback(log.close)
    stack.callback(other.wait, RUN_TIMEOUT)
    stack.callback(other.kill)
    log.wait("ENTERING SM STANDBY STATE")
    return other

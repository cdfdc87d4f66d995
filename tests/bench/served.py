"""``sim serve`` against ibsim: the same client, the same net file, the two servers in turns."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from tests.integration.ibsim import Ibsim
from tests.integration.served import Served


def smp_rates(
    ours: Ibsim,
    theirs: Ibsim,
    loop: Path,
    window: int,
    count: int,
    routes: Sequence[str],
    turns: int,
    processes: int = 1,
) -> list[tuple[float, float]]:
    """Return (SMPs/s on our server, on ibsim) of so many bare C loops at once, for each turn."""

    def rate(server: Ibsim) -> float:
        command = server.arguments([str(loop), str(window), str(count // processes), *routes])
        loops = [
            subprocess.Popen(
                command,
                env=server.environment,
                cwd=server.folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            for _ in range(processes)
        ]
        seconds = [float(each.communicate(timeout=120)[0]) for each in loops]
        return count / max(seconds)

    return [(rate(ours), rate(theirs)) for _ in range(turns)]


def opensm_seconds(netfile: Path, kind: type[Ibsim]) -> float:
    """Return how long ``opensm -o`` takes to SUBNET UP on a fresh server."""
    with kind(netfile) as server:
        begin = time.perf_counter()
        server.opensm()
        return time.perf_counter() - begin


def bytes_per_node(netfile: Path, small: Path) -> tuple[float, int]:
    """Return (bytes of the server for each node, nodes): resident memory above that with a small net file."""
    sizes = []
    for file in (small, netfile):
        with Served(file, library="umad2sim") as server:
            sizes.append(resident(server.pid))
    nodes = len(re.findall(r"^(?:Switch|Ca|Hca|Rt)\s", netfile.read_text(), re.MULTILINE))
    return (sizes[1] - sizes[0]) / nodes, nodes


def resident(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def medians(pairs: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """Return the medians of a/b, a and b."""
    median = statistics.median
    return median(a / b for a, b in pairs), median(a for a, _ in pairs), median(b for _, b in pairs)

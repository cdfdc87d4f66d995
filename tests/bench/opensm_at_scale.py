"""OpenSM on ``sim serve`` with large fat trees: ``python -m tests.bench.opensm_at_scale [--minutes N] [HOSTS...]``.

The fabrics are those of `tests.bench.scale`, after power-up. OpenSM attaches by our libibumad and brings the subnet up
once. The table is Markdown: `docs/scale.md` holds one. When OpenSM does not end within the time limit, its row says so,
and larger fabrics are left out.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench.scale import SIZES, tree
from tests.integration.own_umad import OwnUmad

OPTIONS: Final = "routing_engine minhop\nuse_ucast_cache FALSE\n"
"""The options of OpenSM; all others are its defaults."""
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Used:
    """CPU time in seconds and the largest resident memory in MiB of one program."""

    cpu: float
    peak: float


@dataclass(frozen=True, slots=True)
class BroughtUp:
    """One run of OpenSM. ``seconds``: until it ended, which is just after SUBNET UP. ``smps``: the MADs that it sent.
    ``ready``: the seconds until programs could attach to the server."""

    hosts: int
    is_up: bool
    seconds: float
    smps: int
    ready: float
    server: Used
    opensm: Used


def used_by(pid: int) -> Used:
    """Return the CPU time of a running process, and its largest resident memory."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    [peak] = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return Used((int(fields[11]) + int(fields[12])) / _TICKS, int(peak) / 1024)


def bring_up(netfile: Path, hosts: int, limit: float) -> BroughtUp:
    """Let OpenSM bring up the fabric of *netfile* in at most *limit* seconds."""
    begin = time.perf_counter()
    with OwnUmad(netfile) as server:
        ready, before = time.perf_counter() - begin, used_by(server.pid)
        command = server.arguments(server.opensm_arguments(OPTIONS, extra=["-o"]))
        environment = {**server.environment, **server.opensm_environment}
        begin = time.perf_counter()
        with open(server.folder / "opensm.out", "w") as out:
            opensm = subprocess.Popen(command, cwd=server.folder, env=environment, stdout=out, stderr=out)
        killer = threading.Timer(limit, opensm.kill)
        killer.start()
        _, status, usage = os.wait4(opensm.pid, 0)
        killer.cancel()
        opensm.returncode = os.waitstatus_to_exitcode(status)
        seconds, after = time.perf_counter() - begin, used_by(server.pid)
        is_up = "SUBNET UP" in (server.folder / "opensm.log").read_text(errors="replace")
        at_server = Used(after.cpu - before.cpu, after.peak)
        at_opensm = Used(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
        return BroughtUp(hosts, is_up, seconds, server.counts()["packets"], ready, at_server, at_opensm)


def runs(sizes: Iterable[int], limit: float) -> Iterator[BroughtUp]:
    """Yield a run for each size, up to the first that did not bring the subnet up."""
    with tempfile.TemporaryDirectory(prefix="ibkeys-opensm-") as folder:
        for hosts in sizes:
            netfile = Path(folder, f"{hosts}.net")
            netfile.write_text(tree(hosts))
            run = bring_up(netfile, hosts, limit)
            yield run
            if not run.is_up:
                return


def line(run: BroughtUp) -> str:
    """Return one run as a line of the table."""
    up = f"{run.seconds:,.0f} s" if run.is_up else f"not within {run.seconds:,.0f} s"
    cells = (
        f"{run.hosts:,}",
        up,
        f"{run.smps:,}",
        f"{run.opensm.cpu:,.0f} s, {run.opensm.peak:,.0f} MiB",
        f"{run.server.cpu:,.0f} s, {run.server.peak:,.0f} MiB",
        f"{run.ready:,.0f} s",
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description="Let OpenSM bring up large simulated fabrics.")
    parser.add_argument("hosts", type=int, nargs="*", default=SIZES, help="sizes, in multiples of 1,000")
    parser.add_argument("--minutes", type=float, default=25, help="time limit of one OpenSM (default 25)")
    args = parser.parse_args()
    print("| hosts | to SUBNET UP | MADs of OpenSM | OpenSM: CPU, memory | server: CPU, memory | server ready after |")
    print("|---|---|---|---|---|---|")
    for run in runs(args.hosts, args.minutes * 60):
        print(line(run), flush=True)


if __name__ == "__main__":
    main()

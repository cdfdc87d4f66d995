"""``make bench``, ``python -m tests.bench``: what ibkeys costs, against what else does the same.

Each line is a ratio of two things measured in turns in this run, the median over the turns, so that it means the same
on a slow machine; the figures themselves stand in brackets. Needs ibsim, infiniband-diags, gcc and libibumad-dev.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.scale import LOSS, SIZES, changes, rows, table
from tests.bench.served import bytes_per_node, medians, opensm_seconds, smp_rates
from tests.fattree import fat_tree
from tests.integration.ibsim import Ibsim, parse_pkeys, tool
from tests.integration.own_umad import OwnUmad
from tests.integration.served import Served

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# As the installed command begins; the working tree is what is measured.
IBKEYS = [sys.executable, "-c", "import sys; from ibkeys.cli import main; sys.exit(main())"]
PKEY_SHOW = [*IBKEYS, "pkey-show", "--all", "-f", "json"]
FT2048 = (64, 32, 32)  # leaves, hosts on each, spines: 2,048 hosts
LARGE = (156, 64, 64)  # 40,156 ports
WINDOW = 64
AT_ONCE = 8
"""Programs that send at the same time."""
SERVED_TURNS = 8
"""So many times the turns of other rows for `sim serve`."""


@dataclass(slots=True)
class Run:
    """One run of a program: wall time, peak memory, output."""

    seconds: float
    peak_kib: int
    output: str


def run(command: Sequence[str], env: dict[str, str], folder: Path) -> Run:
    """Run a program to its end. Raises RuntimeError with what it said when it fails."""
    with tempfile.TemporaryFile("w+", dir=folder) as out, tempfile.TemporaryFile("w+", dir=folder) as err:
        start = time.perf_counter()
        child = subprocess.Popen(command, env=env, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if child.returncode:
            raise RuntimeError(f"{' '.join(command)[:200]} ended with {child.returncode}: {err.read()[-2000:]}")
        return Run(seconds, usage.ru_maxrss, out.read())


class Bench:
    """The fabric, the programs, and the table so far."""

    def __init__(self, sim: Ibsim, turns: int) -> None:
        self.sim = sim
        self.turns = turns
        self.rows: list[tuple[str, str, str, str]] = []

    def on_fabric(self, *command: str) -> Run:
        return run(self.sim.arguments(command), with_path(self.sim.environment), self.sim.folder)

    def add(self, what: str, ratio: str, goal: str, figures: str) -> None:
        self.rows.append((what, ratio, goal, figures))
        print(f"  {what}: {ratio}", file=sys.stderr, flush=True)

    def in_turns(self, ours: Callable[[], float], other: Callable[[], float], turns: int) -> tuple[float, float, float]:
        """Return the medians of ours/other, ours and other."""
        pairs = [(ours(), other()) for _ in range(turns)]
        median = statistics.median
        return median(a / b for a, b in pairs), median(a for a, _ in pairs), median(b for _, b in pairs)


def with_path(env: dict[str, str]) -> dict[str, str]:
    return {**env, "PYTHONPATH": str(ROOT)}


def smp_rate(bench: Bench, routes: Sequence[str], count: int) -> None:
    """SMPs per second through scheduler, client and C engine, against a C loop over libibumad."""
    loop = bench.sim.folder / "bare_loop"
    subprocess.run(["gcc", "-O2", "-o", str(loop), str(HERE / "bare_loop.c"), "-libumad"], check=True)

    def ours() -> float:
        return count / float(bench.on_fabric(sys.executable, "-m", "tests.bench.smp_rate", str(count), *routes).output)

    def bare() -> float:
        return count / float(bench.on_fabric(str(loop), str(WINDOW), str(count), *routes).output)

    ratio, a, b = bench.in_turns(ours, bare, bench.turns)
    figures = f"{a:,.0f} against {b:,.0f} SMPs/s, window {WINDOW}, {routes[0].count(',') + 1} hops"
    bench.add("scheduler + client + C engine / bare C loop", f"{ratio:.2f}", ">= 0.8", figures)


def whole_fabric(bench: Bench, lines: Sequence[str], sample: int) -> None:
    """``pkey-show --all`` against ibnetdiscover and against a shell loop of smpquery; its peak memory."""
    shows: list[Run] = []

    def show() -> float:
        shows.append(bench.on_fabric(*PKEY_SHOW))
        return shows[-1].seconds

    ratio, a, b = bench.in_turns(show, lambda: bench.on_fabric("ibnetdiscover").seconds, bench.turns)
    ports = json.loads(shows[-1].output)["ports"]
    if len(ports) != len(lines):
        raise RuntimeError(f"pkey-show lists {len(ports)} ports, the fabric has {len(lines)}")
    figures = f"{a:.2f} s against {b:.2f} s, {len(ports):,} ports"
    bench.add("pkey-show --all -f json / ibnetdiscover, wall time", f"{ratio:.1f}", "<= 4", figures)

    places = range(0, len(lines), max(1, len(lines) // sample))
    loop = bench.sim.folder / "loop.sh"
    queries = [f"{tool('smpquery')} -D pkeys {lines[place]}" for place in places]
    loop.write_text("set -e\n" + "".join(f"echo +\n{query}\n" for query in queries))
    shell = bench.on_fabric("sh", str(loop))
    for place, said in zip(places, shell.output.split("+\n")[1:], strict=True):
        used = {index: key for index, key in enumerate(parse_pkeys(said)) if key & 0x7FFF}
        if used != {key["index"]: int(key["pkey"], 16) for key in ports[place]["pkeys"]}:
            raise RuntimeError(f"smpquery pkeys {lines[place]} prints another table than pkey-show: {ports[place]}")
    seconds = shell.seconds / len(places) * len(lines)
    figures = f"{seconds:.0f} s, scaled from {len(places)} of {len(lines):,} ports, against {a:.2f} s"
    bench.add("shell loop of smpquery pkeys / pkey-show --all, wall time", f"{seconds / a:.0f}", ">= 25", figures)
    peak = statistics.median(show.peak_kib for show in shows)
    figures = f"{peak / 1024:.0f} MiB"
    bench.add("pkey-show --all, peak memory for each port", f"{peak / len(ports):.1f} KiB", "", figures)


def snapshot(bench: Bench) -> None:
    """Everything that a snapshot holds, read and written to its file, against ibnetdiscover."""

    def take() -> float:
        return bench.on_fabric(*IBKEYS, "snapshot", "snapshot.db").seconds

    ratio, a, b = bench.in_turns(take, lambda: bench.on_fabric("ibnetdiscover").seconds, bench.turns)
    size = (bench.sim.folder / "snapshot.db").stat().st_size / 2**20
    figures = f"{a:.2f} s against {b:.2f} s, {size:.1f} MiB"
    bench.add("snapshot / ibnetdiscover, wall time", f"{ratio:.1f}", "<= 5", figures)


def export(bench: Bench) -> None:
    """One sweep and one audit as metrics, against the two commands that do the same and write files."""

    def measure() -> float:
        return bench.on_fabric(*IBKEYS, "export", "--textfile", "ibkeys.prom").seconds

    def both() -> float:
        taken = bench.on_fabric(*IBKEYS, "snapshot", "snapshot.db").seconds
        return taken + bench.on_fabric(*IBKEYS, "audit", "--fail-on", "never", "--from", "snapshot.db").seconds

    ratio, a, b = bench.in_turns(measure, both, bench.turns)
    lines = (bench.sim.folder / "ibkeys.prom").read_text().count("\n")
    figures = f"{a:.2f} s against {b:.2f} s, {lines} lines"
    bench.add("export / snapshot + audit --from, wall time", f"{ratio:.2f}", "<= 1.2", figures)


def large_snapshot(bench: Bench, shape: Sequence[int]) -> None:
    """What is worked out from a snapshot of a large fabric; no other program does this, so these are no ratios."""
    env, folder = with_path(dict(os.environ)), bench.sim.folder
    ports = run([sys.executable, "-m", "tests.bench.large_snapshot", "large.db", *map(str, shape)], env, folder).output
    for command in (["matrix"], ["audit", "--fail-on", "never"]):
        done = run([*IBKEYS, *command, "--from", "large.db"], env, folder)
        what = f"{command[0]} --from a snapshot of {int(ports):,} ports"
        bench.add(what, f"{done.seconds:.1f} s", "<= 10 s", f"peak {done.peak_kib / 1024:.0f} MiB, at most 1,024")


def start_up(bench: Bench) -> None:
    """``ibkeys --version`` against importing click."""
    env = with_path(dict(os.environ))

    def seconds(*command: str) -> float:
        return run(command, env, bench.sim.folder).seconds

    ratio, a, b = bench.in_turns(
        lambda: seconds(*IBKEYS, "--version"), lambda: seconds(sys.executable, "-c", "import click"), 5 * bench.turns
    )
    figures = f"{a * 1000:.0f} ms against {b * 1000:.0f} ms"
    bench.add("ibkeys --version / python -c 'import click', wall time", f"{ratio:.2f}", "<= 2", figures)


def simulated(bench: Bench, shape: Sequence[int]) -> None:
    """The simulated backend in one process: no other program does this, so these are no ratios."""
    command = [sys.executable, "-m", "tests.bench.simulated", *map(str, shape)]
    said = json.loads(run(command, with_path(dict(os.environ)), bench.sim.folder).output)
    ports = said["ports"]
    figures = f"{said['smps']:,} SMPs in {said['seconds']:.1f} s; built in {said['build_seconds']:.1f} s"
    what = f"simulated backend, {ports:,} ports, sweep with P_Keys"
    bench.add(what, f"{said['smps'] / said['seconds']:,.0f} SMPs/s", "", figures)
    for name, size in (("Fabric", said["fabric_bytes"]), ("simulated Subnet", said["subnet_bytes"])):
        bench.add(f"{name}, memory for each port", f"{size / ports:,.0f} bytes", "", f"{size / 2**20:.0f} MiB")


def served(bench: Bench, netfile: Path, routes: Sequence[str], count: int) -> None:
    """``sim serve`` in the place of ibsim."""
    loop = bench.sim.folder / "bare_loop"
    with Served(netfile, library="umad2sim") as ours:
        # ibsim's own rate differs by a third from one turn to the next
        pairs = smp_rates(ours, bench.sim, loop, WINDOW, count, routes, SERVED_TURNS * bench.turns)
    ratio, a, b = medians(pairs)
    figures = f"{a:,.0f} against {b:,.0f} SMPs/s of a bare C loop, window {WINDOW}, {len(pairs)} turns"
    bench.add("sim serve / ibsim, SMP rate", f"{ratio:.2f}", ">= 0.6", figures)
    own_library(bench, netfile, loop, routes, count)
    ratio, a, b = medians([(opensm_seconds(netfile, Served), opensm_seconds(netfile, Ibsim)) for _ in range(3)])
    bench.add("opensm -o to SUBNET UP, sim serve / ibsim", f"{ratio:.1f}", "<= 10", f"{a:.1f} s against {b:.1f} s")
    size, nodes = bytes_per_node(netfile, ROOT / "tests" / "data" / "fabrics" / "two-switch.net")
    bench.add("sim serve, memory for each node", f"{size / 1024:.1f} KiB", "", f"{nodes:,} nodes")


def own_library(bench: Bench, netfile: Path, loop: Path, routes: Sequence[str], count: int) -> None:
    """``sim serve`` and our libibumad in the place of ibsim and libumad2sim."""
    with OwnUmad(netfile) as ours:
        for processes in (1, AT_ONCE):
            turns = SERVED_TURNS * bench.turns // processes
            pairs = smp_rates(ours, bench.sim, loop, WINDOW, count, routes, max(3, turns), processes)
            ratio, a, b = medians(pairs)
            what = f"our libibumad / libumad2sim + ibsim, SMP rate of {processes} at once"
            bench.add(what, f"{ratio:.2f}", ">= 0.7", f"{a:,.0f} against {b:,.0f} SMPs/s, {len(pairs)} turns")
    ratio, a, b = medians([(opensm_seconds(netfile, OwnUmad), opensm_seconds(netfile, Ibsim)) for _ in range(3)])
    what = "opensm -o to SUBNET UP, our libibumad / libumad2sim + ibsim"
    bench.add(what, f"{ratio:.1f}", "<= 1.3", f"{a:.1f} s against {b:.1f} s")


def machine() -> str:
    model = platform.processor() or platform.machine()
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), model)
    load = os.getloadavg()[0]
    return f"{model}, {os.cpu_count()} CPUs, Python {platform.python_version()}, load {load:.1f} at the start"


def print_table(bench: Bench, heading: str) -> None:
    rows = [("", "measured", "goal", ""), *bench.rows]
    widths = [max(len(row[at]) for row in rows) for at in range(3)]
    print(heading)
    for what, ratio, goal, figures in rows:
        note = f"  ({figures})" if figures else ""
        print(f"{what.ljust(widths[0])}  {ratio.rjust(widths[1])}  {goal.rjust(widths[2])}{note}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Print speed and memory as ratios.")
    parser.add_argument("--fabric", type=Path, help="net file to measure on (default: a fat tree of 2,048 hosts)")
    parser.add_argument("--turns", type=int, default=5, help="how often each pair takes turns (default 5)")
    parser.add_argument("--smps", type=int, default=100_000, help="SMPs of one turn of the SMP rate")
    parser.add_argument("--hosts", type=int, nargs="*", default=SIZES, help="sizes of the fat trees of the last tables")
    parser.add_argument("--sample", type=int, default=100, help="ports that the shell loop asks")
    args = parser.parse_args()
    about = machine()
    with tempfile.TemporaryDirectory(prefix="ibkeys-bench-") as folder:
        netfile = args.fabric
        if netfile is None:
            netfile = Path(folder, "fat-tree.net")
            netfile.write_text(fat_tree(*FT2048))
        with Ibsim(netfile) as sim:
            bench = Bench(sim, args.turns)
            lines = bench.on_fabric(sys.executable, "-m", "tests.bench.routes").output.splitlines()
            far = [line.split()[0].removeprefix("0,") for line in lines if line.count(",") == 2]
            smp_rate(bench, list(dict.fromkeys(far))[:WINDOW], args.smps)
            whole_fabric(bench, lines, args.sample)
            snapshot(bench)
            export(bench)
            large_snapshot(bench, LARGE)
            start_up(bench)
            simulated(bench, LARGE)
            served(bench, netfile, list(dict.fromkeys(far))[:WINDOW], args.smps // 2)
    print_table(bench, f"ibkeys, medians of {args.turns} turns ({about})")
    print(f"\n{table(list(rows(args.hosts)))}")
    print(f"\nWith {LOSS} % of the packets lost:\n\n{table(list(rows(args.hosts, changes)))}")


if __name__ == "__main__":
    main()

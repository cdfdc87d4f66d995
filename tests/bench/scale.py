"""What the commands take on fat trees of 2,000 to 40,000 hosts: ``python -m tests.bench.scale [HOSTS...]``; those that
change the fabric, while it loses packets: ``python -m tests.bench.scale changes [HOSTS...]``.

Each command is a process of its own on the simulated backend, as a user starts it. The figures are CPU time, which
other programs on the machine change least, wall time, and the largest resident memory. The table is Markdown:
`docs/scale.md` holds one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.fattree import HOST_GUID, STEP, fat_tree

ROOT: Final = Path(__file__).resolve().parents[2]
IBKEYS: Final = [sys.executable, "-c", "import sys; from ibkeys.cli import main; sys.exit(main())"]
SIZES: Final = (2_000, 8_000, 40_000)
CHANGED_SIZES: Final = (2_000, 8_000)
LOSS: Final = 1
"""Percent of the packets that are lost while the fabric is changed."""
LEAVES, HOSTS, SPINES, CORES = 25, 40, 12, 8
POD: Final = LEAVES * HOSTS
"""Hosts of a pod. With its switches a pod has about 2,800 ports, whatever the number of pods."""
JOB: Final = 100
"""Hosts that share a partition in the policy."""
FIRST_JOB: Final = 0x1000
STORAGE: Final = 0x10
SM: Final = "node00001 mlx5_0"
MOST_MIB: Final = 2048


@dataclass(frozen=True, slots=True)
class Row:
    """One command on one fabric. ``cpu`` and ``wall`` in seconds, ``peak`` in MiB."""

    command: str
    hosts: int
    ports: int
    wall: float
    cpu: float
    peak: float

    @property
    def each(self) -> float:
        """Microseconds of CPU time for each port."""
        return self.cpu / self.ports * 1e6


Commands = Callable[[Path], Iterable[tuple[str, Sequence[str]]]]
"""Yields the name of each row and its arguments, from the folder with the files."""


def tree(hosts: int) -> str:
    """Return the net file of a three-level fat tree of so many hosts, whole pods. 48 pods are the most: the 48 k
    unicast LIDs are used up then."""
    return fat_tree(LEAVES, HOSTS, SPINES, pods=max(1, hosts // POD), cores=CORES)


def policy(hosts: int) -> str:
    """Return a policy in which all hosts use the storage of the first one, and each 100 have a partition."""
    lines = [
        "Default=0x7fff, ipoib : ALL=full, SELF=full;",
        f"storage={STORAGE:#x} : ALL=limited, {HOST_GUID + 1:#x}=full;",
    ]
    for job in range(hosts // JOB):
        members = ", ".join(f"{HOST_GUID + host * STEP + 1:#x}=full" for host in range(job * JOB, job * JOB + JOB))
        lines.append(f"job{job}={FIRST_JOB + job:#x} : {members};")
    return "\n".join(lines) + "\n"


def commands(folder: Path) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the name of each row and its arguments, in the order in which one needs the files of another."""
    live = ("--backend", f"sim:{folder / 'net'}")
    managed = ("--backend", f"sim:{folder / 'net'},sm={SM}")
    taken = ("--from", str(folder / "before.db"))
    wanted = ("--policy", str(folder / "policy.conf"))
    yield "discover -f json", ("discover", *live, "-f", "json")
    yield "snapshot", ("snapshot", *live, str(folder / "before.db"))
    yield "audit", ("audit", *live, "--fail-on", "never")
    yield "audit --from --policy -f json", ("audit", *taken, *wanted, "--fail-on", "never", "-f", "json")
    yield "matrix --from -f json", ("matrix", *taken, "-f", "json")
    yield "plan --from -f json", ("plan", *taken, *wanted, "-f", "json", "--out", str(folder / "plan.json"))
    yield "compare -f json", ("compare", *managed, *wanted, "-f", "json")
    yield "report --from", ("report", *taken, *wanted, "--fail-on", "never", str(folder / "report"))
    yield "diff A B", ("diff", str(folder / "before.db"), str(folder / "before.db"))


def changes(folder: Path) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the commands that change a fabric, as `commands` does. They give it keys and P_Keys and take those back."""
    live = ("--backend", f"sim:{folder / 'net'},state={folder / 'state'},drop={LOSS}")
    wanted = ("--policy", str(folder / "policy.conf"))
    after, plan = str(folder / "after.db"), str(folder / "plan.json")
    yield "plan", ("plan", *live, *wanted, "-f", "json", "--out", plan)
    yield "apply PLAN", ("apply", plan, *live, "--yes")
    yield "snapshot", ("snapshot", *live, after)
    yield "audit --from --policy, applied", ("audit", "--from", after, *wanted, "--fail-on", "never", "-f", "json")
    yield "undo", ("undo", *live, "--yes")
    yield "snapshot, undone", ("snapshot", *live, str(folder / "undone.db"))
    yield "diff A B, different", ("diff", after, str(folder / "undone.db"))
    level = ("--protect", "2", "--lease", "60", "--yes")
    yield "mkey-deploy --per-port", ("mkey-deploy", *live, "--per-port", *level)
    yield "mkey-rotate --per-port", ("mkey-rotate", *live, "--per-port", "--yes")


def measured(hosts: int, ports: int, name: str, arguments: Iterable[str], folder: Path) -> Row:
    """Run one command. Raises RuntimeError with what it said when it did not do its work (exit status 2 or more)."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryFile("w+", dir=folder) as said:
        start = time.perf_counter()
        child = subprocess.Popen(
            [*IBKEYS, *arguments],
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
        )
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        if child.returncode not in (0, 1):
            raise RuntimeError(f"ibkeys {name} ended with {child.returncode}: {said.read()[-2000:]}")
    return Row(name, hosts, ports, wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def rows(sizes: Sequence[int], wanted: Commands = commands) -> Iterator[Row]:
    """Yield a row for each of the commands *wanted* on a fabric of each size."""
    for hosts in sizes:
        with tempfile.TemporaryDirectory(prefix="ibkeys-scale-") as name:
            folder = Path(name)
            text = tree(hosts)
            (folder / "net").write_text(text)
            (folder / "policy.conf").write_text(policy(hosts))
            # Each cable is a line at both its ends; a switch has port 0 too.
            ports = sum(line.startswith(("[", "Switch")) for line in text.splitlines())
            for command, arguments in wanted(folder):
                yield measured(hosts, ports, command, arguments, folder)


def table(found: Sequence[Row]) -> str:
    """Return the rows as Markdown, a line for each command: CPU time, that for each port, and peak memory on each
    fabric; last how much a port of the largest takes of what one of the smallest takes."""
    sizes = sorted({(row.hosts, row.ports) for row in found})
    heads = [
        "command",
        *(f"{hosts:,} hosts, {ports:,} ports" for hosts, ports in sizes),
        "for each port, last to first",
    ]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for command in dict.fromkeys(row.command for row in found):
        of = sorted((row for row in found if row.command == command), key=lambda row: row.hosts)
        cells = [f"{row.cpu:.1f} s, {row.each:.0f} µs each, {row.peak:.0f} MiB" for row in of]
        lines.append(f"| `{command}` | {' | '.join(cells)} | {of[-1].each / of[0].each:.2f} |")
    return "\n".join(lines)


def main() -> None:
    words = sys.argv[1:]
    changed = words[:1] == ["changes"]
    sizes = [int(word) for word in words[changed:]] or (CHANGED_SIZES if changed else SIZES)
    found = []
    for row in rows(sizes, changes if changed else commands):
        found.append(row)
        print(f"  {row.command}, {row.hosts:,} hosts: {row.cpu:.1f} s, {row.peak:.0f} MiB", file=sys.stderr, flush=True)
    print(table(found))


if __name__ == "__main__":
    main()

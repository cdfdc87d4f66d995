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
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.fattree import fat_tree, full_members

ROOT: Final = Path(__file__).resolve().parents[2]
IBKEYS: Final = [sys.executable, "-c", "import sys; from ibkeys.cli import main; sys.exit(main())"]
SIZES: Final = (2_000, 8_000, 40_000)
LOSS: Final = 1
"""Percent of the packets that are lost while the fabric is changed."""
RETRIES: Final = "9"
"""How often a lost request is sent again. Of a million requests, about what one sweep of the largest fabric sends, one
is lost three times in a row, which is as often as it is sent by default."""
LEAVES, HOSTS, SPINES, CORES = 25, 40, 12, 8
POD: Final = LEAVES * HOSTS
"""Hosts of a pod. With its switches a pod has about 2,800 ports, whatever the number of pods."""
JOB: Final = 100
"""Hosts that share a partition in the policy."""
FIRST_JOB: Final = 0x1000
STORAGE: Final = 0x10
SM: Final = "node00001 mlx5_0"
MOST_MIB: Final = 2048
DIFFERENT: Final = (1,)
"""The exit status of a command that found something to do, or a difference."""


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


@dataclass(frozen=True, slots=True)
class Command:
    """A command to be measured: the name of its row, its arguments, and the exit statuses that say that it did its
    work."""

    name: str
    arguments: Sequence[str]
    statuses: Collection[int] = (0,)


Commands = Callable[[Path], Iterable[Command]]
"""Yields the commands of a table, from the folder with the files."""


def tree(hosts: int) -> str:
    """Return the net file of a three-level fat tree of so many hosts, whole pods. 48 pods are the most: the 48 k
    unicast LIDs are used up then."""
    return fat_tree(LEAVES, HOSTS, SPINES, pods=max(1, hosts // POD), cores=CORES)


def policy(hosts: int) -> str:
    """Return a policy in which all hosts use the storage of the first one, and each 100 have a partition."""
    lines = [
        "Default=0x7fff, ipoib : ALL=full, SELF=full;",
        f"storage={STORAGE:#x} : ALL=limited, {full_members([0])};",
    ]
    for job in range(hosts // JOB):
        lines.append(f"job{job}={FIRST_JOB + job:#x} : {full_members(range(job * JOB, job * JOB + JOB))};")
    return "\n".join(lines) + "\n"


def commands(folder: Path) -> Iterator[Command]:
    """Yield the commands that only read, in the order in which one needs the files of another."""
    live = ("--backend", f"sim:{folder / 'net'}")
    managed = ("--backend", f"sim:{folder / 'net'},sm={SM}")
    taken = ("--from", str(folder / "before.db"))
    wanted = ("--policy", str(folder / "policy.conf"))
    yield Command("discover -f json", ("discover", *live, "-f", "json"))
    yield Command("snapshot", ("snapshot", *live, str(folder / "before.db")))
    yield Command("audit", ("audit", *live, "--fail-on", "never"))
    judged = ("audit", *taken, *wanted, "--fail-on", "never", "-f", "json")
    yield Command("audit --from --policy -f json", judged)
    yield Command("matrix --from -f json", ("matrix", *taken, "-f", "json"))
    planned = ("plan", *taken, *wanted, "-f", "json", "--out", str(folder / "plan.json"))
    yield Command("plan --from -f json", planned, DIFFERENT)
    yield Command("compare -f json", ("compare", *managed, *wanted, "-f", "json"), DIFFERENT)
    yield Command("report --from", ("report", *taken, *wanted, "--fail-on", "never", str(folder / "report")))
    yield Command("diff A B", ("diff", str(folder / "before.db"), str(folder / "before.db")))


def changes(folder: Path) -> Iterator[Command]:
    """Yield the commands that change a fabric. They give it P_Keys and take them back, then give it M_Keys. That an
    apply did what was planned, and an undo the opposite, is what `plan` and `diff` say after them."""
    live = ("--backend", f"sim:{folder / 'net'},state={folder / 'state'},drop={LOSS}", "--retries", RETRIES)
    wanted = ("--policy", str(folder / "policy.conf"))
    before, after, undone = (str(folder / f"{name}.db") for name in ("before", "after", "undone"))
    plan = str(folder / "plan.json")
    yield Command("snapshot", ("snapshot", *live, before))
    yield Command("plan", ("plan", *live, *wanted, "-f", "json", "--out", plan), DIFFERENT)
    yield Command("apply PLAN", ("apply", plan, *live, "--yes"))
    yield Command("snapshot, applied", ("snapshot", *live, after))
    yield Command("plan --from, applied", ("plan", "--from", after, *wanted))
    judged = ("audit", "--from", after, *wanted, "--fail-on", "never", "-f", "json")
    yield Command("audit --from --policy, applied", judged)
    yield Command("undo", ("undo", "1", *live, "--yes"))
    yield Command("snapshot, undone", ("snapshot", *live, undone))
    yield Command("diff A B, different", ("diff", after, undone), DIFFERENT)
    yield Command("diff A B, undone", ("diff", before, undone))
    level = ("--protect", "2", "--lease", "60", "--yes")
    yield Command("mkey-deploy --per-port", ("mkey-deploy", *live, "--per-port", *level))
    yield Command("mkey-rotate --per-port", ("mkey-rotate", *live, "--per-port", "--yes"))


def measured(hosts: int, ports: int, command: Command, folder: Path) -> Row:
    """Run one command. Raises RuntimeError with what it said when it ends with another exit status."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryFile("w+", dir=folder) as said:
        start = time.perf_counter()
        child = subprocess.Popen(
            [*IBKEYS, *command.arguments],
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
        if child.returncode not in command.statuses:
            raise RuntimeError(f"ibkeys {command.name} ended with {child.returncode}: {said.read()[-2000:]}")
    return Row(command.name, hosts, ports, wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def rows(sizes: Sequence[int], wanted: Commands = commands) -> Iterator[Row]:
    """Yield a row for each of the commands *wanted* on a fabric of each size, as soon as it is measured."""
    for hosts in sizes:
        with tempfile.TemporaryDirectory(prefix="ibkeys-scale-") as name:
            folder = Path(name)
            text = tree(hosts)
            (folder / "net").write_text(text)
            (folder / "policy.conf").write_text(policy(hosts))
            # Each cable is a line at both its ends; a switch has port 0 too.
            ports = sum(line.startswith(("[", "Switch")) for line in text.splitlines())
            for command in wanted(folder):
                yield measured(hosts, ports, command, folder)


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
    sizes = [int(word) for word in words[changed:]] or SIZES
    found = []
    for row in rows(sizes, changes if changed else commands):
        found.append(row)
        print(f"  {row.command}, {row.hosts:,} hosts: {row.cpu:.1f} s, {row.peak:.0f} MiB", file=sys.stderr, flush=True)
    print(table(found))


if __name__ == "__main__":
    main()

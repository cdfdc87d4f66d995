"""The served simulator inside the test's own process: the wire is looked at without asking it, and MAD by MAD.

Real programs attach as to ``ibkeys sim serve``: it is the same server.
"""

from __future__ import annotations

import os
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Literal, Self

from ibkeys.plan.document_reader import read_plan
from ibkeys.plan.model import PartitionPlan
from ibkeys.replica.sources import read_subnet
from ibkeys.sim.server.outbox import PassedMad
from ibkeys.sim.server.server import Server
from ibkeys.store.journal import Journal
from tests.integration import opensms
from tests.integration.ibsim import RUN_TIMEOUT, Ibsim, Library
from tests.integration.opensms import Log, sweep
from tests.integration.subnet import Subnet

OVERRIDES = ("--override", "index-0", "--override", "index-move")
BLUNT = (*OVERRIDES, "--override", "default-pkey", "--override", "enforce-blind")
Wire = dict[tuple[int, int], tuple[dict[int, int], int]]
"""(node GUID, port) → the P_Keys by index, and the enforcement bits, inbound 2 and outbound 1."""
File = tuple[bytes, int, int, int] | None
"""Bytes, mode, owner and group of a file; None: there is none."""


class Hosted(Subnet):
    """A server in a thread. ``net``: what it serves; ``watchers``: called with each MAD, in the server's thread."""

    def __init__(
        self,
        netfile: str | Path,
        *,
        sim_host: str | None = None,
        allow_others: bool = False,
        library: Library = "own",
        port_guids: Literal["file", "ibsim"] = "ibsim",
    ) -> None:
        super().__init__(netfile, sim_host=sim_host, library=library)
        self._allow_others = allow_others
        self.net = read_subnet([self.netfile], port_guids, 0, None, "initialize")
        self.watchers: list[Callable[[PassedMad], None]] = []
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.server = Server(self.net, self.socket_name, watch=self._watch, allow_others=self._allow_others)
        self._thread = threading.Thread(target=self.server.serve, daemon=True)
        self._thread.start()
        return self

    def _watch(self, seen: PassedMad) -> None:
        for watcher in self.watchers:
            watcher(seen)

    def close(self) -> None:
        if self._thread is not None:
            self.server.stop()
            self._thread.join(RUN_TIMEOUT)
            self.server.close()
            self._thread = None
            assert self.server.counts().get("internal errors", 0) == 0
        super().close()

    def pass_time(self, seconds: int) -> None:
        """Let *seconds* pass when no trap waits for its TrapRepress any more, for then it would be sent again.

        OpenSM sends the Report of a trap and its TrapRepress from two threads: either may come first.
        """
        deadline = time.monotonic() + RUN_TIMEOUT
        while len(self.net.traps.repeats):
            assert time.monotonic() < deadline, self.steer("events 50")
            self.steer("counts")
        self.steer(f"time +{seconds}")

    def wire(self) -> Wire:
        """Return every table and every enforcement bit, as the ports have them."""
        return {
            (node.guid, port.number): (
                {index: key for index, key in enumerate(port.p_keys) if key & 0x7FFF},
                2 * port.inbound_enforcement + port.outbound_enforcement if node.is_switch else 0,
            )
            for node in self.net.nodes
            for port in node.ports
            if port.number or node.is_switch
        }


def is_of_opensm(seen: PassedMad) -> bool:
    """Whether OpenSM sent a MAD, or gets it. The port of a program on our libibumad says only whether one is on it."""
    return seen.client.is_sm and _is_opensm(seen.client.ident)


@cache
def _is_opensm(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/comm").read_text() == "opensm\n"
    except FileNotFoundError:  # it has ended
        return False


class RunningOpensm:
    """An OpenSM that goes on. ``policy``: the file that it reads its policy from; ``start`` starts it (again).

    *before*: what stands before its command line; *folder*: where it keeps its cache.
    """

    def __init__(
        self,
        served: Ibsim,
        words: Sequence[str | Path],
        policy: Path,
        before: Sequence[str] = (),
        folder: Path | None = None,
    ) -> None:
        self.served, self.words, self.policy, self.before = served, words, policy, before
        self.folder = folder or served.folder
        self.process: subprocess.Popen[str]
        self.log: Log

    def start(self) -> None:
        """Start it; the subnet is up when this returns."""
        self.process, self.log = opensms.start(self.served, self.words, self.folder, before=self.before)
        self.log.wait("SUBNET UP", timeout=180)

    def kill(self) -> None:
        """Let it die, if it has not, and wait until the server knows."""
        self.process.kill()
        self.process.wait(RUN_TIMEOUT)
        self.log.close()
        if isinstance(self.served, Subnet):
            self.served.wait_until_no_sm()

    def sweep(self) -> None:
        """Let it read its files, and wait until that sweep is over."""
        sweep(self.process, self.log)

    def give(self, text: bytes) -> None:
        """Put a policy into the place of the last one, and return when it is in force."""
        beside = self.policy.with_suffix(".new")
        beside.write_bytes(text)
        beside.replace(self.policy)
        self.sweep()

    @property
    def heavy_sweeps(self) -> int:
        """How many heavy sweeps it has begun."""
        return sum("INITIATING HEAVY SWEEP" in line for line in self.log.lines)


@contextmanager
def opensm(
    served: Ibsim, text: str | bytes | None, conf: str = "", policy: Path | None = None, *, words: Sequence[str] = ()
) -> Iterator[RunningOpensm]:
    """Run OpenSM with a policy (None: there is no file) until the end of the block. *words*: more of its command
    line."""
    policy = policy or served.folder / "partitions.conf"
    if text is not None:
        policy.write_bytes(text.encode() if isinstance(text, str) else text)
    command = served.opensm_arguments("sweep_interval 0\n" + conf, policy, ("-f", "stdout", "-D", "0x07", *words))
    running = RunningOpensm(served, command, policy)
    with running_until_the_end(running):
        yield running


@contextmanager
def running_until_the_end(running: RunningOpensm) -> Iterator[None]:
    with ExitStack() as stack:
        running.start()
        stack.callback(running.kill)
        yield


def facts(path: Path) -> File:
    """Bytes, mode and owner of a file, None where there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return path.read_bytes(), stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid


def left_over(path: Path) -> list[str]:
    """What lies beside a policy that ibkeys may have left."""
    return sorted(name for name in os.listdir(path.parent) if "ibkeys-" in name)


def plan_for(served: Ibsim, policy: Path | str, *words: str) -> PartitionPlan:
    """Make the plan of a policy, and keep it in ``plan.json``."""
    if isinstance(policy, str):
        (served.folder / "new.conf").write_text(policy)
        policy = served.folder / "new.conf"
    out = served.folder / "plan.json"
    out.unlink(missing_ok=True)
    done = served.ibkeys("plan", "--policy", policy, "--full", "--out", out, *words, timeout=120)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return read_plan(out)


def via(served: Ibsim, *words: str | Path, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    """Run ``apply --via opensm`` of ``plan.json`` with all that a plan may need but ``--allow-break``."""
    words = words or (served.folder / "plan.json",)
    return served.ibkeys("apply", *words, "--via", "opensm", "--allow-removals", "--yes", *BLUNT, timeout=timeout)


def last_operation(served: Ibsim) -> str:
    """Return the number of the last operation that is no undo and was not undone."""
    with Journal.read(served.folder / "stores" / "journal.db") as journal:
        found = [each.id for each in journal.list_operations() if each.undoes is None and each.state != "undone"]
    return str(found[-1])


def undo(served: Ibsim, *words: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    """Run ``undo`` of the last operation with all that it may need."""
    return served.ibkeys("undo", last_operation(served), "--yes", *BLUNT, *words, timeout=timeout)


def planned(plan: PartitionPlan, wire: Wire) -> Wire:
    """Return the wire that a plan makes of *wire*."""
    after = dict(wire)
    for table in plan.tables:
        after[table.port.key] = ({index: int(key) for index, key in table.after.items()}, after[table.port.key][1])
    for change in plan.enforcement:
        bits = 2 * change.after.inbound + change.after.outbound
        after[change.port.key] = (after[change.port.key][0], bits)
    return after

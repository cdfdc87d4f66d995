"""A UFM over a real OpenSM: the mock writes the partitions.conf that OpenSM reads, and tells it by SIGHUP."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.corpus import DATA
from tests.integration.hosted import Hosted, RunningOpensm, last_operation, opensm
from tests.integration.tenants import tables
from tests.integration.waiting import Waiting
from tests.managers.ufm.mock import Mock, token_file, ufm

Members = dict[int, dict[int, str]]
"""Partition (its base) → node number → membership."""

NODES = {number: 0x0002C903000A1001 + 16 * number for number in range(1, 7)}
"""Number of a node of two-switch.net → its port GUID."""
RED_AND_BLUE: Members = {0x10: {2: "full", 3: "full"}, 0x20: {4: "full", 5: "limited"}}


class Ufmed:
    """The served fabric with its OpenSM, and the UFM that is over both."""

    def __init__(self, served: Hosted, running: RunningOpensm, mock: Mock) -> None:
        self.served, self.running, self.mock = served, running, mock
        self.token = token_file(served.folder)
        self.wait = 60

    @property
    def url(self) -> str:
        return f"ufm:{self.mock.url}"

    def sync(self, text: str) -> None:
        """What UFM does when something is stored; its answer does not wait for it."""
        beside = self.running.policy.with_suffix(".new")
        beside.write_text(text)
        beside.replace(self.running.policy)
        self.running.process.send_signal(signal.SIGHUP)

    def ibkeys(self, *words: str | Path, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        return self.served.ibkeys(*words, "--ufm-token", f"@{self.token}", timeout=timeout)

    def plan(self, text: str, *words: str) -> Path:
        """Make the plan of a policy."""
        policy, out = self.served.folder / "new.conf", self.served.folder / "plan.json"
        policy.write_text(text)
        out.unlink(missing_ok=True)
        done = self.ibkeys("plan", "--policy", policy, "--full", "--out", out, *words)
        assert done.returncode in (0, 1), done.stdout + done.stderr
        return out

    def apply(self, *words: str | Path, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        words = words or (self.served.folder / "plan.json",)
        return self.ibkeys(
            "apply",
            *(*words, "--via", self.url, "--allow-removals", "--yes", "--wait", str(self.wait)),
            timeout=timeout,
        )

    def undo(self, operation: str | None = None) -> subprocess.CompletedProcess[str]:
        """Undo *operation*, None: the last one."""
        number = operation or last_operation(self.served)
        return self.ibkeys("undo", number, "--yes", "--wait", str(self.wait))


@contextmanager
def ufmed(before: Members) -> Iterator[Ufmed]:
    """Serve two-switch.net with an OpenSM below a UFM. *before*: partition → node → membership, in force already."""
    with ufm() as mock:
        for base, members in before.items():
            mock.store(base, **{f"g{NODES[node]:x}": word for node, word in members.items()})
        with Hosted(DATA / "fabrics" / "two-switch.net") as served, opensm(served, mock.conf()) as running:
            found = Ufmed(served, running, mock)
            mock.sync = found.sync
            yield found


def policy(partitions: Members) -> str:
    """The policy file of what a UFM would store."""
    lines = ["Default=0x7fff, ipoib : ALL=full, SELF=full ;"]
    for base, members in partitions.items():
        listed = ", ".join(f"{NODES[node]:#x}={word}" for node, word in members.items())
        lines.append(f"p{base:x}={base:#x}, ipoib : {listed} ;")
    return "\n".join(lines) + "\n"


def stored(mock: Mock) -> Members:
    """What the UFM stores: partition → node → membership, without empty ones."""
    numbers = {guid: number for number, guid in NODES.items()}
    found = {base: {numbers[guid]: word for guid, word in mock.words(base).items()} for base in mock.partitions}
    return {base: members for base, members in found.items() if members}


def waiting(over: Ufmed, seconds: str) -> Waiting:
    """Begin an apply that waits for a confirmation for *seconds*."""
    over.plan(policy({0x10: {2: "full"}}))
    words = ("apply", over.served.folder / "plan.json", "--confirm-within", seconds, "--ufm-token", f"@{over.token}")
    return Waiting(over.served, *words, via=over.url)


def sets(over: Ufmed) -> dict[tuple[int, int], set[int]]:
    """Return the P_Keys of each port on the wire, without their indexes."""
    return {key: {*table.values()} for key, table in tables(over.served).items()}

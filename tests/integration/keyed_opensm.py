"""An OpenSM on the served simulator that gets M_Keys: its options, what the wire shows, and what must not happen."""

from __future__ import annotations

import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from ibkeys.mad.const import AttributeID, Method, MgmtClass, PortState
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.server.outbox import PassedMad
from ibkeys.store.journal import Journal, Stage
from ibkeys.store.journal.runs import Runs
from ibkeys.store.keystore.keystore import KeyStore
from tests.integration.hosted import Hosted, RunningOpensm, is_of_opensm, opensm
from tests.integration.ibsim import RUN_TIMEOUT, Library
from tests.integration.waiting import by_method

POLICY = "Default=0x7fff, ipoib : ALL=full ;\n"
CONF = "# a comment that stays\nsa_key 0x5e11a7c0ffee\nsweep_interval 3\n"
_TRAP_256 = bytes((0x01, 0x00))
_TRAP_NUMBER_AT = 64 + 4
_ACTIVE = 4
Keys = set[tuple[int, int, int]]
"""(M_Key, level, lease) of end ports."""
CLOSED = ("--protect", "2", "--lease", "60")


def stored_keys(stores: Path) -> set[int]:
    """Return every key of the key store in *stores*."""
    with KeyStore(stores / "keys.db") as store:
        rows = {row.m_key.reveal() for row in store.rows()}
        return rows | {key.reveal() for key in store.subnet_key_names()}


def stage_of_last_run(stores: Path) -> tuple[str, Stage | None]:
    """Return how the last run stands, and whether it has to be confirmed."""
    with Journal.read(stores / "journal.db") as journal:
        last = Runs(journal).last()
    assert last is not None
    return "open" if last.is_open else last.operation.state, last.operation.stage


class KeyedPorts:
    """What the end ports of a served subnet have of M_Keys, looked at without asking."""

    served: Hosted

    def keys(self) -> Keys:
        """Return what the end ports have."""
        return {(int.from_bytes(port.info[:8]), port.protect_bits, port.lease_period) for port in self.end_ports()}

    def end_ports(self) -> list[SimPort]:
        """Return the end ports of the subnet."""
        return [port for node in self.served.net.nodes for port in node.end_ports]

    def mode(self, path: Path) -> int:
        return stat.S_IMODE(path.stat().st_mode)

    def violations(self) -> int:
        """Return how many M_Key violations all ports have counted."""
        return sum(port.m_key_violations for port in self.end_ports())


@dataclass(slots=True)
class KeyedOpensm(KeyedPorts):
    """The served subnet, its OpenSM, and what was seen of M_Keys. ``unanswered``: SMPs that got no answer though
    somebody is there; ``refused``: those of ibkeys that carried a wrong M_Key; ``traps``: traps 256."""

    served: Hosted
    running: RunningOpensm
    unanswered: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    traps: int = 0

    @property
    def conf(self) -> Path:
        return self.served.folder / "opensm.conf"

    def watch(self, seen: PassedMad) -> None:
        """Note an SMP that came back with nobody's answer, and each trap 256."""
        is_smp = seen.mad[1] in (MgmtClass.SUBN_LID_ROUTED, MgmtClass.SUBN_DIRECTED_ROUTE)
        if is_smp and seen.note:
            self.unanswered.append(f"{seen.note} {seen.mad[:24].hex()}")
            if seen.note.endswith("m_key") and not is_of_opensm(seen):
                self.refused.append(self.unanswered[-1])
        if is_smp and seen.mad[3] == Method.TRAP and seen.mad[_TRAP_NUMBER_AT : _TRAP_NUMBER_AT + 2] == _TRAP_256:
            self.traps += 1

    def number_of_keys(self) -> int:
        """Return how many M_Keys the end ports have, 0 among them."""
        return len({port.m_key for port in self.end_ports()})

    def assert_nothing_was_lost(self) -> None:
        """No violation, no trap, no refused SMP."""
        assert (self.violations(), self.traps, self.unanswered) == (0, 0, [])

    def leases_ended(self) -> int:
        """Return how many leases of ports ran out."""
        return sum(event.kind == "lease-expired" for event in self.served.net.events)

    def all_active(self) -> bool:
        """Whether every end port of a link is Active."""
        return all(port.info[32] & 0x0F == _ACTIVE for port in self.end_ports() if port.is_up and port.number)

    @contextmanager
    def at_set(self, number: int, act: Callable[[], None]) -> Iterator[None]:
        """Within this, do something when OpenSM sends the Set(PortInfo) with this number, from 1."""
        sets = 0

        def watch(seen: PassedMad) -> None:
            nonlocal sets
            if seen.out and seen.mad[3] == Method.SET and seen.mad[16:18] == AttributeID.PORT_INFO.to_bytes(2):
                sets += 1
                if sets == number:
                    act()

        self.served.watchers.append(watch)
        try:
            yield
        finally:
            self.served.watchers.remove(watch)

    def ibkeys(self, *words: str | Path, timeout: float = 300) -> tuple[int, str]:
        """Run a command that says yes; return its exit code and all that it said."""
        done = self.served.ibkeys(*by_method(words), "--yes", timeout=timeout)
        return done.returncode, done.stdout + done.stderr


@contextmanager
def keyed(net: str | Path, conf: str = CONF, library: Library = "own") -> Iterator[KeyedOpensm]:
    """Serve *net* with an OpenSM that is master and has no M_Key yet."""
    with ExitStack() as stack:
        served = stack.enter_context(Hosted(net, library=library))
        running = stack.enter_context(opensm(served, POLICY, conf))
        keyed = KeyedOpensm(served, running)
        served.watchers.append(keyed.watch)
        yield keyed


@contextmanager
def heard_by_nobody(
    served: Hosted, conf: str, output: int | IO[bytes], cache: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run an OpenSM with a log of its own in the folder; the links are up when this begins. *output*: where its
    standard output goes, *cache*: the folder of its key files."""
    policy = served.folder / "partitions.conf"
    policy.write_text(POLICY)
    words = served.arguments(served.opensm_arguments(conf, policy, ("-D", "0x07")))
    own = {"OSM_CACHE_DIR": str(cache)} if cache is not None else {}
    environment = {**served.environment, **served.opensm_environment, **own}
    process = subprocess.Popen(
        words, cwd=served.folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
    )
    try:
        hosts = [port for node in served.net.nodes if not node.is_switch for port in node.end_ports]
        while any(port.state != PortState.ACTIVE for port in hosts):
            assert process.poll() is None
            served.steer("clients")
        yield process
    finally:
        process.kill()
        process.wait(RUN_TIMEOUT)

"""A simulated host with two ports on one subnet, which writes from one to the other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ibkeys.change.consent import Consent
from ibkeys.change.writer import ChangeWriter
from ibkeys.hardware.check import CheckAnswer
from ibkeys.hardware.loopback.ports import named_ports, prove_far_port
from ibkeys.hardware.loopback.putting_back import COMMAND, find_unrestored
from ibkeys.hardware.loopback.writes import Loopback
from ibkeys.scripting import Fabric
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.subnet import Subnet
from ibkeys.store.journal import Journal
from tests.fabricsim import subnet, tool
from tests.hardware.looking import look_at, open_far

HOST = "db01 mlx5_0"
PORTS = "sim0/1,sim0/2"


class Bench:
    """A host with two ports on one subnet, and files that outlive a run."""

    def __init__(self, folder: Path) -> None:
        self.net: Subnet = subnet("dual-home")
        self.stores: dict[str, Any] = {"keystore": folder / "keys.db", "journal": folder / "journal.db"}
        self.far: SimPort = self.net.port(HOST, 2)
        self.far.p_key_violations = 7

    def open(self) -> Fabric:
        return tool(self.net, timeout=0.1, **self.stores)

    def state(self) -> tuple[Any, ...]:
        """What a write may change, of every port."""
        return tuple(
            (port.m_key, port.protect_bits, port.lease_period, tuple(port.p_keys))
            for node in self.net.nodes
            for port in node.all_ports
        )

    def run(
        self, consent: Consent | None = None, before: Callable[[Fabric], object] = lambda fabric: None
    ) -> dict[str, CheckAnswer]:
        with self.open() as fabric:
            reading = look_at(fabric)
            near, far = named_ports(PORTS, reading.cas())
            prove = partial(prove_far_port, reading, near, far, open_far(reading))
            assert prove().port.port_guid == self.far.guid
            before(fabric)
            with ChangeWriter(fabric, COMMAND, consent) as writer:
                loopback = Loopback(reading, writer, prove, frozenset({near.port_guid, far.port_guid}))
                return {finding.id: finding.answer for finding in loopback.findings()}

    def left(self) -> int:
        with Journal.read(self.stores["journal"]) as journal:
            return len(find_unrestored(journal))


def outcomes(found: dict[str, CheckAnswer]) -> dict[str, str]:
    return {id: answer.outcome for id, answer in found.items()}

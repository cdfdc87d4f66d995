"""A recovery for tests: subnets whose ports are locked, one run over them, and what is so on their physical side."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ibkeys.fabric.live import LiveFabric
from ibkeys.keys.mkey import MKey
from ibkeys.mkeys.recovery.outlook import Outlook
from ibkeys.mkeys.recovery.recover import Recovery, plan_recovery
from ibkeys.mkeys.recovery.recovery_options import RecoveryOptions
from ibkeys.mkeys.recovery.result import RecoveryResult, RecoverySummary, Status
from ibkeys.mkeys.recovery.routes import links_of
from ibkeys.sim.nodes import SimNode, SimPort
from ibkeys.sim.routing import forwarding_table
from ibkeys.sim.subnet import Subnet
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.paths import StorePaths
from tests.fabricsim import tool, writer
from tests.fattree import fat_tree
from tests.spy import spy

LEASE = 15
SMALL = fat_tree(3, 3, 2, pods=3, cores=2)
FIRST_KEY = 0x5EC2E7C0DE000001


def end_ports(net: Subnet) -> list[SimPort]:
    """Return the ports that have an M_Key, those without a link left out: no SMP arrives there."""
    return [port for node in net.nodes for port in node.end_ports if port.number == 0 or port.is_up]


def lock(net: Subnet, level: int = 2, lease: int = LEASE) -> None:
    """Give every port a key of its own."""
    for number, port in enumerate(end_ports(net)):
        port.m_key, port.protect_bits, port.lease_period = FIRST_KEY + number, level, lease


def links(net: Subnet) -> dict[tuple[int, int], tuple[int, int]]:
    """Return the links as a sweep of the open subnet finds them, as a snapshot has them."""
    with tool(net) as fabric:
        return links_of(fabric.sweep())


def tree(file: str = SMALL, level: int = 2) -> tuple[Subnet, dict[tuple[int, int], tuple[int, int]]]:
    net = Subnet.from_text(file)
    known = links(net)
    lock(net, level)
    return net, known


class Run:
    """One recovery, its results, and the key store's rows after it."""

    def __init__(
        self, net: Subnet, known: Any = None, wanted: RecoveryOptions | None = None, *overrides: str, **options: Any
    ) -> None:
        stores = options.pop("stores", None)
        before: Callable[[LiveFabric], None] = options.pop("before", lambda fabric: None)
        self.results: list[RecoveryResult] = []
        self.statuses: list[Status] = []
        started = net.now
        with tool(net, **options) as fabric:
            if stores is not None:
                fabric.stores = stores
                fabric.reload_keys()
            before(fabric)
            self.wire = spy(fabric)
            with writer(fabric, *overrides) as w:
                recovery = plan_recovery(w, known, wanted)
                self.outlook: Outlook = recovery.outlook()
                self.summary: RecoverySummary = self.perform(recovery)
                self.current = w.keystore.current()
                self.rows = w.keystore.rows()
        self.seconds = net.now - started

    def perform(self, recovery: Recovery) -> RecoverySummary:
        return recovery.run(self.results.append)

    def of(self, result: str) -> list[RecoveryResult]:
        return [each for each in self.results if each.result == result]


def keys_of(net: Subnet) -> dict[int, MKey]:
    return {port.guid: MKey(port.m_key) for port in end_ports(net)}


def violations(net: Subnet) -> int:
    return sum(port.m_key_violations for port in end_ports(net))


def configuration(net: Subnet) -> list[object]:
    """Return every byte of every node, but for ProtectBits and M_KeyViolations."""

    def of(port: SimPort) -> tuple[bytes, tuple[int, ...]]:
        info = bytearray(port.info)
        info[34] &= 0x3F
        info[44:46] = bytes(2)
        return bytes(info), tuple(port.p_keys)

    def routes(node: SimNode) -> bytes:
        return bytes(forwarding_table(node)) if node.is_switch else b""

    return [
        (bytes(node.switch_info or b""), routes(node), node.tables, [of(port) for port in node.all_ports])
        for node in net.nodes
    ]


def methods(run: Run) -> set[tuple[int, int]]:
    return {(mad[3], mad[16] << 8 | mad[17]) for mad in run.wire}


def store_with(folder: Path, net: Subnet, keys: Callable[[SimPort], list[MKey]]) -> StorePaths:
    """Make a key store with *keys* of each port, the last one current, and the links. The subnet is open still."""
    paths = StorePaths(folder / "keys.db", folder / "journal.db")
    with KeyStore(paths.keystore) as store:
        for port in end_ports(net):
            for key in keys(port):
                store.promote(store.put_imported(port.guid, key))
        store.put_links((*near, *far) for near, far in links(net).items())
    return paths

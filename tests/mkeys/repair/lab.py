"""Subnets without an SM on which sm-repair finds out which port has which key."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import MKey
from ibkeys.managers.opensm.process import OpensmProcess
from ibkeys.mkeys.repair.outlook import RepairOutlook
from ibkeys.mkeys.repair.repair import plan_repair
from ibkeys.mkeys.repair.result import RepairResult
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.subnet import Subnet
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.opensm import KeyFiles, read_key_files, write_key_files
from tests.fabricsim import subnet, tool, writer
from tests.fattree import fat_tree
from tests.protectedsim import end_ports, keep_counters, ring_of, store_of

A, B, C = (MKey(0xA94F13D02E7C5B68 + number) for number in range(3))
LEASE = 60


class Lab:
    """A subnet of which the store says that every port has A, or B which was not confirmed; without an SM."""

    def __init__(self, net: Subnet, folder: Path, level: int = 2) -> None:
        self.net, self.folder = net, folder
        self.cache = folder / "cache"
        self.options: dict[str, bool] = {}
        self.stores = {"keystore": folder / "keys.db", "journal": folder / "journal.db"}
        self.ports = [port for port in end_ports(net) if port.is_up or port.node.is_switch]
        ring = ring_of(net)
        ring.by_guid = {port.guid: A for port in self.ports}
        keep_counters(net, ring)
        store_of(net, ring, folder / "keys.db", level)
        with KeyStore(folder / "keys.db") as store:
            for port in self.ports:
                store.put_pending(
                    port.node.guid, port.guid, port.number, KeySetting(B, level, LEASE), KeySetting(A, level, LEASE)
                )
        self.give([A] * len(self.ports), level)
        write_key_files(self.cache, KeyFiles(dict.fromkeys(ring.by_guid, A)), ["guid2mkey"])

    @property
    def own(self) -> SimPort:
        return self.net.nodes[0].end_ports[0]

    def give(self, keys: Sequence[MKey], level: int = 2) -> None:
        """Give the ports these keys, as a crash has left them."""
        for port, key in zip(self.ports, keys, strict=True):
            port.m_key, port.protect_bits, port.lease_period = key.reveal(), level, LEASE

    def repair(self, *processes: OpensmProcess, overrides: Sequence[str] = ()) -> RepairResult:
        options = {**self.stores, **self.options}
        with tool(self.net, timeout=0.1, **options) as fabric, writer(fabric, *overrides) as changing:
            repair = plan_repair(changing, self.cache, lambda: processes)
            repair.check()
            return repair.run()

    def outlook(self) -> RepairOutlook:
        with tool(self.net, timeout=0.1, **self.stores) as fabric, writer(fabric, dry_run=True) as changing:
            return plan_repair(changing, self.cache, lambda: ()).outlook()

    def file(self) -> dict[int, MKey]:
        return read_key_files(self.cache).m_keys

    def wire(self) -> dict[int, MKey]:
        return {port.guid: MKey(port.m_key) for port in self.ports}

    def first_keys(self) -> dict[int, MKey]:
        with KeyStore(self.folder / "keys.db", create=False) as store:
            return {guid: keys[0] for guid, keys in store.all_keys().items()}


def small(folder: Path, level: int = 2) -> Lab:
    return Lab(subnet("two-switch"), folder, level)


def tree(folder: Path, level: int = 2) -> Lab:
    path = folder / "tree.net"
    path.write_text(fat_tree(2, 2, 2, pods=2, cores=2))
    return Lab(Subnet.from_file(path), folder, level)


def mixed(lab: Lab) -> list[MKey]:
    return [(A, B)[number % 2] for number in range(len(lab.ports))]

"""A site for tests: a subnet whose ports all have an M_Key of their own, and the key store that knows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ibkeys.change.writer import ChangeWriter
from ibkeys.discovery.wanted import LINKS
from ibkeys.fabric.live import LiveFabric
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import MKey
from ibkeys.mkeys.places import KeySurvey, settle, survey
from ibkeys.mkeys.stored_links import remember_topology
from ibkeys.sim.nodes import SimNode, SimPort
from ibkeys.sim.subnet import Subnet
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.topology.model import Topology
from tests.fabricsim import subnet, swap_cables, tool
from tests.protectedsim import sm_sweeps


class Site:
    """A subnet whose ports all have a key of their own at level 2, and a key store that knows them."""

    def __init__(self, folder: Path, name: str = "two-switch", sm: bool = True, level: int = 2) -> None:
        self.net: Subnet = subnet(name)
        self.stores: dict[str, Any] = {"keystore": folder / "keys.db", "journal": folder / "journal.db"}
        if sm:
            self.net.set_sm(self.net.nodes[0])
        with self.open() as fabric, KeyStore(folder / "keys.db") as store:
            remember_topology(fabric, store, fabric.sweep(wanted=LINKS))
            for number, port in enumerate(self.ports(), 1):
                key = MKey(0xA0B1_C2D3_0000_0000 + number)
                store.promote(
                    store.put_pending(port.node.guid, port.guid, port.number, KeySetting(key, level, 60), None)
                )
                port.m_key, port.protect_bits, port.lease_period = key.reveal(), level, 60

    def ports(self) -> list[SimPort]:
        return [port for node in self.net.nodes for port in node.end_ports if port.is_up or node.is_switch]

    def open(self) -> LiveFabric:
        return tool(self.net, timeout=0.1, **self.stores)

    def sweep(self) -> Topology:
        with self.open() as fabric:
            return fabric.sweep()

    def settle(self) -> KeySurvey:
        with self.open() as fabric, ChangeWriter(fabric, "test") as writer:
            places = survey(writer)
            settle(writer, places)
            return places

    def sm_sweeps(self) -> None:
        sm_sweeps(self.net)

    def move(self, host: str, switch: str, number: int) -> None:
        self.net.unplug(host, 1)
        self.net.plug(host, 1, switch, number)
        self.sm_sweeps()

    def swap(self, one: str, other: str) -> None:
        """Swap the cables of two hosts at their switches; no SM sweeps."""
        swap_cables(self.net.port(one, 1), self.net.port(other, 1), self.net)

    def arrivals(self) -> list[tuple[str, int, bytes]]:
        """Return a list that gets (node, method, header M_Key) of each SMP that arrives from now on."""
        seen: list[tuple[str, int, bytes]] = []
        ask = self.net.carrier.ask

        def heard(mad: bytes, node: SimNode, ingress: int, slid: int) -> Any:
            seen.append((node.description, mad[3], mad[24:32]))
            return ask(mad, node, ingress, slid)

        self.net.carrier.ask = heard  # type: ignore[method-assign]
        return seen

    def quiet(self) -> bool:
        """Whether no port counted an M_Key violation, started a lease or sent trap 256."""
        return not any(
            event.kind.startswith(("lease", "m-key")) or event.detail.get("number") == 256 for event in self.net.events
        )

"""A subnet, its stores and a policy for scripts that change all of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import ibkeys
from ibkeys.sim.subnet import Subnet
from tests.fabricsim import subnet

HOSTS = tuple(f"node0{number} mlx4_0" for number in range(1, 7))
OPEN = "Default=0x7fff, ipoib : ALL=full ;\n"


@dataclass
class Site:
    """``net``: two-switch.net; ``folder``: where key store and journal are."""

    net: Subnet
    folder: Path

    @property
    def stores(self) -> ibkeys.Stores:
        return ibkeys.Stores(self.folder / "keys.db", self.folder / "journal.db")

    @contextmanager
    def fabric(self) -> Iterator[ibkeys.Fabric]:
        with ibkeys.open(self.net, stores=self.stores) as fabric:
            yield fabric

    def policy(self, *hosts: str, text: str = OPEN) -> ibkeys.partitions.Policy:
        """Return a policy with *hosts* as full members of partition 0x10."""
        members = ", ".join(f"0x{self.net.port(host, 1).guid:016x}=full" for host in hosts)
        return ibkeys.partitions.parse_policy(text + (f"tenant=0x10 : {members} ;\n" if hosts else ""))

    def members(self, key: int = 0x8010) -> list[str]:
        """Return the hosts whose tables have a P_Key, looked at without SMPs."""
        return [host for host in HOSTS if key in self.net.port(host, 1).p_keys]

    def m_keys(self) -> set[int]:
        """Return the M_Keys that the hosts have."""
        return {self.net.port(host, 1).m_key for host in HOSTS}

    def operations(self, *, open_only: bool = False) -> tuple[ibkeys.Operation, ...]:
        return ibkeys.operations(self.stores, open_only=open_only)


def site(folder: Path) -> Site:
    """Return a subnet without a subnet manager on which nothing was changed yet."""
    return Site(subnet("two-switch"), folder)

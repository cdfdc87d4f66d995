"""Made-up fabrics with tenants to take pictures of: 40 hosts and 3,000, before and after a change at night."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import ibkeys
from ibkeys.change.pkeys import plan_add
from ibkeys.fabric.snapshot_file import save_snapshot
from ibkeys.keys.pkey import PKey
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.subnet import Subnet
from tests.audit.looking import good_key, taken
from tests.cli.conftest import run
from tests.fabricsim import tool, writer
from tests.fattree import fat_tree

DEMO: Final = Path(ibkeys.__file__).parent / "sim" / "data" / "demo.net"
LARGE: Final = (94, 32, 16)
"""Leaves, hosts on each, spines: 3,008 hosts."""
KEY: Final = good_key(7)
STORAGE, TENANT = 0x21, 0x100
POLICY: Final = "".join(
    [
        "Default=0x7fff : ALL=limited, SELF=full ;\nstorage=0x0021 : ALL=limited ;\n",
        *(f"tenant-{number + 1}=0x{TENANT + number:04x} : ALL=full ;\n" for number in range(40)),
    ]
)


def small() -> Subnet:
    """Return the packaged fabric of forty hosts with its tenants."""
    return _with_tenants(Subnet.from_file(DEMO), tenants=3)


def large() -> Subnet:
    """Return a fat tree of 3,008 hosts with forty tenants."""
    return _with_tenants(Subnet.from_text(fat_tree(*LARGE)), tenants=40)


def _hosts(net: Subnet) -> list[SimPort]:
    return [port for node in net.nodes if not node.is_switch for port in node.end_ports if port.peer is not None]


def _with_tenants(net: Subnet, tenants: int) -> Subnet:
    """Give each host the limited default P_Key, a tenant's and, but for every ninth, that of the storage; every 37th
    host is in two tenants. The leaves enforce all that, but for one rack. Most ports have an M_Key of one level, some
    of another, one rack has none."""
    hosts = _hosts(net)
    net.set_sm(hosts[0].node)
    for number, port in enumerate(hosts):
        tenant = TENANT + number * tenants // len(hosts)
        keys = [0xFFFF if number < 2 else 0x7FFF, 0x8000 | tenant]
        keys += [STORAGE] if number % 9 else []
        keys += (
            [0x8000 | TENANT + (number % tenants)] if number % 37 == 36 and number % tenants != tenant - TENANT else []
        )
        rack = number * 16 // len(hosts)
        port.p_keys = keys
        if rack != 5:
            port.m_key, port.protect_bits, port.lease_period = KEY, 1 if rack == 9 else 2, 60
        leaf = port.peer
        assert leaf is not None
        if leaf.node.is_switch and rack != 12:
            leaf.p_keys, leaf.inbound_enforcement, leaf.outbound_enforcement = keys, 1, 1
    for port in hosts[-max(len(hosts) // 20, 2) :]:
        port.p_keys = [0x7FFF, 0x8000 | STORAGE]
        assert port.peer is not None
        port.peer.p_keys = port.p_keys
    return net


def change(net: Subnet) -> None:
    """Make the change of a night: some hosts go to another tenant, one loses its M_Key, one gets another name."""
    hosts = _hosts(net)
    for port in hosts[6 : 7 + len(hosts) // 100]:
        port.p_keys = [0x7FFF, 0x8000 | TENANT + 2, STORAGE]
        assert port.peer is not None
        port.peer.p_keys = port.p_keys
    hosts[10].m_key, hosts[10].protect_bits, hosts[10].lease_period = 0, 0, 0
    hosts[11].node.description_bytes = b"spare01 mlx5_0"


def snapshots(net: Subnet, before: Path, after: Path) -> None:
    """Write the snapshots of *net* before and after its `change`."""
    save_snapshot(before, taken(net, KEY))
    change(net)
    save_snapshot(after, taken(net, KEY))


SIZES: Final[Mapping[str, Callable[[], Subnet]]] = {"small": small, "large": large}


def write_report(net: Subnet, folder: Path) -> Path:
    """Write the report of *net* after its `change`, with the journal of one command, and return where it is."""
    stores: dict[str, Any] = {"journal": folder / "journal.db", "keystore": folder / "keys.db"}
    with tool(net, m_key=KEY, **stores) as fabric, writer(fabric, force=True) as change_of:
        change_of.apply(plan_add(change_of, fabric.find_port(2), [PKey(0x8000 | TENANT + 1)]))
    before, after, policy = folder / "monday.db", folder / "tuesday.db", folder / "partitions.conf"
    snapshots(net, before, after)
    policy.write_text(POLICY)
    made = folder / "report"
    assert (
        run(
            "report", made, "--from", after, "--baseline", before, "--policy", policy, "--journal", stores["journal"]
        ).code
        == 1
    )
    return made

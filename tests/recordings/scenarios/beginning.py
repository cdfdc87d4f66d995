"""What a fabric has before the first command of a scenario: policies, OpenSMs, a UFM, keys that are lost."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

from ibkeys.mad.const import SMState
from ibkeys.plan.model import SmOptions
from tests.managers.ufm.mock import Mock, token_file, ufm
from tests.recordings.opensm import Tables
from tests.recordings.recorder import GIVEN, Command
from tests.recordings.world import World

Beginning = Callable[[World, ExitStack], object]

SM_NODE: Final = {"two-switch": "node01 mlx4_0", "dual-home": "db01 mlx5_0"}
STANDBY_NODE: Final = "node05 mlx4_0"
OWN_SA_KEY: Final = f"sm_key {GIVEN[1]:#x}\nsa_key {GIVEN[2]:#x}\n"
PORTS: Final = {
    "two-switch": [f"0x2c903000a10{number}1" for number in range(1, 7)],
    "dual-home": [f"0x248a070300b10{host}0{port}" for host in range(1, 5) for port in (1, 2)],
}
"""Port GUIDs of hosts, in the order of their LIDs."""
DEFAULT: Final = "Default=0x7fff, ipoib : ALL=limited, SELF=full ;\n"


def wanted(fabric: str, before: str = DEFAULT) -> str:
    """Return a policy with two partitions more, one of them with limited members."""
    guids = PORTS[fabric]
    lustre = f"lustre=0x21 : {guids[1]}=full, {guids[2]}=limited, {guids[3]}=limited ;\n"
    return f"{before}{lustre}gpu=0x30 : {guids[3]}=full, {guids[4]}=full ;\n"


def other(fabric: str, before: str = DEFAULT) -> str:
    """Return a policy in which a partition of `wanted` has another number, and the other one other members: OpenSM
    cannot do that in one step."""
    guids = PORTS[fabric]
    lustre = f"lustre=0x22 : {guids[1]}=full, {guids[2]}=limited, {guids[3]}=limited ;\n"
    return f"{before}{lustre}gpu=0x30 : {guids[4]}=full, {guids[5]}=full ;\n"


def swapped(fabric: str, before: str = DEFAULT) -> str:
    """Return a policy in which the partitions of `wanted` change their numbers: in between, pairs lose each other."""
    guids = PORTS[fabric]
    lustre = f"lustre=0x30 : {guids[1]}=full, {guids[2]}=limited, {guids[3]}=limited ;\n"
    return f"{before}{lustre}gpu=0x21 : {guids[3]}=full, {guids[4]}=full ;\n"


def policies(world: World, stack: ExitStack, before: str = DEFAULT) -> None:
    """Keep `wanted`, `other` and `swapped` as new.conf, other.conf and swapped.conf."""
    for name, policy in {"new": wanted, "other": other, "swapped": swapped}.items():
        (world.folder / f"{name}.conf").write_text(policy(world.fabric, before))


PLAN: Final = Command("plan --policy {dir}/new.conf --out {dir}/plan.json", is_recorded=False)
SWAPPED_PLAN: Final = Command("plan --policy {dir}/swapped.conf --out {dir}/swapped.json", is_recorded=False)
OTHER_PLAN: Final = Command("plan --policy {dir}/other.conf --out {dir}/other.json", is_recorded=False)


def opensm(more: str = "", fabric: str = "two-switch", standby: bool = False) -> Beginning:
    """Return what starts an OpenSM on this host, and another one on another host. *more*: lines of their options."""

    def begin(world: World, stack: ExitStack) -> None:
        first = world.add_opensm(SM_NODE[fabric], more)
        if standby:
            world.add_opensm(STANDBY_NODE, more)
        policies(world, stack, first.policy.read_text())

    return begin


def with_ufm(world: World, stack: ExitStack) -> None:
    """Let a UFM run the fabric."""
    policies(world, stack, "management=0x7fff, ipoib : ALL=full, SELF=full ;\n")
    home = world.net.port(SM_NODE["two-switch"], 1)
    world.net.set_sm(home.node, SMState.MASTER, 9, 1, 1)
    mock = Mock()
    tables = Tables(mock.conf(), SmOptions(part_enforce="both"), world.net, home)

    def sync(text: str) -> None:
        tables.host.file.data = text.encode()
        tables.write()

    mock.sync = sync
    world.ufm = stack.enter_context(ufm(mock))
    token_file(world.folder)


def locked(world: World, stack: ExitStack) -> None:
    """Give each port a key that nobody knows, at level 2, with a lease of 15 s."""
    for node in world.net.nodes:
        for port in node.end_ports:
            port.m_key, port.protect_bits, port.lease_period = GIVEN[0], 2, 15
            port.touch()

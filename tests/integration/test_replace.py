"""replace on the policy in force of a real OpenSM, with one and two ports, and the way back."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from ibkeys.sim.subnet import Subnet as SimulatedSubnet
from tests import corpus
from tests.corpus import DATA
from tests.integration.hosted import OVERRIDES, facts, opensm
from tests.integration.subnet import Subnet
from tests.integration.tenants import tables

FABRICS = {
    "two-switch": ("c903000a102", "c903000b102", "node02 mlx4_0", 1, 0x2C903000A1021, 0x2C903000A1031),
    "dual-home": ("070300b102", "070300b902", "db02 mlx5_0", 2, 0x248A070300B10201, 0x248A070300B10301),
}
"""Fabric → digits of GUIDs of one adapter, those of the new one, its name, its ports, a GUID of it and of another."""


def policy_of(first: int, ports: int, other: int) -> str:
    """Return a policy in which the adapter is a member of three partitions, once at index 0."""
    both = [f"0x{first + number:x}" for number in range(ports)]
    return (
        "# of the cluster\n"
        "Default=0x7fff, ipoib : ALL=limited, SELF=full ;\n"
        f"tank, ipoib : {'=full, '.join(both)}=full, 0x{other:x} ;  # OpenSM picks its P_Key\n"
        f"gpu=0x30, ipoib, indx0 :\n    {both[0]} ,  # the first port\n    0x{other:x}=full ;\n"
        f"all=0x31 : ALL, {both[-1]}=full ;\n"
    )


@pytest.mark.parametrize("fabric", FABRICS)
def test_a_replaced_adapter_gets_the_tables_of_a_policy_written_by_hand(fabric: str, tmp_path: Path) -> None:
    old, new, name, ports, first, other = FABRICS[fabric]
    before = DATA / "fabrics" / f"{fabric}.net"
    now = tmp_path / "now.net"
    now.write_text(before.read_text().replace(old, new))
    policy = policy_of(first, ports, other)
    edited = policy.replace(old.lstrip("0"), new.lstrip("0"))
    assert edited != policy
    with Subnet(now) as served, opensm(served, policy) as running:
        monday, by_hand = served.folder / "monday.db", served.folder / "by_hand.conf"
        taken = served.ibkeys("snapshot", monday, "--backend", f"sim:{before}", timeout=120)
        assert taken.returncode == 0, taken.stdout + taken.stderr
        state = facts(running.policy), tables(served)
        done = served.ibkeys("replace", "--baseline", monday, "--yes", *OVERRIDES, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"replaced: {name} (0x" in done.stderr
        assert done.stdout.endswith("done, verified by a fresh read; `ibkeys undo 1` rolls it back\n")
        assert running.policy.read_text() == edited
        by_hand.write_text(edited)
        planned = served.ibkeys("plan", "--policy", by_hand, timeout=120)
        assert planned.returncode == 0, planned.stdout + planned.stderr  # nothing is left to change
        changed = {place for place, table in tables(served).items() if table != state[1][place]}
        assert len(changed) >= ports
        again = served.ibkeys("replace", "--baseline", monday, "--yes", timeout=120)
        assert (again.returncode, again.stdout) == (0, "nothing to change: the policy in force says this already\n")
        undone = served.ibkeys("undo", "1", "--yes", *OVERRIDES, timeout=300)
        assert undone.returncode == 0, undone.stdout + undone.stderr
        assert (facts(running.policy), tables(served)) == state


# --- many at once, on fabrics of the corpus ---------------------------------------------------------------------------

LARGE = {
    corpus.label(file): file
    for file in corpus.files("fabrics/*.net")
    if file.stem in ("dualport64", "psmn-x5-2020", "rocket-2014", "torus444")
}


@pytest.mark.soak
@pytest.mark.parametrize("name", LARGE)
def test_fifty_replaced_adapters_get_the_tables_of_a_policy_written_by_hand(name: str, tmp_path: Path) -> None:
    """OpenSM is on the first host, which stays; so do all others."""
    before, now, chance = LARGE[name], tmp_path / "now.net", random.Random(1)
    hosts = [each for each in SimulatedSubnet.from_file(before).nodes if not each.is_switch]
    going = chance.sample(hosts[1:], 50)
    guids = [guid for each in going for guid in (each.guid, *(port.guid for port in each.end_ports))]
    new = {guid: guid ^ 0x0BEE << 32 for guid in guids}
    now.write_text(with_guids(before.read_text(), new))
    policy = policy_of_all([port.guid for each in hosts for port in each.end_ports if port.peer is not None], chance)
    edited = with_guids(policy, new)
    with Subnet(now) as served, opensm(served, policy) as running:
        monday, by_hand = served.folder / "monday.db", served.folder / "by_hand.conf"
        taken = served.ibkeys("snapshot", monday, "--backend", f"sim:{before}", timeout=300)
        assert taken.returncode == 0, taken.stdout + taken.stderr
        state = facts(running.policy), tables(served)
        done = served.ibkeys("replace", "--baseline", monday, "--yes", *OVERRIDES, timeout=500)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stderr.count("note: replaced: ") == len(going)
        assert running.policy.read_text() == edited
        by_hand.write_text(edited)
        planned = served.ibkeys("plan", "--policy", by_hand, timeout=300)
        assert planned.returncode == 0, planned.stdout + planned.stderr  # nothing is left to change
        undone = served.ibkeys("undo", "1", "--yes", *OVERRIDES, timeout=500)
        assert undone.returncode == 0, undone.stdout + undone.stderr
        assert (facts(running.policy), tables(served)) == state


def with_guids(text: str, guids: Mapping[int, int]) -> str:
    """Return a text in which each GUID has its new value, written with as many digits."""

    def renewed(found: re.Match[str]) -> str:
        number = int(found[0], 16)
        return f"{guids[number]:0{len(found[0])}x}" if number in guids else found[0]

    return re.sub(r"(?<![0-9a-f])[0-9a-f]{10,16}(?![0-9a-f])", renewed, text)


def policy_of_all(guids: list[int], chance: random.Random) -> str:
    """Return a policy that names each of *guids* in some of three partitions."""
    lines = ["Default=0x7fff, ipoib : ALL=limited, SELF=full ;"]
    for number in range(1, 4):
        members = [guid for guid in guids if chance.random() < 0.5] or guids[:1]
        lines.append(f"p{number}=0x{number:x}, ipoib :")
        lines += [f"  0x{guid:016x}={chance.choice(['full', 'limited'])}," for guid in members]
        lines.append("  NONE ;")
    return "\n".join(lines) + "\n"

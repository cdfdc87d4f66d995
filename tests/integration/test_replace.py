"""replace on the policy in force of a real OpenSM, with one and two ports, and the way back."""

from __future__ import annotations

from pathlib import Path

import pytest

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

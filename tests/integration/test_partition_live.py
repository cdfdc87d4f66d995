"""partition-add and its siblings on the policy in force of a real OpenSM, and the way back."""

from __future__ import annotations

import json

from tests.corpus import DATA
from tests.integration.hosted import facts, opensm
from tests.integration.subnet import Subnet
from tests.integration.tenants import tables

POLICY = """\
# of the cluster
Default=0x7fff, ipoib : ALL=limited, SELF=full ;
tank, ipoib : 0x2c903000a1021=full, 0x2c903000a1031 ;  # OpenSM picks its P_Key
gpu=0x30, ipoib : 0x2c903000a1041=full ;
"""
ADDED = f"""{POLICY}
lustre=0x0021, ipoib, mtu=4 :
    mgid=ff12::77
    0x0002c903000a1011=full,  # node01 mlx4_0
    0x0002c903000a1051=full,  # node05 mlx4_0
    0x0002c903000a1021=limited ;  # node02 mlx4_0
"""
RENAMED = ADDED.replace("\nlustre=", "\nscratch=").replace("\ntank, ", "\ntank=0x0001, ")
REMOVED = RENAMED.replace("0x2c903000a1041=full ;", "NONE ;")
DELETED = "".join(line for line in REMOVED.splitlines(keepends=True) if not line.startswith("tank"))
LOWER = DELETED.replace("mtu=4", "mtu=3")
STEPS = {
    "partition-add lustre=0x21 --full node0[1,5] --limited node02 --ipoib --mtu 2048 --mgid ff12::77": ADDED,
    "partition-rename lustre scratch": RENAMED,
    "partition-remove gpu node04": REMOVED,
    "partition-delete tank": DELETED,
    "partition-add scratch --mtu 1024": LOWER,
}
"""Each command, and the policy that somebody would have written by hand instead."""


def groups_of_0x21(served: Subnet) -> dict[str, str]:
    """Return how each group of the partition in the SA compares with the policy in force."""
    done = served.ibkeys("compare", "--ipoib", "--policy", "opensm", "-f", "json", timeout=120)
    found = json.loads(done.stdout)["groups"]
    return {each["mgid"]: each["state"] for each in found if each["partition"] == "0x0021"}


def test_each_command_makes_the_tables_of_a_policy_written_by_hand_and_undo_brings_back_the_former() -> None:
    with Subnet(DATA / "fabrics" / "two-switch.net") as served, opensm(served, POLICY) as running:
        by_hand = served.folder / "by_hand.conf"
        states = [(facts(running.policy), tables(served))]
        for number, (words, text) in enumerate(STEPS.items(), 1):
            done = served.ibkeys(*words.split(), "--yes", timeout=300)
            assert done.returncode == 0, done.stdout + done.stderr
            others = {
                LOWER: "not verified: mtu of scratch, as the note says",
                RENAMED: "done, and no port changes: OpenSM was told to read the policy",
            }
            how = others.get(text, "done, verified by a fresh read")
            assert done.stdout.endswith(f"{how}; `ibkeys undo {number}` rolls it back\n")
            assert running.policy.read_text() == text
            by_hand.write_text(text)
            planned = served.ibkeys("plan", "--policy", by_hand, timeout=120)
            assert planned.returncode == 0, planned.stdout + planned.stderr  # nothing is left to change
            states.append((facts(running.policy), tables(served)))
            lustre = groups_of_0x21(served)
            kept = "differs" if text == LOWER else "as-planned"  # OpenSM keeps a group that exists, as a note says
            assert lustre == {"ff12:401b:8021::ffff:ffff": kept, "ff12::77": kept}
            assert ("OpenSM keeps a multicast group that exists" in done.stderr) == (text == LOWER)
        for number in range(len(STEPS), 0, -1):
            undone = served.ibkeys("undo", str(number), "--yes", "--override", "index-move", timeout=300)
            assert undone.returncode == 0, undone.stdout + undone.stderr
            assert (facts(running.policy), tables(served)) == states[number - 1]

"""A snapshot of a large simulated fabric: ``large_snapshot FILE LEAVES HOSTS SPINES`` prints how many ports it has.

Each host is in the default partition and in three of 200 others, so that nearly every table is one of its own, and its
switch port enforces a copy of it: the worst case for what is worked out from P_Key tables.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import ibkeys
from ibkeys.fabric.snapshot import take_snapshot
from ibkeys.fabric.snapshot_file import save_snapshot
from ibkeys.keys.fingerprint import Fingerprints
from ibkeys.sim.subnet import Subnet
from tests.fattree import fat_tree

PARTITIONS = 200
OF_EACH = 3


def main() -> None:
    file, *shape = sys.argv[1:]
    leaves, hosts, spines = map(int, shape)
    subnet = Subnet.from_text(fat_tree(leaves, hosts, spines))
    chosen = random.Random(1)
    for node in subnet.nodes:
        for port in () if node.is_switch else node.end_ports:
            port.p_keys = [0x7FFF, *sorted(0x8000 | each for each in chosen.sample(range(1, PARTITIONS), OF_EACH))]
            if port.peer is not None:
                port.peer.p_keys = port.p_keys
                port.peer.inbound_enforcement = port.peer.outbound_enforcement = 1
    with ibkeys.open(subnet) as fabric:
        snapshot = take_snapshot(fabric, Fingerprints.generate())
    save_snapshot(Path(file), snapshot)
    print(sum(1 for _ in snapshot.fabric.ports()))


if __name__ == "__main__":
    main()

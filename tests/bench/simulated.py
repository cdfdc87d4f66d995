"""The simulated backend in this process: ``simulated LEAVES HOSTS SPINES`` prints its figures as JSON."""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
import tracemalloc

import ibkeys
from ibkeys.sim.subnet import Subnet
from ibkeys.topology.model import Topology
from tests.fattree import fat_tree


def sweep(subnet: Subnet) -> tuple[Topology, int, float]:
    """Return the fabric, the SMPs that it took, and the seconds."""
    with ibkeys.open(subnet) as fabric:
        start = time.perf_counter()
        found = fabric.sweep(p_keys=True)
        return found, fabric.client.statistics.sent, time.perf_counter() - start


def traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def main() -> None:
    leaves, hosts, spines = map(int, sys.argv[1:])
    text = fat_tree(leaves, hosts, spines)
    start = time.perf_counter()
    subnet = Subnet.from_text(text)
    built = time.perf_counter() - start
    found, smps, seconds = sweep(subnet)
    ports = sum(1 for _ in found.ports())
    troubles = len(found.troubles)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    del found, subnet
    # Once more with every allocation counted, which is slow: the sizes only.
    tracemalloc.start()
    before = traced()
    subnet = Subnet.from_text(text)
    between = traced()
    found, _, _ = sweep(subnet)
    after = traced()
    print(
        json.dumps(
            {
                "ports": ports,
                "troubles": troubles,
                "build_seconds": built,
                "smps": smps,
                "seconds": seconds,
                "peak_kib": peak,
                "subnet_bytes": between - before,
                "fabric_bytes": after - between,
            }
        )
    )
    del found


if __name__ == "__main__":
    main()

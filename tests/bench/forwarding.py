"""What routes cost: ``python -m tests.bench.forwarding [HOSTS...]`` on fat trees; no ratio, for docs/scale.md.

One in a hundred ports between switches checks P_Keys, so that the routes decide about pairs everywhere.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from ibkeys.fabric.snapshot import take_snapshot
from ibkeys.fabric.snapshot_file import save_snapshot
from ibkeys.mad.attributes import LinearForwardingTable
from ibkeys.reach.reach import Reach
from ibkeys.sim.subnet import Subnet
from ibkeys.topology.forwarding import follow
from tests.bench.scale import tree
from tests.cli.saved import SECRET
from tests.fabricsim import tool

ONE_IN = 100


def main(sizes: list[int]) -> None:
    print("| hosts | blocks | snapshot with routes | why: blocks for each switch on the way | reach and pairs |")
    print("|---|---|---|---|---|")
    for hosts in sizes:
        print(row(hosts), flush=True)


def row(hosts: int) -> str:
    net = Subnet.from_text(tree(hosts))
    ports = [port for node in net.nodes if node.is_switch for port in node.ports[1:]]
    between = [port for port in ports if port.peer is not None and port.peer.node.is_switch]
    for port in between[::ONE_IN]:
        port.p_keys, port.outbound_enforcement = [0x8001], 1
    with tool(net) as fabric:
        found = fabric.sweep(p_keys=True)
        ends = [port for port in found.end_ports() if not port.node.is_switch]
        one, other = ends[0], ends[-1]
        fabric.read_routes(found, [(one, other)])
        routes = [follow(one, other.lid or 0), follow(other, one.lid or 0)]
        switches = {hop.node for route in routes for hop in route.hops if hop.node.is_switch}
        of_why = fabric.client.statistics.by_attribute[LinearForwardingTable.attribute_id] / len(switches)
    with tool(net) as fabric, tempfile.TemporaryDirectory() as folder:
        fabric.routes = "all"
        begun = time.process_time()
        taken = take_snapshot(fabric, SECRET)
        seconds = time.process_time() - begun
        blocks = fabric.client.statistics.by_attribute[LinearForwardingTable.attribute_id]
        file = Path(folder) / "routes.db"
        save_snapshot(file, taken)
        size = file.stat().st_size / 1e6
    begun = time.process_time()
    Reach(taken.fabric).count()
    counted = time.process_time() - begun
    return f"| {hosts:,} | {blocks:,} | {seconds:.1f} s, {size:.1f} MB | {of_why:.1f} | {counted:.1f} s |"


if __name__ == "__main__":
    main([int(each) for each in sys.argv[1:]] or [2000, 8000, 40000])

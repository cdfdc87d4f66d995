#!/usr/bin/env python3
"""Put a host's port into a partition: its own table, and that of the switch port before it where that enforces.

    host_into_partition.py NODE P_KEY [--port N] [--backend umad] [--yes] [--force]

NODE is a node name, GUID, LID or directed route; P_KEY such as 0x8010 (full member) or 0x0010 (limited). Without --yes
it only shows what would change. --force: although a subnet manager is master, which may write the tables anew. Exit
status: 0 done or nothing to do, 1 it would change something, 3 not completed, 4 refused by an interlock.
"""

from __future__ import annotations

import argparse
import sys

import ibkeys


def main() -> int:
    """Show the change, make it with --yes, return the exit status."""
    parser = argparse.ArgumentParser(description="Put a host's port into a partition.")
    parser.add_argument("node")
    parser.add_argument("p_key", type=lambda text: ibkeys.PKey(int(text, 0)))
    parser.add_argument("--port", type=int)
    parser.add_argument("--backend", default="umad")
    parser.add_argument("--yes", action="store_true")
    parser.add_argument("--force", action="store_true")
    args = parser.parse_args()
    is_pending = False
    with ibkeys.open(args.backend) as fabric:
        topology = fabric.sweep()
        host = fabric.find_port(args.node, args.port)
        swept = next(port for port in topology.end_ports() if port.identity() == host.identity())
        places: list[ibkeys.PortHandle | ibkeys.Port] = [host]
        leaf = swept.peer
        if leaf is not None and (info := leaf.port_info) is not None:
            enforces = info.partition_enforcement_inbound or info.partition_enforcement_outbound
            places = [leaf, host] if enforces else [host]  # the switch first: until then it would drop the packets
        consent = ibkeys.Consent(force=args.force)
        with fabric.change("host-into-partition", consent, dry_run=not args.yes) as change:
            for place in places:
                plan = change.add_p_keys(place, [args.p_key])
                is_pending = is_pending or plan.pending
                for line in [*plan.changes, *plan.notes]:
                    print(f"{place}: {line}")
                change.apply(plan)
    return 1 if is_pending and not args.yes else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ibkeys.errors.Refused as error:
        print(error, file=sys.stderr)
        sys.exit(4)
    except ibkeys.errors.IbkeysError as error:
        print(error, file=sys.stderr)
        sys.exit(3)

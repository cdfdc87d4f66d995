#!/usr/bin/env python3
"""Put a host into a partition: into the policy of OpenSM, which then writes the tables of the host and of its switch.

    host_into_partition.py NODE P_KEY [--policy FILE] [--sm-host HOST ...] [--sudo] [--backend umad] [--direct] [--yes]

NODE is a node name, GUID or LID; P_KEY such as 0x8010 (full member) or 0x0010 (limited). Without --yes it only shows
what would change. With --direct FILE is written at the end, or the next host would take this one out again. Exit
status: 0 done or nothing to do, 1 it would change something, 3 not completed, 4 refused.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import ibkeys


def p_key(text: str) -> ibkeys.PKey:
    """Read a P_Key that was typed."""
    return ibkeys.PKey(int(text, 0))


def main() -> int:
    """Show the change, make it with --yes, return the exit status."""
    parser = argparse.ArgumentParser(description="Put a host into a partition.")
    parser.add_argument("node")
    parser.add_argument("p_key", type=p_key)
    parser.add_argument("--policy", default="/etc/opensm/partitions.conf")
    parser.add_argument("--sm-host", action="append", default=[], help="another host with an OpenSM; repeatable")
    parser.add_argument("--sudo", action="store_true", help="become root there by sudo")
    parser.add_argument("--backend", default="umad")
    parser.add_argument("--direct", action="store_true", help="no subnet manager runs: ibkeys writes the tables")
    parser.add_argument("--yes", action="store_true")
    args = parser.parse_args()
    via = ibkeys.Direct() if args.direct else ibkeys.ThroughOpenSM(args.sm_host, args.sudo)
    with ibkeys.open(args.backend) as fabric:
        found = fabric.sweep()
        policy = ibkeys.partitions.read_policy(args.policy)
        policy = ibkeys.partitions.add_member(policy, found, found.port_of(args.node), args.p_key)
        plan = fabric.plan(policy)
        print(*plan.changes, sep="\n")
        if not args.yes:
            return int(plan.pending)
        result = fabric.apply(plan, via=via)
        if args.direct and result.proven and policy.data is not None:
            Path(args.policy).write_bytes(policy.data)
    for outcome in (*result.failed, *result.left):
        print(f"not done: {outcome}", file=sys.stderr)
    return 0 if result.proven else 3


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ibkeys.errors.Refused as error:
        print(error, file=sys.stderr)
        sys.exit(4)
    except ibkeys.errors.IbkeysError as error:
        print(error, file=sys.stderr)
        sys.exit(3)

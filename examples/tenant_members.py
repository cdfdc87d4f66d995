#!/usr/bin/env python3
"""Let the full members of a partition be those of a list: missing ports are added, and all others removed.

    tenant_members.py PARTITION LIST [--sm-host HOST ...] [--sudo] [--backend umad] [--yes]

PARTITION is a name, or lustre=0x21 to make it. LIST is a file with a node name or GUID on each line. The policy that
OpenSM uses is edited, and OpenSM writes the tables. Without --yes it only shows what would change. Exit status: 0 done
or nothing to do, 1 it would change something, 3 not completed, 4 refused.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import ibkeys


def members(fabric: ibkeys.Fabric, partition: str, via: ibkeys.ThroughOpenSM) -> dict[str, str]:
    """Return the members by port GUID, each with its membership; none of a partition that does not exist."""
    name, _, number = partition.partition("=")
    for each in fabric.partitions.show(via=via).partitions:
        found = each.partition
        if name in (found.name, f"0x{found.base:x}") or (number and int(number, 16) == found.base):
            return {f"0x{port.guid:016x}": how for port, how in each.members}
    return {}


def main() -> int:
    """Show the changes, make them with --yes, return the exit status."""
    parser = argparse.ArgumentParser(description="Let the full members of a partition be those of a list.")
    parser.add_argument("partition")
    parser.add_argument("list", type=Path)
    parser.add_argument("--sm-host", action="append", default=[], help="another host with an OpenSM; repeatable")
    parser.add_argument("--sudo", action="store_true", help="become root there by sudo")
    parser.add_argument("--backend", default="umad")
    parser.add_argument("--yes", action="store_true")
    args = parser.parse_args()
    via = ibkeys.ThroughOpenSM(args.sm_host, args.sudo)
    names = [line.strip() for line in args.list.read_text().splitlines() if line.strip()]
    with ibkeys.open(args.backend) as fabric:
        found = fabric.sweep()
        wanted = {f"0x{port.guid:016x}" for name in names for port in [found.port_of(name)]}
        present = members(fabric, args.partition, via)
        new = sorted(guid for guid in wanted if present.get(guid) != "full")
        old = sorted(present.keys() - wanted)
        print(*(f"+ {guid}" for guid in new), *(f"- {guid}" for guid in old), sep="\n")
        if not args.yes:
            return int(bool(new or old))
        results = []
        if new:
            results.append(fabric.partitions.add(args.partition, full=new, ipoib=None if present else True, via=via))
        if old:
            results.append(fabric.partitions.remove(args.partition.partition("=")[0], old, via=via))
    for outcome in (each for result in results for each in (*result.failed, *result.left)):
        print(f"not done: {outcome}", file=sys.stderr)
    return 0 if all(result.proven for result in results) else 3


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ibkeys.errors.Refused as error:
        print(error, file=sys.stderr)
        sys.exit(4)
    except ibkeys.errors.IbkeysError as error:
        print(error, file=sys.stderr)
        sys.exit(3)

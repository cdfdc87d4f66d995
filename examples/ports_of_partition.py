#!/usr/bin/env python3
"""List all end ports of a partition, with their membership, from the fabric or from a snapshot.

    ports_of_partition.py PARTITION [--backend umad | --from SNAPSHOT]

PARTITION is a number such as 0x8001 or 1; full and limited members are both listed. Exit status: 0 all ports were
read, 3 some were not.
"""

from __future__ import annotations

import argparse
import sys

import ibkeys


def main() -> int:
    """Print one line for each member, return the exit status."""
    parser = argparse.ArgumentParser(description="List all end ports of a partition.")
    parser.add_argument("partition", type=lambda text: int(text, 0) & 0x7FFF)
    parser.add_argument("--backend", default="umad")
    parser.add_argument("--from", dest="snapshot")
    args = parser.parse_args()
    source: ibkeys.Source = ibkeys.load(args.snapshot) if args.snapshot else ibkeys.open(args.backend)
    with source:
        topology = source.sweep(p_keys=True)
    for port in topology.end_ports():
        for key in port.p_keys or ():
            if key.partition == args.partition:
                print(f"{port.node.description}\tport {port.num}\tLID {port.lid}\t{key}\t{key.membership}")
    for trouble in topology.troubles:
        print(f"not read: {trouble.port}: {trouble.error}", file=sys.stderr)
    return 3 if topology.troubles else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ibkeys.errors.IbkeysError as error:
        print(error, file=sys.stderr)
        sys.exit(3)

#!/usr/bin/env python3
"""Say what changed between two snapshots, as `ibkeys snapshot` and `ibkeys.save` write them. Nothing is sent.

    compare_snapshots.py EARLIER LATER

Exit status: 0 nothing changed, 1 something did, 3 something could not be compared.
"""

from __future__ import annotations

import argparse
import sys

import ibkeys


def main() -> int:
    """Print one line for each difference, return the exit status."""
    parser = argparse.ArgumentParser(description="Say what changed between two snapshots.")
    parser.add_argument("earlier")
    parser.add_argument("later")
    args = parser.parse_args()
    with ibkeys.load(args.earlier) as earlier, ibkeys.load(args.later) as later:
        found = ibkeys.compare(earlier.snapshot, later.snapshot)
    for node in found.nodes_added:
        print(f"+ {node.description}")
    for node in found.nodes_removed:
        print(f"- {node.description}")
    for one, other in found.links_added:
        print(f"+ {one} - {other}")
    for one, other in found.links_removed:
        print(f"- {one} - {other}")
    for each in found.changes:
        print(f"{each.port}: {each.field or each.pkey or each.kind}: {each.before} -> {each.after}")
    for unknown in found.unknown:
        print(f"not compared: {unknown.port}: {unknown.what}: {unknown.why}", file=sys.stderr)
    if found.unknown:
        return 3
    return 1 if found.differs else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ibkeys.errors.IbkeysError as error:
        print(error, file=sys.stderr)
        sys.exit(3)

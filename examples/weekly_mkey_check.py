#!/usr/bin/env python3
"""Check the M_Keys of the whole fabric each week, against those of the week before; keep this week's for the next.

    weekly_mkey_check.py SNAPSHOT [--backend umad] [--security-keys DIR] [--profile cloud-secured]

SNAPSHOT holds the last week and is replaced by this one; in the first week it is made. No M_Key is in it, only
fingerprints. The rules are those of group MK: keys, protection, leases, violation counters that rose. Exit status: 0
all is well, 1 a rule fails, 3 something could not be read; the snapshot is kept in each case.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import ibkeys


def main() -> int:
    """Print what fails and how many ports are protected, return the exit status."""
    parser = argparse.ArgumentParser(description="Check the M_Keys of the whole fabric.")
    parser.add_argument("snapshot", type=Path)
    parser.add_argument("--backend", default="umad")
    parser.add_argument("--security-keys")
    parser.add_argument("--profile", choices=ibkeys.audit.PROFILES, default="cloud-secured")
    args = parser.parse_args()
    last_week = ibkeys.load(args.snapshot) if args.snapshot.exists() else None
    with ibkeys.open(args.backend, keys=ibkeys.Keys(security_keys=args.security_keys)) as fabric:
        this_week = fabric.take_snapshot()
    ibkeys.save(this_week, args.snapshot)
    with ibkeys.load(args.snapshot) as recorded:
        rules = ibkeys.audit.select(groups=["MK"])
        report = ibkeys.audit.run(recorded, rules=rules, profile=args.profile, baseline=last_week)
        states = [port.m_key_state for port in recorded.sweep().end_ports()]
    print(", ".join(f"{states.count(state)} {state}" for state in sorted(set(states))))
    failed = [result for result in report.results if result.result == "fail"]
    for result in failed:
        print(f"{result.rule} {result.severity}: {result.title}: {len(result.subjects)} ports")
    if not report.coverage.is_complete:
        return 3
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ibkeys.errors.IbkeysError as error:
        print(error, file=sys.stderr)
        sys.exit(3)

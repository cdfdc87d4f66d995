#!/usr/bin/env python3
"""Audit the fabric every night; print only what is wrong, so that cron sends mail only then.

    audit_in_cron.py [--backend umad] [--policy /etc/opensm/partitions.conf] [--waivers FILE]
                     [--profile cloud-secured] [--fail-on high]

Exit status: 0 nothing is wrong, 1 a rule fails at --fail-on or worse, 3 something could not be read or asked.
"""

from __future__ import annotations

import argparse
import sys

import ibkeys


def main() -> int:
    """Run the audit, print the findings, return the exit status."""
    parser = argparse.ArgumentParser(description="Audit the fabric; print what is wrong.")
    parser.add_argument("--backend", default="umad")
    parser.add_argument("--policy")
    parser.add_argument("--waivers")
    parser.add_argument("--profile", choices=ibkeys.audit.PROFILES, default="cloud-secured")
    parser.add_argument("--fail-on", choices=ibkeys.audit.SEVERITIES, default="high")
    args = parser.parse_args()
    with ibkeys.open(args.backend) as fabric:
        report = ibkeys.audit.run(fabric, profile=args.profile, policy=args.policy, waivers=args.waivers)
    if report.fails_at(args.fail_on):
        for result in report.results:
            for subject in result.subjects:
                if subject.result == "fail":
                    where = f"{subject.identity['node_desc']} port {subject.identity['port']}"
                    print(f"{result.rule} {subject.severity or result.severity}: {where}: {subject.message}")
    for trouble in report.coverage.troubles:
        print(f"not read: {trouble['node_desc']} port {trouble['port']}: {trouble['error']}")
    if not report.coverage.is_complete:
        return 3
    return 1 if report.fails_at(args.fail_on) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ibkeys.errors.IbkeysError as error:
        print(error, file=sys.stderr)
        sys.exit(3)

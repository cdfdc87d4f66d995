#!/usr/bin/env python3
"""Run an audit rule of one's own beside those of ibkeys: hosts with a certain name are limited members everywhere.

    own_audit_rule.py NAME [--backend umad | --from SNAPSHOT]

NAME is a pattern such as 'login*'. Exit status: 0 the rule passes, 1 it fails, 3 it cannot be told.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from fnmatch import fnmatchcase

import ibkeys
from ibkeys.audit import AuditInput, RuleVerdict


def only_limited(pattern: str) -> Callable[[AuditInput], RuleVerdict]:
    """Return the check for nodes whose name fits *pattern*."""

    def check(data: AuditInput) -> RuleVerdict:
        verdict = RuleVerdict.over_fabric(data)  # nodes that did not say who they are make it unknown
        hosts = [port for port in data.end_ports if fnmatchcase(port.node.description or "", pattern)]
        for port in verdict.with_tables(hosts):  # so do tables that were not read
            full = {index: key for index, key in port.occupied or () if key.is_full}
            if full:
                evidence = {"P_KeyTable": {str(index): str(key) for index, key in full.items()}}
                verdict.fail(port, f"{port} is a full member: {', '.join(map(str, full.values()))}", evidence)
            else:
                verdict.passed += 1
        return verdict

    return check


def main() -> int:
    """Print what the rule says, return the exit status."""
    parser = argparse.ArgumentParser(description="Hosts with a certain name are limited members everywhere.")
    parser.add_argument("name")
    parser.add_argument("--backend", default="umad")
    parser.add_argument("--from", dest="snapshot")
    args = parser.parse_args()
    rule = ibkeys.audit.Rule(
        id="PK900",
        title=f"{args.name} is a limited member of each partition",
        severity="high",
        evidence="P_KeyTable of the hosts with that name",
        why="a full member can talk to everybody in the partition",
        sources=(),
        remedy="make the host a limited member in partitions.conf",
        false_positives="a host that is meant to serve others",
        check=only_limited(args.name),
    )
    source: ibkeys.Source = ibkeys.load(args.snapshot) if args.snapshot else ibkeys.open(args.backend)
    with source:
        report = ibkeys.audit.run(source, rules=[rule])  # or [*ibkeys.audit.CATALOGUE, rule]
    [result] = report.results
    print(f"{result.rule}: {result.result}")
    for subject in result.subjects:
        print(f"  {subject.message}")
    return {"fail": 1, "unknown": 3}.get(result.result, 0)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ibkeys.errors.IbkeysError as error:
        print(error, file=sys.stderr)
        sys.exit(3)

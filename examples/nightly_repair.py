#!/usr/bin/env python3
"""Each night: look whether the fabric is as the policy says, and put back what is not, if that takes nothing away.

    nightly_repair.py POLICY [--via opensm|direct] [--sm-host HOST ...] [--sudo] [--backend umad]

A change that removes a P_Key, disconnects a pair for a moment, or that an interlock refuses is left to a person, and
so is an operation that is open. Exit status: 0 all is as the policy says, 1 a person has to look, 3 it is not known.
"""

from __future__ import annotations

import argparse
import sys

import ibkeys


def main() -> int:
    """Print what was changed and what was not, return the exit status."""
    parser = argparse.ArgumentParser(description="Put the fabric back to what its policy says.")
    parser.add_argument("policy")
    parser.add_argument("--via", choices=["opensm", "direct"], default="opensm")
    parser.add_argument("--sm-host", action="append", default=[], help="another host with an OpenSM; repeatable")
    parser.add_argument("--sudo", action="store_true", help="become root there by sudo")
    parser.add_argument("--backend", default="umad")
    args = parser.parse_args()
    via = ibkeys.Direct() if args.via == "direct" else ibkeys.ThroughOpenSM(args.sm_host, args.sudo)
    with ibkeys.open(args.backend) as fabric:
        for operation in fabric.operations(open_only=True):
            print(f"operation {operation.id} ({operation.command}) is open: {operation.next_command}")
            return 1
        plan = fabric.plan(args.policy)
        problems = [each for each in plan.problems if args.via == "direct" or each.kind != "active-sm"]
        for problem in problems:
            print(problem.message)
        try:
            result = fabric.apply(plan, via=via)  # without consent: each interlock refuses
        except ibkeys.errors.Refused as refusal:
            print(f"left to a person ({refusal.interlock}): {refusal}")
            return 1
    for outcome in (*result.failed, *result.left):
        print(f"not done: {outcome}")
    if result.changed:
        print(f"operation {result.operation}: {len(result.done)} ports were not as the policy says, and are again")
    return 0 if result.proven and not problems else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ibkeys.errors.IbkeysError as error:
        print(error, file=sys.stderr)
        sys.exit(3)

#!/usr/bin/env python3
"""Rotate the M_Keys of all ports through OpenSM; another person has to confirm that in time, in a shell of his own.

    rotate_m_keys.py [--sm-host HOST ...] [--sudo] [--protect LEVEL] [--lease S] [--within S] [--backend umad]

A level that was raised is lowered again without `ibkeys confirm ID` in time, also if this script dies; the new keys
stay, in the key store too. Where no level is raised, no confirmation is waited for. Exit status: 0 all ports have the
new key and level, and a user confirmed that; 3 not completed, 4 refused.
"""

from __future__ import annotations

import argparse
import sys

import ibkeys


def tell(step: ibkeys.Progress) -> None:
    """Tell who watches how far it is. While it waits this is a thread of its own: whoever is on duty could be called
    here, and what he says waited for and confirmed (`Operation.confirm`)."""
    if step.awaits_confirmation:
        print(f"waiting for: ibkeys confirm {step.operation}", flush=True)
    else:
        print(step, file=sys.stderr)


def consent(proposal: ibkeys.Proposal) -> ibkeys.Consent | None:
    """Agree to changes of M_Keys alone, whatever their questions are, and override no interlock."""
    print(f"{len(proposal.ports)} ports by {proposal.method}", *proposal.notes, sep="\n  ", file=sys.stderr)
    is_known = {change.kind for change in proposal.changes} <= {"m_key", "m_key_protect_bits", "m_key_lease_period"}
    return ibkeys.Consent() if is_known else None


def main() -> int:
    """Rotate the keys, print what was proven, return the exit status."""
    parser = argparse.ArgumentParser(description="Rotate the M_Keys of all ports through OpenSM.")
    parser.add_argument("--sm-host", action="append", default=[], help="another host with an OpenSM; repeatable")
    parser.add_argument("--sudo", action="store_true", help="become root there by sudo")
    parser.add_argument("--protect", type=int)
    parser.add_argument("--lease", type=int)
    parser.add_argument("--within", type=int, default=600)
    parser.add_argument("--backend", default="umad")
    args = parser.parse_args()
    with ibkeys.open(args.backend) as fabric:
        result = fabric.rotate_m_keys(
            protect=args.protect,
            lease=args.lease,
            via=ibkeys.ThroughOpenSM(args.sm_host, args.sudo),
            confirm_within=args.within,
            consent=consent,
            progress=tell,
        )
    print(f"operation {result.operation}: {len(result.done)} ports have their new key")
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

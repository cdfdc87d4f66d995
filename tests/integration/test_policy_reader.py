"""Mutated policies given to a real OpenSM: it takes those that ibkeys takes, and programs what ibkeys says."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ibkeys.partitions.membership import resolve
from ibkeys.partitions.model import UNPREDICTABLE_ERRORS
from ibkeys.partitions.opensm_tables import place
from ibkeys.partitions.reader import parse_policy
from tests.corpus import DATA
from tests.integration.ibsim import Ibsim
from tests.integration.reader import SM, TWO_SWITCH, tables
from tests.partitions.recordings import end_ports, subnet
from tests.sample import SOAK

GOOD = [path for path in sorted((DATA / "policies").glob("*.conf")) if path.stat().st_size < 1500]
WORDS = [
    *(
        "full",
        "limited",
        "both",
        "indx0",
        "ALL",
        "ALL_CAS",
        "SELF",
        "ALL_SWITCHES",
        "ALL_C",
        "S",
        "N",
        "Default",
        "ipoib",
    ),
    *("=", "=f", "=5", "defmember=full", "mtu=5", "0x7fff", "0x10", ",", " ", "#", "-", "0", "\n"),
    *("0x0002c903000a1021", "0x0002c903000a1031=full", "X=0x10, indx0 : ALL_CAS=both ;\n", "Y : SELF, ALL ;\n"),
]


NASTY = (";", ":", ",", "=", "#", "\n", "\r", "\0", "0x", "09", "ALL", "mgid=", "mgid", "ff12::", " ", "\t", "-", "é")


def broken(text: str, rng: random.Random) -> str:
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice((*NASTY, "")) + text[at + rng.randint(0, 8) :]
    return text


def change(text: str, rng: random.Random) -> str:
    """Break some policies, and let most of them mean something else."""
    if rng.random() < 0.15:
        return broken(text, rng)
    for _ in range(rng.randint(0, 3)):
        at = rng.choice([index for index, char in enumerate(text) if char in " ,=\n:;"]) + rng.choice([0, 1])
        text = text[:at] + rng.choice(WORDS) + text[at + rng.choice([0, 0, 0, 1, 3]) :]
    return text + rng.choice(GOOD).read_text() if rng.random() < 0.3 else text


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_opensm_takes_what_ibkeys_takes_and_programs_what_ibkeys_says(seed: int) -> None:
    rng = random.Random(seed)
    ports = end_ports(subnet(TWO_SWITCH))
    outcomes = {True: 0, False: 0}
    with Ibsim(TWO_SWITCH) as fabric:
        before = tables(fabric)
        for _ in range(500 if SOAK else 25):
            text = change(rng.choice(GOOD).read_text(), rng)
            allow_both = rng.random() < 0.3
            policy = parse_policy(text)
            path = fabric.folder / "changed.conf"
            path.write_text(text)
            if {error.code for error in policy.errors} & {*UNPREDICTABLE_ERRORS, "bad-mgid"}:  # at bad-mgid it crashes
                continue
            fabric.opensm(f"allow_both_pkeys {'TRUE' if allow_both else 'FALSE'}\n", Path(path))
            after = tables(fabric)
            found = resolve(policy, ports, SM, allow_both, emulate_fallback=True)
            said = {
                port.guid: place(
                    before[port.guid],
                    found.by_port[port.guid],
                    8 if port.kind == "switch" else 64,
                    found.index0.get(port.guid),
                    allow_both=allow_both,
                ).entries
                for port in ports
            }
            assert after == said, text
            outcomes[policy.accepted] += 1
            before = after
    assert all(count >= 5 for count in outcomes.values())

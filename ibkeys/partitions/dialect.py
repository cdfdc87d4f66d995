"""Words of a policy that another OpenSM than upstream's may know, so that they cannot be checked.

NVIDIA's OpenSM has keywords that upstream refuses. ``ALL_VCAS`` is one that was reported; no list of them is public,
and none was observed. Such a word is neither accepted nor refused here: it is not checked, and the ports it means are
not known.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final, Literal

from ibkeys.keys.pkey import PARTITION_MASK
from ibkeys.partitions.model import Policy, PolicyProblem
from ibkeys.printable import shortened

Dialect = Literal["opensm", "nvidia"]
NOT_CHECKED: Final = "not-checked"
_KEYWORD: Final = re.compile(rb"[A-Z][A-Z0-9_]*[A-Z0-9](?=\s*(?:[=,;]|$))")


def in_dialect(policy: Policy, dialect: Dialect) -> Policy:
    """Return *policy* as OpenSM of *dialect* reads it.

    For NVIDIA's OpenSM, words like keywords that upstream does not know are warnings and no errors, and the partitions
    in which they occur are left open.
    """
    if dialect == "opensm":
        return policy
    unknown = {error: word for error in policy.errors if (word := _keyword_at(policy, error))}
    if not unknown:
        return policy
    remarks = [
        PolicyProblem(
            error.line,
            error.column,
            "warning",
            NOT_CHECKED,
            f"{shortened(word)} is not a keyword of upstream OpenSM, perhaps one of NVIDIA's: it is not checked, "
            "and which ports it selects is not known",
        )
        for error, word in unknown.items()
    ]
    open_ones = {_partition_at(policy, error) for error in unknown}
    says = policy.says if policy.says is not None else frozenset(range(1, PARTITION_MASK + 1))
    return replace(
        policy,
        errors=tuple(error for error in policy.errors if error not in unknown),
        warnings=tuple(sorted([*policy.warnings, *remarks])),
        says=says - open_ones,
    )


def _keyword_at(policy: Policy, error: PolicyProblem) -> str | None:
    """Return the word in capitals at the position of *error*; None for any other mistake."""
    if error.code != "bad-guid" or policy.data is None:
        return None
    lines = policy.data.split(b"\n")
    if error.line > len(lines):
        return None
    found = _KEYWORD.match(lines[error.line - 1], error.column - 1)
    return found[0].decode() if found else None


def _partition_at(policy: Policy, error: PolicyProblem) -> int:
    before = [each for each in policy.definitions if (each.line, each.column) <= (error.line, error.column)]
    return before[-1].base if before else 0

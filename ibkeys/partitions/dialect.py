"""Reading a policy for NVIDIA's OpenSM, which knows keywords that upstream's OpenSM refuses.

``ALL_VCAS`` is such a keyword by reports. No list of them is public, and none was observed. So a word that looks like
such a keyword is neither accepted nor refused: it cannot be checked, and the ports that it selects are not known.
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

    For NVIDIA's OpenSM, a word in capitals that upstream's does not know is a warning instead of an error, and the
    members of its partition count as not known (`Policy.leaves_open`).
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
    open_partitions = {_partition_at(policy, error) for error in unknown}
    stated = policy.says if policy.says is not None else frozenset(range(1, PARTITION_MASK + 1))
    return replace(
        policy,
        errors=tuple(error for error in policy.errors if error not in unknown),
        warnings=tuple(sorted([*policy.warnings, *remarks])),
        says=stated - open_partitions,
    )


def _keyword_at(policy: Policy, error: PolicyProblem) -> str | None:
    """Return the word in capitals at the position of *error*; None if there is no such word, or *error* is of another
    kind."""
    if error.code != "bad-guid" or policy.data is None:
        return None
    lines = policy.data.split(b"\n")
    if error.line > len(lines):
        return None
    match = _KEYWORD.match(lines[error.line - 1], error.column - 1)
    return match[0].decode() if match else None


def _partition_at(policy: Policy, error: PolicyProblem) -> int:
    """Return the number of the partition in whose definition *error* is, 0 if it is before the first definition."""
    before = [each for each in policy.definitions if (each.line, each.column) <= (error.line, error.column)]
    return before[-1].base if before else 0

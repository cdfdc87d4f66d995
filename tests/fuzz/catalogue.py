"""All targets, by name."""

from __future__ import annotations

from ibkeys.errors import UsageError
from tests.fuzz.target import Target
from tests.fuzz.targets import databases, hostile, imports, mads, policies, remote, simulator, texts

TARGETS: dict[str, Target] = {
    each.name: each
    for of in (mads, policies, texts, imports, databases, remote, simulator, hostile)
    for each in of.TARGETS
}


def target(name: str) -> Target:
    """Return a target. Raises UsageError."""
    if name not in TARGETS:
        raise UsageError(f"no target of the fuzzing is called {name!r}; there are {', '.join(TARGETS)}")
    return TARGETS[name]

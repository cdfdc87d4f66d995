"""All checks, in the order of the report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ibkeys.hardware.check import Check, Finding, made, not_checked
from ibkeys.hardware.checks import (
    answers,
    class_keys,
    counters,
    host,
    left_out,
    managers,
    nodes,
    timing,
    traps,
    virtual_ports,
)
from ibkeys.hardware.look import Look
from ibkeys.hardware.programs import beside

_SUBJECTS: Final = (
    host,
    nodes,
    answers,
    timing,
    counters,
    managers,
    class_keys,
    traps,
    virtual_ports,
    beside,
    left_out,
)
CHECKS: Final[tuple[Check, ...]] = tuple(each for subject in _SUBJECTS for each in subject.CHECKS)


def all_findings(look: Look) -> Iterator[Finding]:
    """Make all checks, one after the other. Nothing is changed. Raises what is no IbkeysError."""
    for each in CHECKS:
        yield made(each, look)


def none_made(why: str) -> list[Finding]:
    """Return all checks as not made, for one reason."""
    return [each.found(not_checked(why)) for each in CHECKS]

"""All checks, in the order of the report."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Final

from ibkeys.hardware.check import DeviceCheck, Finding, checks_in, make_check, not_checked
from ibkeys.hardware.checks import (
    answers,
    class_keys,
    counters,
    host,
    infiniband_diags,
    left_out,
    managers,
    nodes,
    timing,
    traps,
    virtual_ports,
)
from ibkeys.hardware.reading import FabricReading


def _checks_in(*modules: ModuleType) -> Iterator[DeviceCheck]:
    return (each for module in modules for each in checks_in(vars(module)))


CHECKS: Final[tuple[DeviceCheck, ...]] = (
    *_checks_in(host, nodes, answers, timing, counters, managers),
    *class_keys.CHECKS,
    *_checks_in(traps, virtual_ports),
    *infiniband_diags.CHECKS,
    *left_out.CHECKS,
)


def all_findings(reading: FabricReading) -> Iterator[Finding]:
    """Make all checks, one after the other, and yield their findings. Nothing in the fabric is changed, and no
    IbkeysError is raised."""
    for each in CHECKS:
        yield make_check(each, reading)


def none_checked(why: str) -> list[Finding]:
    """Return for every check the finding that it was not made. *why*: the reason in words."""
    return [each.finding(not_checked(why)) for each in CHECKS]

"""Audit rules over a snapshot: mistakes in the keys of a fabric, data that could not be read, and remedies.

For scripts: `run` makes the `Report` of an open fabric or a snapshot. `select` chooses rules of the `CATALOGUE`. A
script may add a `Rule` of its own: a function that takes an `AuditInput` and returns a `RuleVerdict`. The id of such a
rule is the letters of a group (`GROUPS`) and a number of 900 or more, which ibkeys itself never uses. The names of this
package are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibkeys.lazily import lazy_getattr

if TYPE_CHECKING:
    from ibkeys.audit.auditing import run
    from ibkeys.audit.catalogue import CATALOGUE, rule_named, select
    from ibkeys.audit.findings import GROUPS, PROFILES, SEVERITIES, Report, RuleResult, Subject
    from ibkeys.audit.inputs import AuditInput, Thresholds
    from ibkeys.audit.rule import Rule, RuleVerdict
    from ibkeys.audit.waivers import Waivers, read_waivers

__all__ = [
    "CATALOGUE",
    "GROUPS",
    "PROFILES",
    "SEVERITIES",
    "AuditInput",
    "Report",
    "Rule",
    "RuleResult",
    "RuleVerdict",
    "Subject",
    "Thresholds",
    "Waivers",
    "read_waivers",
    "rule_named",
    "run",
    "select",
]

_MODULES = {
    "audit.auditing": ("run",),
    "audit.catalogue": ("CATALOGUE", "rule_named", "select"),
    "audit.findings": ("GROUPS", "PROFILES", "Report", "RuleResult", "SEVERITIES", "Subject"),
    "audit.inputs": ("AuditInput", "Thresholds"),
    "audit.rule": ("Rule", "RuleVerdict"),
    "audit.waivers": ("Waivers", "read_waivers"),
}
"""Module → the names that are loaded from it when they are first used."""


__getattr__ = lazy_getattr(__name__, _MODULES)

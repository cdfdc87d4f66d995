"""Audit rules over a snapshot: mistakes in the keys of a fabric, data that could not be read, and remedies.

For scripts: `run` makes the `Report` of an open fabric or a snapshot; `select` chooses rules of the `CATALOGUE`; a
`Rule` of your own is a function from `AuditInput` to `RuleVerdict`, whose id is the letters of a group (`GROUPS`) and a
number from 900: ibkeys uses no numbers from 900. The names are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibkeys.lazily import loads

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


__getattr__ = loads(__name__, _MODULES)

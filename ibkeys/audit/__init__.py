"""Audit rules over a snapshot: what is wrong with a fabric's keys, what could not be read, and the remedies.

For scripts: `run` makes the `Report` of an open fabric or a snapshot; `select` chooses rules of the `CATALOGUE`; a
`Rule` of one's own is a function from `AuditInput` to `Verdict`, whose id is the letters of a group (`GROUPS`) and
a number from 900: ibkeys has none there. The names are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ibkeys.audit.auditing import run
    from ibkeys.audit.catalogue import CATALOGUE, rule_named, select
    from ibkeys.audit.findings import GROUPS, PROFILES, SEVERITIES, Report, RuleResult, Subject
    from ibkeys.audit.inputs import AuditInput, Thresholds
    from ibkeys.audit.rule import Rule, Verdict
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
    "Subject",
    "Thresholds",
    "Verdict",
    "Waivers",
    "read_waivers",
    "rule_named",
    "run",
    "select",
]

_HOMES = {
    "CATALOGUE": "catalogue",
    "rule_named": "catalogue",
    "select": "catalogue",
    "AuditInput": "inputs",
    "Thresholds": "inputs",
    "Rule": "rule",
    "Verdict": "rule",
    "run": "auditing",
    "Waivers": "waivers",
    "read_waivers": "waivers",
}
"""Name → module; all others are of `findings`."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = import_module(f"{__name__}.{_HOMES.get(name, 'findings')}")
    value = globals()[name] = getattr(home, name)
    return value

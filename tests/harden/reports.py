"""Audit reports to harden by."""

from __future__ import annotations

from ibkeys.audit.findings import Coverage, Report, Result, RuleResult, Severity


def report(*found: tuple[str, Severity, Result]) -> Report:
    """Return a report with these rules, severities and results."""
    results = [
        RuleResult(rule, rule[:2], f"title of {rule}", how, what, f"remedy of {rule}") for rule, how, what in found
    ]
    return Report("cloud-secured", "2026-11-22T12:00:00Z", "a port", None, results, Coverage(1, 1, 1, 0, 0))

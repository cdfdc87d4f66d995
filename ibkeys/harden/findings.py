"""The hardening step for each audit finding, and the report on findings that no step fixes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from ibkeys.audit.findings import SEVERITIES, Report, RuleResult, Severity

StepName = Literal["folders", "sm-keys", "enforcement", "partitions", "new-m-key", "m-keys", "key-files"]

STEP_OF_RULE: Final[Mapping[str, StepName]] = {
    "KF001": "key-files",
    "SE001": "enforcement",
    "SM002": "sm-keys",
    "MK001": "m-keys",
    "MK002": "m-keys",
    "MK003": "m-keys",
    "MK005": "m-keys",
    "MK007": "new-m-key",
    "PK001": "partitions",
    "PK002": "partitions",
    "PK003": "partitions",
    "PK004": "partitions",
    "PK005": "partitions",
    "PK014": "partitions",
}
"""Rule → the step that fixes it. A hardening cannot fix findings of other rules."""

_WHY_NOT_MADE: Final[Mapping[StepName, str]] = {
    "partitions": "P_Keys change only with a policy",
}
"""Step → why it is not made unless the user requests it."""


@dataclass(frozen=True, slots=True)
class RemainingFinding:
    """A finding that remains after a hardening.

    ``finding``: a rule that fails, or that is unknown because a step was not requested; ``is_fixable``: whether a step
    of this hardening can fix it; ``remedy``: how to fix it, or why its result is not known.
    """

    finding: RuleResult
    is_fixable: bool
    remedy: str

    def to_json(self) -> dict[str, Any]:
        """Return the finding for the JSON document of `ibkeys harden`."""
        return {
            "rule": self.finding.rule,
            "title": self.finding.title,
            "severity": self.finding.severity,
            "result": self.finding.result,
            "in_power": self.is_fixable,
            "to_do": self.remedy,
        }


def failing_rules(report: Report, severity: Severity) -> list[RuleResult]:
    """Return the rules that fail with *severity* or worse, in the order of the catalogue."""
    return [each for each in _severe(report, severity) if each.result == "fail"]


def rules_by_step(findings: Collection[RuleResult]) -> dict[StepName, tuple[str, ...]]:
    """Return a mapping from each step to those rules of *findings* that it fixes."""
    rules: dict[StepName, tuple[str, ...]] = {}
    for each in findings:
        step = STEP_OF_RULE.get(each.rule)
        if step is not None:
            rules[step] = (*rules.get(step, ()), each.rule)
    return rules


def remaining_findings(report: Report, severity: Severity, steps: Collection[StepName]) -> list[RemainingFinding]:
    """Return the findings with *severity* or worse that remain: of rules that fail, and of rules that are unknown
    because a step was not requested.

    *steps*: the steps that the user's options allow.
    """
    return [
        _remaining_finding(each, steps)
        for each in _severe(report, severity)
        if each.result == "fail" or (each.result == "unknown" and _why_not_made(each, steps))
    ]


def _severe(report: Report, severity: Severity) -> list[RuleResult]:
    worst = SEVERITIES[: SEVERITIES.index(severity) + 1]
    return [each for each in report.results if each.severity in worst]


def _why_not_made(finding: RuleResult, steps: Collection[StepName]) -> str | None:
    """Return why the step for a finding is not among *steps*; None if it is, or if no option would add it."""
    step = STEP_OF_RULE.get(finding.rule)
    return None if step is None or step in steps else _WHY_NOT_MADE.get(step)


def _remaining_finding(finding: RuleResult, steps: Collection[StepName]) -> RemainingFinding:
    why_not_made = _why_not_made(finding, steps)
    if why_not_made is None:
        return RemainingFinding(finding, STEP_OF_RULE.get(finding.rule) in steps, finding.remedy)
    is_failed = finding.result == "fail"
    remedy = f"{why_not_made}. {finding.remedy}" if is_failed else f"not known: {why_not_made}"
    return RemainingFinding(finding, False, remedy)

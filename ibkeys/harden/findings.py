"""The hardening step for each audit finding, and the report on findings that no step fixes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from ibkeys.audit.findings import SEVERITIES, Report, RuleResult, Severity

StepName = Literal["folders", "sm-keys", "enforcement", "partitions", "new-m-key", "m-keys", "key-files"]

MENDED_BY: Final[Mapping[str, StepName]] = {
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

_WITHOUT: Final[Mapping[StepName, str]] = {
    "partitions": "P_Keys change only with a policy",
}
"""Step → why it is not made, if it was not requested."""


@dataclass(frozen=True, slots=True)
class RemainingFinding:
    """A finding that remains.

    ``finding``: a rule that fails, or that cannot be judged without an input of a step; ``in_power``: whether a step of
    this hardening fixes it; ``why``: the remedy.
    """

    finding: RuleResult
    in_power: bool
    why: str

    def to_json(self) -> dict[str, Any]:
        """Return the finding as the JSON document has it."""
        found = self.finding
        return {
            "rule": found.rule,
            "title": found.title,
            "severity": found.severity,
            "result": found.result,
            "in_power": self.in_power,
            "to_do": self.why,
        }


def failing(report: Report, severity: Severity) -> list[RuleResult]:
    """Return the rules that fail with *severity* or worse, in the order of the catalogue."""
    return [each for each in _severe(report, severity) if each.result == "fail"]


def by_step(findings: Collection[RuleResult]) -> dict[StepName, tuple[str, ...]]:
    """Return for each step the rules whose findings it fixes."""
    found: dict[StepName, tuple[str, ...]] = {}
    for each in findings:
        step = MENDED_BY.get(each.rule)
        if step is not None:
            found[step] = (*found.get(step, ()), each.rule)
    return found


def remaining_findings(report: Report, severity: Severity, steps: Collection[StepName]) -> list[RemainingFinding]:
    """Return the findings that remain: of rules that fail, and of rules that are unknown because a step was not
    requested.

    *steps*: those that the user's options allow.
    """
    return [
        _left(each, steps)
        for each in _severe(report, severity)
        if each.result == "fail" or (each.result == "unknown" and _why_not_made(each, steps))
    ]


def _severe(report: Report, severity: Severity) -> list[RuleResult]:
    worst = SEVERITIES[: SEVERITIES.index(severity) + 1]
    return [each for each in report.results if each.severity in worst]


def _why_not_made(finding: RuleResult, steps: Collection[StepName]) -> str | None:
    """Return why the step for a finding is not among *steps*, None if no option of the user would change that."""
    step = MENDED_BY.get(finding.rule)
    return None if step is None or step in steps else _WITHOUT.get(step)


def _left(finding: RuleResult, steps: Collection[StepName]) -> RemainingFinding:
    without = _why_not_made(finding, steps)
    if without is None:
        return RemainingFinding(finding, MENDED_BY.get(finding.rule) in steps, finding.remedy)
    return RemainingFinding(
        finding, False, f"{without}. {finding.remedy}" if finding.result == "fail" else f"not known: {without}"
    )

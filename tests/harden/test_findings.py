"""Which findings call for which step, and what is said of the others."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from ibkeys.audit.catalogue import CATALOGUE
from ibkeys.audit.findings import SEVERITIES, Result, Severity
from ibkeys.harden.findings import STEP_OF_RULE, failing_rules, remaining_findings, rules_by_step
from ibkeys.harden.hardening import STEPS
from tests.harden.reports import report

ALL = frozenset(step.name for step in STEPS)


def test_every_rule_of_the_table_is_in_the_catalogue_and_every_step_of_it_is_made() -> None:
    assert STEP_OF_RULE.keys() <= {rule.id for rule in CATALOGUE}
    assert set(STEP_OF_RULE.values()) <= ALL


def test_every_step_is_called_for_by_a_rule_or_serves_one_that_is() -> None:
    assert all(step.name in STEP_OF_RULE.values() or (step.serves <= ALL and step.serves) for step in STEPS)


def test_only_what_fails_with_that_severity_calls_for_a_step() -> None:
    found = report(("MK001", "critical", "fail"), ("SE001", "medium", "fail"), ("MK002", "high", "unknown"))
    assert rules_by_step(failing_rules(found, "high")) == {"m-keys": ("MK001",)}
    assert rules_by_step(failing_rules(found, "medium")) == {"m-keys": ("MK001",), "enforcement": ("SE001",)}


def test_rules_of_one_step_are_named_together() -> None:
    found = report(("MK002", "high", "fail"), ("MK005", "high", "fail"))
    assert rules_by_step(failing_rules(found, "high")) == {"m-keys": ("MK002", "MK005")}


def test_a_finding_that_no_step_is_for_is_left_with_its_remedy() -> None:
    [left] = remaining_findings(report(("QK003", "high", "fail")), "high", ALL)
    assert (left.finding.rule, left.is_fixable, left.remedy) == ("QK003", False, "remedy of QK003")


def test_without_a_policy_p_keys_are_not_in_its_power() -> None:
    found = report(("PK001", "high", "fail"), ("PK014", "critical", "unknown"), ("SM001", "critical", "unknown"))
    without = remaining_findings(found, "high", ALL - {"partitions"})
    assert [(each.finding.rule, each.is_fixable) for each in without] == [("PK001", False), ("PK014", False)]
    assert all("only with a policy" in each.remedy for each in without)
    assert [(each.finding.rule, each.is_fixable) for each in remaining_findings(found, "high", ALL)] == [
        ("PK001", True)
    ]


RESULTS: Iterable[Result] = ("pass", "fail", "unknown", "n/a", "waived")


@given(
    st.lists(
        st.tuples(
            st.sampled_from([rule.id for rule in CATALOGUE]), st.sampled_from(SEVERITIES), st.sampled_from(RESULTS)
        ),
        unique_by=lambda each: each[0],
    ),
    st.sampled_from(SEVERITIES),
    st.sets(st.sampled_from(sorted(ALL))),
)
def test_every_failure_is_left_once_and_calls_for_its_step(
    found: list[tuple[str, Severity, Result]], severity: Severity, steps: set[str]
) -> None:
    made = report(*found)
    worse = failing_rules(made, severity)
    left = remaining_findings(made, severity, steps)  # type: ignore[arg-type]
    assert [each.finding for each in left if each.finding.result == "fail"] == worse
    called = [rule for rules in rules_by_step(worse).values() for rule in rules]
    assert sorted(called) == sorted(each.rule for each in worse if each.rule in STEP_OF_RULE)
    assert all(each.is_fixable == (STEP_OF_RULE.get(each.finding.rule) in steps) for each in left)

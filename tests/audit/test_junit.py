"""JUnit, read back by junitparser."""

from __future__ import annotations

import pytest
from junitparser import Error, Failure, JUnitXml, Skipped, TestCase

from ibkeys.audit.findings import SEVERITIES, Severity
from ibkeys.audit.formats.junit import COVERAGE, render_junit
from tests.audit.reports import NASTY, TEXTS, coverage, large, report, rule, small, subject


def cases(xml: str) -> dict[str, TestCase]:
    """Return the test cases as a reader finds them, by rule."""
    return {case.name.split()[0]: case for suite in JUnitXml.fromstring(xml.encode()) for case in suite}


def kinds(case: TestCase) -> list[type]:
    return [type(each) for each in case.result]


def test_every_rule_is_a_test_case_in_the_suite_of_its_group() -> None:
    audit = small()
    suites = {
        suite.name: [case.name.split()[0] for case in suite]
        for suite in JUnitXml.fromstring(render_junit(audit).encode())
    }
    assert suites.pop(COVERAGE) == ["everything"]
    assert [id for ids in suites.values() for id in ids] == [each.rule for each in audit.results]
    assert all(id[:2] == name[:2] for name, ids in suites.items() for id in ids)


def test_results_are_read_back_as_failure_skip_and_pass() -> None:
    audit = small()
    found = cases(render_junit(audit, fail_on="info"))
    wanted = {"fail": [Failure], "pass": [], "unknown": [Skipped], "waived": [Skipped], "n/a": [Skipped]}
    assert {each.rule: kinds(found[each.rule]) for each in audit.results} == {
        each.rule: wanted[each.result] for each in audit.results
    }


@pytest.mark.parametrize("fail_on", [*SEVERITIES, None])
def test_only_what_makes_the_exit_status_1_is_a_failure(fail_on: Severity | None) -> None:
    audit = small()
    found = cases(render_junit(audit, TEXTS, fail_on=fail_on))
    failed = {each.rule for each in audit.results if kinds(found[each.rule]) == [Failure]}
    at_least = SEVERITIES[: SEVERITIES.index(fail_on) + 1] if fail_on is not None else ()
    assert failed == {each.rule for each in audit.results if each.result == "fail" and each.severity in at_least}
    assert bool(failed) == audit.fails_at(fail_on)
    for each in audit.results:
        if each.result == "fail" and each.rule not in failed:
            assert kinds(found[each.rule]) == [], "a test that passes"
            first, *lines = found[each.rule].system_out.splitlines()
            assert first.startswith(f"{each.severity}: ")
            least = "nothing" if fail_on is None else f"only what is {fail_on} or worse"
            assert first.endswith(f"(does not fail the build: {least} does)")
            assert all(any(one.message in line for line in lines) for one in each.subjects)


def test_a_failure_has_one_line_for_each_subject() -> None:
    audit = large(300)
    found = cases(render_junit(audit, fail_on="info"))
    for each in audit.results:
        if each.result == "fail":
            lines = found[each.rule].result[0].text.splitlines()
            assert [line for line in lines if "0x0002c903" in line] == [
                f"'{one.identity['node_desc']}' {one.identity['node_guid']} port 1: {one.message}"
                for one in each.subjects
            ]


def test_unknown_and_waived_subjects_of_a_failing_rule_are_told_apart() -> None:
    lines = cases(render_junit(small(), TEXTS))["PK001"].result[0].text.splitlines()
    assert [line.split("'")[0] for line in lines[:3]] == ["", "unknown: ", "waived: "]
    assert lines[2].endswith("(the old storage: until 2027-01-31)")
    assert lines[3].startswith("why: ")
    assert lines[4].startswith("remedy: ")


def test_a_skip_gives_the_reason() -> None:
    skip = cases(render_junit(small()))["QK001"].result[0]
    assert skip.message == "unknown: no earlier snapshot to compare with: give --baseline FILE"


def test_an_unknown_rule_without_a_note_names_its_subjects() -> None:
    audit = report(rule("MK003", "unknown", subject(8, "unknown", "PortInfo was not read")))
    assert "host0008" in cases(render_junit(audit))["MK003"].result[0].message


def test_an_incomplete_audit_is_an_error_even_when_every_rule_passes() -> None:
    xml = JUnitXml.fromstring(render_junit(report(coverage=coverage("no reply"))).encode())
    assert (xml.failures, xml.errors) == (0, 1)
    (error,) = cases(render_junit(report(coverage=coverage("no reply"))))["everything"].result
    assert isinstance(error, Error)
    assert "host0900" in error.text


def test_a_complete_audit_passes_its_coverage() -> None:
    assert kinds(cases(render_junit(report()))["everything"]) == []


def test_the_totals_are_those_that_a_reader_counts() -> None:
    said = JUnitXml.fromstring(render_junit(small()).encode())
    counted = JUnitXml.fromstring(render_junit(small()).encode())
    counted.update_statistics()
    for suite, other in zip(said, counted, strict=True):
        other.update_statistics()
        assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (
            (other.tests, other.failures, other.errors, other.skipped)
        )
    assert (said.tests, said.failures, said.errors, said.skipped) == (21, 2, 1, 5)


def test_hostile_text_stays_text() -> None:
    audit = report(rule("MK001", "fail", subject(1, name=NASTY, message=NASTY)), source=NASTY)
    line = cases(render_junit(audit))["MK001"].result[0].text.splitlines()[0]
    assert "<script>" in line
    assert "\\u202e" in line
    assert line.isprintable()

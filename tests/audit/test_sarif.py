"""SARIF, read back by sarif-pydantic."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from pydantic import BaseModel
from sarif_pydantic import Level, Sarif

from ibkeys.audit.findings import Report
from ibkeys.audit.formats.sarif import FINGERPRINT, KINDS, LEVELS, render_sarif
from tests.audit.reports import NASTY, TEXTS, coverage, identity, large, report, rule, small, subject


def document(audit: Report, exit_code: int = 1) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(render_sarif(audit, TEXTS, version="1.2.3", exit_code=exit_code))
    return loaded


def read(audit: Report) -> Any:
    """Return the one run as the public reader sees it."""
    (run,) = Sarif.model_validate(document(audit)).runs
    return run


@pytest.mark.parametrize("audit", [small(), large(300), report()], ids=["small", "large", "clean"])
def test_the_same_findings_are_read_back(audit: Report) -> None:
    run = read(audit)
    found = [
        (
            each.rule_id,
            each.kind,
            [where.logical_locations[0].fully_qualified_name for where in each.locations or ()],
        )
        for each in run.results
        if each.locations
    ]
    assert found == [
        (each.rule, KINDS[one.result], [f"{one.identity['node_guid']}/{one.identity['port']}"])
        for each in audit.results
        for one in each.subjects
    ]
    without = [(each.rule_id, each.kind) for each in run.results if not each.locations]
    assert without == [(each.rule, KINDS[each.result]) for each in audit.results if not each.subjects]


def unknown_to_the_reader(model: BaseModel) -> set[str]:
    """Return the names of properties, at any depth, that the reader does not know."""
    names = set(model.model_extra or {})
    for value in dict(model).values():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, BaseModel):
                names |= unknown_to_the_reader(each)
    return names


def test_no_property_is_misspelt() -> None:
    # these are of the standard (of invocation, result, toolComponent) and missing in the reader's model
    of_the_standard = {"exitCode", "toolExecutionNotifications", "suppressions", "shortDescription"}
    assert unknown_to_the_reader(read(small())) == of_the_standard


def test_only_failures_have_a_level() -> None:
    for each in read(small()).results:
        assert (each.level is Level.NONE) == (each.kind != "fail")


def test_a_subject_has_its_own_severity_where_it_differs() -> None:
    audit = report(rule("SE001", "fail", subject(1), subject(2, severity="medium")))
    levels = [each.level for each in read(audit).results if each.rule_id == "SE001"]
    assert levels == [Level.ERROR, Level.WARNING]


def test_the_rules_are_described() -> None:
    audit = small()
    for each, written in zip(audit.results, read(audit).tool.driver.rules, strict=True):
        assert (written.id, written.short_description.text) == (each.rule, each.title)
        assert written.full_description.text == TEXTS[each.rule]["why"]
        assert written.default_configuration.level == LEVELS[each.severity]
        assert each.remedy in written.help.text
        assert (written.properties["severity"], written.properties["profile"]) == (each.severity, "cloud-secured")


def test_a_result_points_to_its_rule() -> None:
    run = read(small())
    assert all(run.tool.driver.rules[each.rule_index].id == each.rule_id for each in run.results)


def test_a_waived_finding_is_a_suppressed_failure() -> None:
    waived = [each for each in document(small())["runs"][0]["results"] if "suppressions" in each]
    assert [each["ruleId"] for each in waived] == ["PK001", "HY002"]
    assert waived[0]["suppressions"] == [
        {"kind": "external", "status": "accepted", "justification": "the old storage: until 2027-01-31"}
    ]


def test_the_invocation_succeeds_only_when_all_was_read() -> None:
    (whole,) = document(report(), exit_code=0)["runs"][0]["invocations"]
    assert (whole["executionSuccessful"], whole["exitCode"], whole["toolExecutionNotifications"]) == (True, 0, [])
    (part,) = document(report(coverage=coverage("no reply")), exit_code=3)["runs"][0]["invocations"]
    assert (part["executionSuccessful"], part["exitCode"]) == (False, 3)
    (notice,) = part["toolExecutionNotifications"]
    assert notice["message"]["text"].endswith("no reply")
    assert notice["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == "0x0002c90300000384/1"
    assert read(report()).invocations[0].execution_successful


def fingerprints(audit: Report) -> list[str]:
    return [each.partial_fingerprints[FINGERPRINT] for each in read(audit).results]


def test_fingerprints_are_the_same_in_the_next_run_whatever_was_read() -> None:
    before = report(rule("QK001", "fail", subject(1, message="4 violations"), subject(2, message="1 violation")))
    after = report(
        rule("QK001", "fail", subject(1, message="9 violations", time="2026-11-21T09:30:00Z"), subject(2)),
        taken="2026-11-21T09:30:00Z",
        source="other.ibkeys",
    )
    assert fingerprints(before) == fingerprints(after)


def test_fingerprints_differ_between_findings() -> None:
    entries = [subject(1, message=f"entry {index} is 0x8000") for index in (3, 4)]
    audit = report(rule("PK007", "fail", *entries, subject(2)), rule("MK001", "fail", subject(1), subject(2)))
    assert max(Counter(fingerprints(audit)).values()) == 1


def test_a_file_has_no_location() -> None:
    host = subject(0, message="/etc/opensm/guid2mkey can be read by others")
    nobody = dict.fromkeys(identity(0))
    audit = report(rule("KF001", "fail", type(host)(nobody, "fail", host.message)))
    (found,) = [each for each in read(audit).results if each.rule_id == "KF001"]
    assert found.locations is None
    assert "guid2mkey" in found.message.text


def test_hostile_text_is_shown_escaped() -> None:
    audit = report(rule("MK001", "fail", subject(1, name=NASTY, message=NASTY)))
    text = read(audit).results[0].message.text
    assert text.isprintable()
    assert "\\x1b" in text

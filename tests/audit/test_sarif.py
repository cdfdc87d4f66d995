"""SARIF, read back by sarif-pydantic."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from sarif_pydantic import Level, Sarif

from ibkeys.audit.findings import Report, Subject
from ibkeys.audit.formats.sarif import FINGERPRINTS, LEVELS, render_sarif
from tests.audit.reports import NASTY, TEXTS, coverage, identity, large, report, rule, small, subject


def document(audit: Report, exit_code: int = 1) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(render_sarif(audit, TEXTS, version="1.2.3", exit_code=exit_code))
    return loaded


def read(audit: Report) -> Any:
    """Return the one run as the public reader sees it."""
    (run,) = Sarif.model_validate(document(audit)).runs
    return run


@pytest.mark.parametrize("audit", [small(), large(300), report()], ids=["small", "large", "clean"])
def test_what_fails_is_read_back_and_nothing_else(audit: Report) -> None:
    # a code-scanning view makes an alert of each result, whatever its kind and whether it is suppressed
    found = [
        (each.rule_id, each.kind, each.locations[0].logical_locations[0].fully_qualified_name)
        for each in read(audit).results
    ]
    assert sorted(found) == sorted(
        (each.rule, "fail", f"{one.identity['node_guid']}/{one.identity['port']}")
        for each in audit.results
        for one in each.subjects
        if one.result == "fail"
    )


def uri_and_line(found: dict[str, Any]) -> tuple[str, int]:
    (location,) = found["locations"]
    place = location["physicalLocation"]
    return place["artifactLocation"]["uri"], place["region"]["startLine"]


def results(audit: Report, root: str = "") -> list[dict[str, Any]]:
    log = json.loads(render_sarif(audit, TEXTS, version="1.2.3", exit_code=1, root=root))
    found: list[dict[str, Any]] = log["runs"][0]["results"]
    return found


@pytest.mark.parametrize("audit", [small(), large(300)], ids=["small", "large"])
def test_each_result_has_what_code_scanning_asks_for(audit: Report) -> None:
    """docs.github.com, "SARIF support for code scanning": the properties that it lists as required."""
    log = document(audit)
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-2.1.0.json")
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    for each in rules:
        assert each["id"]
        assert 0 < len(each["shortDescription"]["text"]) <= 1024
        assert 0 < len(each["fullDescription"]["text"]) <= 1024
        assert each["help"]["text"]
        assert each["help"]["markdown"]
        assert 0 < float(each["properties"]["security-severity"]) <= 10
        assert "security" in each["properties"]["tags"]
        assert len(each["properties"]["tags"]) <= 20
    assert run["results"]
    for each in run["results"]:
        assert rules[each["ruleIndex"]]["id"] == each["ruleId"]
        assert each["message"]["text"]
        assert each["level"] in ("error", "warning", "note")
        assert each["partialFingerprints"]["primaryLocationLineHash"]
        uri, line = uri_and_line(each)
        assert re.fullmatch(r"[A-Za-z0-9._~/%-]+", uri)
        assert not uri.startswith("/")
        assert line >= 1


def test_a_port_stands_at_the_same_path_whatever_node_and_snapshot_are_called() -> None:
    before = report(rule("MK001", "fail", subject(1)), source="monday.db")
    after = report(rule("MK001", "fail", subject(1, name="renamed")), source="tuesday.db")
    assert uri_and_line(results(before)[0]) == ("fabric/0x0002c90300000001/port-1", 1)
    assert uri_and_line(results(after)[0]) == ("fabric/0x0002c90300000001/port-1", 1)


@pytest.mark.parametrize(
    ("path", "root", "uri"),
    [
        ("ib/partitions.conf", "/srv/checkout", "ib/partitions.conf"),
        ("/srv/checkout/ib/partitions.conf", "/srv/checkout", "ib/partitions.conf"),
        ("../ours & theirs.conf", "/srv/checkout", "host/srv/ours%20%26%20theirs.conf"),
        ("/etc/opensm/partitions.conf", "/srv/checkout", "host/etc/opensm/partitions.conf"),
        ("/etc/opensm/partitions.conf", "/", "etc/opensm/partitions.conf"),
        ("/etc/opensm/partitions.conf", "", "host/etc/opensm/partitions.conf"),
        ("partitions.conf", "", "partitions.conf"),
        ("bad\udcff.conf", "", "bad%FF.conf"),
    ],
)
def test_what_a_line_of_the_policy_decides_stands_there(path: str, root: str, uri: str) -> None:
    evidence = {"P_KeyTable": {"0": "0xffff"}, "policy": {"file": path, "line": 7}}
    (found,) = results(report(rule("PK002", "fail", subject(1, evidence=evidence))), root)
    assert uri_and_line(found) == (uri, 7)
    assert found["locations"][0]["logicalLocations"][0]["name"] == "port 1", "the port is named as well"


@given(st.text(min_size=1), st.sampled_from(["", "/", "/srv/a b"]))
def test_any_path_is_a_relative_reference(path: str, root: str) -> None:
    evidence = {"file": {"path": path}}
    (found,) = results(report(rule("KF001", "fail", subject(1, evidence=evidence))), root)
    assert re.fullmatch(r"(?!/|\.\./)[A-Za-z0-9._~/%-]+", uri_and_line(found)[0])


def test_the_worst_come_first_and_no_more_than_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    audit = report(
        rule("PK007", "fail", subject(1), subject(2)),
        rule("MK003", "fail", subject(3)),
        rule("MK001", "fail", subject(4)),
    )
    assert [each["level"] for each in results(audit)] == ["error", "warning", "note", "note"]
    monkeypatch.setattr("ibkeys.audit.formats.sarif.MOST", 3)
    assert [each["ruleId"] for each in results(audit)] == ["MK001", "MK003", "PK007"]
    (notice,) = document(audit)["runs"][0]["invocations"][0]["toolExecutionNotifications"]
    assert notice["descriptor"]["id"] == "left-out"
    assert notice["message"]["text"].startswith("1 result left out")


def test_a_rule_without_an_answer_is_a_notification() -> None:
    (invocation,) = document(small())["runs"][0]["invocations"]
    notices = [each for each in invocation["toolExecutionNotifications"] if each["descriptor"]["id"] == "unknown"]
    unknown = [each.rule for each in small().results if each.result == "unknown"]
    assert [each["associatedRule"]["id"] for each in notices] == sorted({*unknown, "PK001"}, key=order)
    assert "no earlier snapshot to compare with" in next(
        each["message"]["text"] for each in notices if each["associatedRule"]["id"] == "QK001"
    )


def order(rule: str) -> int:
    return [each.rule for each in small().results].index(rule)


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
    of_the_standard = {"exitCode", "toolExecutionNotifications", "shortDescription"}
    assert unknown_to_the_reader(read(small())) == of_the_standard


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


def test_what_is_waived_is_told_with_its_rule() -> None:
    (run,) = document(small())["runs"]
    waived = {each["id"]: each["properties"]["waived"] for each in run["tool"]["driver"]["rules"]}
    assert [rule for rule, texts in waived.items() if texts] == ["PK001", "HY002"]
    (text,) = waived["PK001"]
    assert text.startswith("'host0003 mlx5_0' 0x0002c90300000003 port 1: full member")
    assert text.endswith("(the old storage: until 2027-01-31)")


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
    return [each.partial_fingerprints[FINGERPRINTS[0]] for each in read(audit).results]


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


def test_a_file_of_the_host_and_the_whole_fabric_have_a_place() -> None:
    nobody = dict.fromkeys(identity(0))
    message = "/etc/opensm/guid2mkey can be read by others"
    evidence = {"file": {"path": "/etc/opensm/guid2mkey"}}
    audit = report(
        rule("KF001", "fail", Subject(nobody, "fail", message, evidence)),
        rule("SM001", "fail", Subject(nobody, "fail", "two masters")),
    )
    places = {each["ruleId"]: uri_and_line(each) for each in results(audit)}
    assert places == {"KF001": ("host/etc/opensm/guid2mkey", 1), "SM001": ("fabric", 1)}


def test_hostile_text_is_shown_escaped() -> None:
    audit = report(rule("MK001", "fail", subject(1, name=NASTY, message=NASTY)))
    text = read(audit).results[0].message.text
    assert text.isprintable()
    assert "\\x1b" in text

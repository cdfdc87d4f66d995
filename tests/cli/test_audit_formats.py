"""``audit -f junit|sarif|html``: one report, one exit code, whatever its form."""

from __future__ import annotations

import json
import sys
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.conftest import KEY, Cli

FORMS = ("table", "json", "csv", "junit", "sarif", "html")


@pytest.fixture
def snapshot(cli: Cli, tmp_path: Path) -> Path:
    file = tmp_path / "whole.db"
    assert cli("snapshot", file).code == 0
    return file


@pytest.fixture
def partial(cli: Cli, key_file: Path, tmp_path: Path) -> Path:
    """A snapshot that lacks one node: it is silent to who has no key."""
    assert cli("mkey-set", 2, "--new-m-key", f"@{key_file}", "--protect", 2, "--lease", 60, "--yes").code == 0
    file = tmp_path / "partial.db"
    assert cli("snapshot", file, "--keystore", tmp_path / "empty", "-t", 10).code == 3
    return file


@pytest.mark.parametrize(("fail_on", "code"), [("critical", 1), ("never", 0)])
def test_the_exit_code_is_the_same_in_every_form(cli: Cli, snapshot: Path, fail_on: str, code: int) -> None:
    args = ("audit", "--from", snapshot, "--fail-on", fail_on)
    assert {form: cli(*args, "-f", form).code for form in FORMS} == dict.fromkeys(FORMS, code)
    (run,) = cli(*args, "-f", "sarif").json["runs"]
    assert run["invocations"][0]["exitCode"] == code
    assert run["invocations"][0]["executionSuccessful"]


@pytest.mark.parametrize("fail_on", ["critical", "high", "medium", "low", "info", "never"])
@pytest.mark.parametrize("check", ["MK001", "PK001", "PK011", "QK001", "HY003"])
def test_junit_is_red_when_the_exit_code_says_no(cli: Cli, snapshot: Path, check: str, fail_on: str) -> None:
    args = ("audit", "--from", snapshot, "--check", check, "--fail-on", fail_on, "-f", "junit")
    result = cli(*args)
    suites = ElementTree.fromstring(result.out).attrib
    assert (result.code, suites["errors"]) == (int(suites["failures"]) and 1, "0")


def test_a_finding_that_a_line_of_the_policy_decides_stands_there_in_sarif(cli: Cli, tmp_path: Path) -> None:
    policy = tmp_path / "ours.conf"
    policy.write_text("Default=0x7fff : ALL=full ;\n\nblue=0x21 : 0x0002c903000a1021=full ;\n")
    (run,) = cli("audit", "--policy", policy, "--check", "PK003", "-f", "sarif").json["runs"]
    (found,) = run["results"]
    place = found["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"].endswith("/ours.conf")
    assert place["region"]["startLine"] == 3


def test_every_form_has_the_same_results(cli: Cli, snapshot: Path) -> None:
    def ask(form: str) -> str:
        return cli("audit", "--from", snapshot, "-f", form).out

    results = json.loads(ask("json"))["results"]
    failed = {each["rule"] for each in results if each["result"] == "fail"}
    assert failed >= {"MK001", "PK001"}
    (run,) = json.loads(ask("sarif"))["runs"]
    assert {each["ruleId"] for each in run["results"]} == failed
    assert [each["id"] for each in run["tool"]["driver"]["rules"]] == [each["rule"] for each in results]
    cases = {case.attrib["name"].split()[0]: case for case in ElementTree.fromstring(ask("junit")).iter("testcase")}
    grave = {each["rule"] for each in results if each["rule"] in failed and each["severity"] in ("critical", "high")}
    assert {rule for rule, case in cases.items() if case.find("failure") is not None} == grave
    assert {rule for rule, case in cases.items() if case.find("system-out") is not None} == failed - grave
    page = ask("html")
    assert page.startswith("<!doctype html>")
    assert all(f'id="{rule}"' in page for rule in failed)


def test_every_rule_has_what_a_code_scanning_view_shows(cli: Cli, snapshot: Path) -> None:
    (run,) = cli("audit", "--from", snapshot, "-f", "sarif").json["runs"]
    for rule in run["tool"]["driver"]["rules"]:
        assert max(len(rule["shortDescription"]["text"]), len(rule["fullDescription"]["text"])) <= 1024, rule["id"]
        assert rule["help"]["text"].startswith("Why: ")
        assert len(rule["name"]) <= 255
    for found in run["results"]:
        place = found["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"].startswith(("fabric/0x", "host/"))


def test_the_rules_texts_are_in_the_report(cli: Cli, snapshot: Path) -> None:
    explained = cli("audit", "--explain", "MK001", "-f", "json").json
    for form in ("junit", "html", "sarif"):
        args = ("audit", "--from", snapshot, "--check", "MK001", "-f", form)
        text = unescape(cli(*args).out)
        assert explained["why"] in text
        assert explained["remedy"] in text
        assert explained["remedy"] not in unescape(cli(*args, "--no-remedy").out)


def test_what_was_not_read_is_green_nowhere_and_exit_3(cli: Cli, partial: Path) -> None:
    for form in FORMS:
        assert cli("audit", "--from", partial, "--fail-on", "never", "-f", form).code == 3
    args = ("audit", "--from", partial, "--fail-on", "never", "-f")
    (invocation,) = cli(*args, "sarif").json["runs"][0]["invocations"]
    assert (invocation["exitCode"], invocation["executionSuccessful"]) == (3, False)
    assert [each["descriptor"]["id"] for each in invocation["toolExecutionNotifications"]].count("not-read") == 1
    assert ElementTree.fromstring(cli(*args, "junit").out).attrib["errors"] == "1"
    assert "<strong>Incomplete: no verdict</strong>" in cli(*args, "html").out


def test_no_form_shows_an_m_key(cli: Cli, key_file: Path) -> None:
    assert cli("mkey-set", 2, "--new-m-key", f"@{key_file}", "--protect", 0, "--yes").code == 0
    for form in FORMS:
        assert f"{KEY:x}" not in cli("audit", "-f", form).out.lower()


def test_a_missing_jinja2_is_one_line_and_the_other_forms_work(
    cli: Cli, snapshot: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    result = cli("audit", "--from", snapshot, "-f", "html")
    assert (result.code, result.out) == (2, "")
    assert result.error.endswith(" -m pip install jinja2")
    assert cli("audit", "--from", snapshot, "-f", "junit").code == 1

"""JUnit XML: one suite for each group, one test case for each rule, as CI systems show it.

A rule that fails at ``--fail-on`` or worse is a failure with one line for each port. A rule that fails with a lower
severity passes, with the same lines in its output. So these test cases fail only when the exit status is 1, or 3
because not everything could be read. A rule that is unknown, is waived or does not apply is skipped, with the reason:
such a result is neither a failure nor a pass. Data that could not be read are an error in a suite of their own, so an
audit of half a fabric (exit status 3) never shows as passed. JUnit has no schema that all readers share; this module
uses the elements that Jenkins and GitLab read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from xml.etree import ElementTree

from ibkeys.audit.findings import GROUPS, Report, RuleResult, Severity
from ibkeys.audit.formats import words
from ibkeys.audit.formats.words import Texts
from ibkeys.printable import clean

COVERAGE: Final = "coverage"
"""The suite that fails if something was not read."""


def render_junit(report: Report, texts: Texts | None = None, *, fail_on: Severity | None = "high") -> str:
    """Return *report* as JUnit XML.

    ``texts``: the explanations of each rule; a failure shows its ``why``. ``fail_on``: the severity from which the
    audit fails, None for never.
    """
    part = f", {report.looked_at}" if report.looked_at is not None else ""
    root = ElementTree.Element("testsuites", name=f"ibkeys audit{part}")
    for group, title in GROUPS.items():
        members = [each for each in report.results if each.group == group]
        if members:
            suite = _suite(root, report, f"{group} {title}")
            for result in members:
                _rule(suite, result, texts or {}, fail_on)
    _coverage(_suite(root, report, COVERAGE), report)
    _count(root)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _suite(root: ElementTree.Element, report: Report, name: str) -> ElementTree.Element:
    # timestamp is xs:dateTime without a zone in the schemas in use
    suite = ElementTree.SubElement(root, "testsuite", name=name, timestamp=clean(report.taken.removesuffix("Z")))
    properties = ElementTree.SubElement(suite, "properties")
    for key, value in (("profile", report.profile), ("source", report.subject_matter), ("policy", report.policy)):
        if value is not None:
            ElementTree.SubElement(properties, "property", name=key, value=clean(value))
    return suite


def _rule(suite: ElementTree.Element, result: RuleResult, texts: Texts, fail_on: Severity | None) -> None:
    case = ElementTree.SubElement(
        suite, "testcase", classname=f"ibkeys.{result.group}", name=clean(f"{result.rule} {result.title}"), time="0"
    )
    if result.result == "pass":
        return
    message = f"{result.severity}: {words.summary(result)}"
    if result.fails_at(fail_on):
        element = ElementTree.SubElement(case, "failure", type=result.severity, message=message)
        element.text = "\n".join(_lines(result, texts))
    elif result.result == "fail":
        below = f"does not fail the build: {'nothing' if fail_on is None else f'only what is {fail_on} or worse'} does"
        element = ElementTree.SubElement(case, "system-out")
        element.text = "\n".join([f"{message} ({below})", *_lines(result, texts)])
    else:
        what = "not applicable" if result.result == "n/a" else result.result
        reason = result.note or "; ".join(map(words.finding_line, result.subjects))
        ElementTree.SubElement(case, "skipped", message=clean(f"{what}: {reason}" if reason else what))


def _lines(result: RuleResult, texts: Texts) -> Iterator[str]:
    """Yield one line for each subject, those that fail first, then the rule's reason and remedy."""
    for word in ("fail", "unknown", "waived"):
        for subject in words.subjects(result, word):
            yield f"{'' if word == 'fail' else word + ': '}{words.finding_line(subject)}"
    why = texts.get(result.rule, {}).get("why")
    if why:
        yield clean(f"why: {why}")
    if result.remedy:
        yield clean(f"remedy: {result.remedy}")


def _coverage(suite: ElementTree.Element, report: Report) -> None:
    case = ElementTree.SubElement(
        suite, "testcase", classname="ibkeys.coverage", name="everything that should have been read was", time="0"
    )
    coverage = report.coverage
    if not coverage.is_complete:
        element = ElementTree.SubElement(case, "error", type="incomplete")
        element.set(
            "message",
            f"{words.count(len(coverage.troubles), 'thing')} could not be read: {coverage.unreadable} of "
            f"{words.count(coverage.ports, 'port')} unreadable, {coverage.silent} silent",
        )
        element.text = "\n".join(map(words.trouble_text, coverage.troubles))


def _count(root: ElementTree.Element) -> None:
    """Write the totals into every suite and the root."""
    for element in (root, *root):
        element.set("tests", str(len(list(element.iter("testcase")))))
        for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            element.set(attribute, str(len(list(element.iter(tag)))))
        element.set("time", "0")

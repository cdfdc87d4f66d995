"""SARIF 2.1.0 (OASIS, 27 March 2020), as GitHub's code scanning takes it ("SARIF support for code scanning").

One result for each subject that fails, and for each rule that fails as a whole, the worst first. A code-scanning view
makes an alert of every result, whatever
its ``kind`` and whether it is suppressed. So subjects that pass, do not apply or are waived are counted in the
properties of their rule, and unknown ones, like data that could not be read, are notifications of the invocation. The
invocation was successful if everything was read that should have been, and the exit status is 0 or 1.

Every result has a place in a file, which views need: a line of the policy where that decides (`places.py`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ibkeys.audit.findings import GROUPS, SEVERITIES, Report, RuleResult, Severity, Subject
from ibkeys.audit.formats import words
from ibkeys.audit.formats.places import location_of, logical_location
from ibkeys.audit.formats.words import Texts
from ibkeys.printable import clean

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS: Final[Mapping[Severity, str]] = {
    "critical": "error",
    "high": "error",
    "medium": "warning",
    "low": "note",
    "info": "note",
}
FINGERPRINTS: Final = ("ibkeysSubject/v1", "primaryLocationLineHash")
"""The finding's name between runs: rule, port, and which of several at that port it is; GitHub reads the second one."""
NOT_READ: Final = "not-read"
"""The notification for data that could not be read."""
UNKNOWN: Final = "unknown"
"""The notification for a rule without an answer."""
LEFT_OUT: Final = "left-out"
"""The notification for more results than are taken."""
MOST: Final = 25_000
"""Results of one run: GitHub refuses a file with more."""
_NOTIFICATIONS: Final[Mapping[str, str]] = {
    NOT_READ: "Something that should have been read could not be read",
    UNKNOWN: "A rule has no answer for some or all ports; that does not count as a pass",
    LEFT_OUT: "There are more results than a code-scanning view accepts",
}

_SCORES: Final[Mapping[Severity, str]] = {
    "critical": "9.5",
    "high": "8.0",
    "medium": "5.5",
    "low": "3.0",
    "info": "0.1",
}  # security-severity, by which GitHub sorts: the middle of the CVSS range that has the word; 0.0 would be none at all
_UTC: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def render_sarif(report: Report, texts: Texts | None = None, *, version: str, exit_code: int, root: str = "") -> str:
    """Return *report* as a SARIF log.

    ``texts``: the explanations of each rule; ``version``: of ibkeys; ``exit_code``: the exit status of the command;
    ``root``: the directory that paths of files are relative to.
    """
    found = sorted(_failures(report), key=lambda one: SEVERITIES.index(one.severity))
    run = {
        "tool": {"driver": _driver(report, texts or {}, version)},
        # a part is another kind of run: it must not end the alerts of the ports that it does not look at
        "automationDetails": {"id": f"ibkeys/audit/{report.profile}/{'part/' if report.looked_at else ''}"},
        "invocations": [_invocation(report, exit_code, max(len(found) - MOST, 0))],
        "properties": {
            "profile": report.profile,
            "policy": report.policy,
            "taken": report.taken,
            "source": report.source,
            "looked_at": report.looked_at.to_json() if report.looked_at is not None else None,
            "summary": report.summary,
            "coverage": {name: value for name, value in report.coverage.to_json().items() if name != "troubles"},
        },
    }
    # One line for each result keeps large files small, and grep finds it.
    results = ",\n".join(json.dumps(_result(one, root)) for one in found[:MOST])
    head = json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}).removesuffix("}]}")
    return f'{head}, "results": [\n{results}\n]}}]}}\n'


def _driver(report: Report, texts: Texts, version: str) -> dict[str, Any]:
    return {
        "name": "ibkeys",
        "fullName": f"ibkeys audit {version}",
        "version": version,
        "shortDescription": {"text": "Audits the P_Keys, M_Keys and Q_Keys of an InfiniBand fabric"},
        "rules": [_rule(result, report, texts.get(result.rule, {})) for result in report.results],
        "notifications": [{"id": id, "shortDescription": {"text": text}} for id, text in _NOTIFICATIONS.items()],
    }


def _rule(result: RuleResult, report: Report, text: Mapping[str, Any]) -> dict[str, Any]:
    why = clean(str(text.get("why") or result.title))
    parts = [
        ("Why", why),
        ("Evidence", text.get("evidence")),
        ("Remedy", result.remedy),
        ("Known false positives", text.get("false_positives")),
        ("Sources", "; ".join(words.sources_of(text))),
    ]
    sections = [(heading, clean(str(body))) for heading, body in parts if body]
    return {
        "id": result.rule,
        "name": "".join(word[:1].upper() + word[1:] for word in re.findall(r"\w+", result.title)),
        "shortDescription": {"text": clean(result.title)},
        "fullDescription": {"text": why},
        "help": {
            "text": "\n".join(f"{heading}: {body}" for heading, body in sections),
            "markdown": "\n\n".join(f"**{heading}:** {body}" for heading, body in sections),
        },
        "defaultConfiguration": {"level": LEVELS[result.severity]},
        "properties": {
            "severity": result.severity,
            "profile": report.profile,
            "group": result.group,
            "result": result.result,
            "passed": result.passed,
            "note": clean(result.note) or None,
            "waived": [*map(words.finding_line, words.subjects(result, "waived"))],
            "security-severity": _SCORES[result.severity],
            "tags": ["security", "infiniband", GROUPS[result.group]],
        },
    }


# --- rules without a finding ------------------------------------------------------------------------------------------


def _invocation(report: Report, exit_code: int, left_out: int) -> dict[str, Any]:
    return {
        # the exit codes 0 and 1 are results of a complete audit; all other codes mean that it was not completed
        "executionSuccessful": report.coverage.is_complete and exit_code in (0, 1),
        "exitCode": exit_code,
        # when the fabric was read: an audit of a snapshot describes the fabric at that time
        **({"startTimeUtc": report.taken} if _UTC.fullmatch(report.taken) else {}),
        "toolExecutionNotifications": list(_notifications(report, left_out)),
    }


def _notification(id: str, level: str, text: str) -> dict[str, Any]:
    return {
        "descriptor": {"id": id, "index": list(_NOTIFICATIONS).index(id)},
        "level": level,
        "message": {"text": text},
    }


def _notifications(report: Report, left_out: int) -> Iterator[dict[str, Any]]:
    """Yield a notification for each thing that could not be read, for each rule with an unknown result, and one if
    results were left out."""
    for trouble in report.coverage.troubles:
        location = logical_location(trouble)
        places = {"locations": [location]} if location else {}
        yield _notification(NOT_READ, "error", words.trouble_text(trouble)) | places
    for index, result in enumerate(report.results):
        if result.result == "unknown" or words.subjects(result, "unknown"):
            reasons = "; ".join(words.unknown_reasons(result, "see the other notifications"))
            text = clean(f"{result.rule} {result.title}: unknown: {reasons}")
            yield _notification(UNKNOWN, "warning", text) | {"associatedRule": {"id": result.rule, "index": index}}
    if left_out:
        text = f"{words.count(left_out, 'result')} left out, the least severe: GitHub takes {MOST:,}; -f json has all"
        yield _notification(LEFT_OUT, "warning", text)


# --- findings ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Failure:
    """A subject that fails: its rule, the rule's ``index`` among all, and the parts of its fingerprint (``called``).

    ``subject`` None: a rule that fails without naming any.
    """

    result: RuleResult
    index: int
    subject: Subject | None
    called: tuple[str, ...]

    @property
    def severity(self) -> Severity:
        return words.severity_of(self.subject, self.result) if self.subject is not None else self.result.severity


def _failures(report: Report) -> Iterator[_Failure]:
    for index, result in enumerate(report.results):
        counts: Counter[str] = Counter()
        for subject in words.subjects(result, "fail"):
            # the only identity of a file is its name, with which the message begins
            name = words.qualified_name(subject.identity) or subject.message
            counts[name] += 1
            yield _Failure(result, index, subject, (result.rule, name, str(counts[name])))
        if result.result == "fail" and not result.subjects:
            yield _Failure(result, index, None, (result.rule,))


def _result(one: _Failure, root: str) -> dict[str, Any]:
    subject, rule = one.subject, one.result
    message = _message(subject) if subject is not None else clean(f"{rule.title}: {words.summary(rule)}")
    document = subject.to_json() if subject is not None else {}
    read = {name: value for name, value in document.items() if name in ("evidence", "time", "m_key_used")}
    return {
        "ruleId": rule.rule,
        "ruleIndex": one.index,
        "kind": "fail",
        "level": LEVELS[one.severity],
        "message": {"text": message},
        "locations": [location_of(subject, root)],
        "partialFingerprints": dict.fromkeys(FINGERPRINTS, _digest(one.called)),
        "properties": {"severity": one.severity, **read},
    }


def _message(subject: Subject) -> str:
    """Return the message of a finding, then its place: viewers group messages that begin with the same words."""
    at = words.place(subject.identity)
    return clean(subject.message if at == words.FABRIC_OR_HOST else f"{subject.message} ({at})")


def _digest(parts: tuple[str, ...]) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "backslashreplace")).hexdigest()[:32]

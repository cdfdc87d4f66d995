"""SARIF 2.1.0 (OASIS, 27 March 2020): findings for code-scanning views and security dashboards.

One result for each subject, and one for each rule that has none. ``kind`` is the truth (3.27.9): ``fail``, ``open``
for what is unknown, ``pass``, ``notApplicable``; ``level`` is none for all but ``fail`` (3.27.10). A waived finding is
a suppressed failure. The invocation was successful when everything was read that should have been.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ibkeys.audit.findings import GROUPS, Report, Result, RuleResult, Severity, Subject
from ibkeys.audit.formats import words
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
KINDS: Final[Mapping[Result, str]] = {
    "fail": "fail",
    "waived": "fail",
    "unknown": "open",
    "pass": "pass",
    "n/a": "notApplicable",
}
FINGERPRINT: Final = "ibkeysSubject/v1"
"""The finding's name between runs: rule, port, and which of several at that port it is."""
NOT_READ: Final = "not-read"
"""The notification for what could not be read."""

_SCORES: Final[Mapping[Severity, str]] = {
    "critical": "9.5",
    "high": "8.0",
    "medium": "5.5",
    "low": "3.0",
    "info": "0.0",
}  # security-severity, by which GitHub sorts: the middle of the CVSS range that has the word
_UTC: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def render_sarif(report: Report, texts: Texts | None = None, *, version: str, exit_code: int) -> str:
    """Return *report* as a SARIF log. ``texts``: what there is to say of each rule; ``version``: of ibkeys;
    ``exit_code``: with which the command ends."""
    run = {
        "tool": {"driver": _driver(report, texts or {}, version)},
        # a part is another kind of run: it must not end the alerts of the ports that it does not look at
        "automationDetails": {"id": f"ibkeys/audit/{report.profile}/{'part/' if report.looked_at else ''}"},
        "invocations": [_invocation(report, exit_code)],
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
    # one line for each result: very many stay small, and grep finds them
    results = ",\n".join(map(json.dumps, _results(report)))
    head = json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}).removesuffix("}]}")
    return f'{head}, "results": [\n{results}\n]}}]}}\n'


def _driver(report: Report, texts: Texts, version: str) -> dict[str, Any]:
    return {
        "name": "ibkeys",
        "fullName": f"ibkeys audit {version}",
        "version": version,
        "shortDescription": {"text": "Audits the P_Keys, M_Keys and Q_Keys of an InfiniBand fabric"},
        "rules": [_rule(result, report, words.texts_of(texts, result.rule)) for result in report.results],
        "notifications": [
            {"id": NOT_READ, "shortDescription": {"text": "Something that should have been read could not be"}}
        ],
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
    said = [(heading, clean(str(body))) for heading, body in parts if body]
    return {
        "id": result.rule,
        "name": "".join(word[:1].upper() + word[1:] for word in re.findall(r"\w+", result.title)),
        "shortDescription": {"text": clean(result.title)},
        "fullDescription": {"text": why},
        "help": {
            "text": "\n".join(f"{heading}: {body}" for heading, body in said),
            "markdown": "\n\n".join(f"**{heading}:** {body}" for heading, body in said),
        },
        "defaultConfiguration": {"level": LEVELS[result.severity]},
        "properties": {
            "severity": result.severity,
            "profile": report.profile,
            "group": result.group,
            "result": result.result,
            "passed": result.passed,
            "note": clean(result.note),
            "security-severity": _SCORES[result.severity],
            "tags": ["security", "infiniband", GROUPS[result.group]],
        },
    }


def _invocation(report: Report, exit_code: int) -> dict[str, Any]:
    return {
        # 0 and 1 are answers; anything else, and an audit of half a fabric, is not
        "executionSuccessful": report.coverage.is_complete and exit_code in (0, 1),
        "exitCode": exit_code,
        # when the fabric was read: an audit of a snapshot is made of what was true then
        **({"startTimeUtc": report.taken} if _UTC.fullmatch(report.taken) else {}),
        "toolExecutionNotifications": [
            {
                "descriptor": {"id": NOT_READ, "index": 0},
                "level": "error",
                "message": {"text": words.trouble_text(trouble)},
                **_locations(trouble),
            }
            for trouble in report.coverage.troubles
        ],
    }


def _results(report: Report) -> Iterator[dict[str, Any]]:
    for index, result in enumerate(report.results):
        counts: dict[str, int] = {}
        for subject in result.subjects:
            yield _of_subject(subject, result, index, counts)
        if not result.subjects:
            yield {
                "ruleId": result.rule,
                "ruleIndex": index,
                "kind": KINDS[result.result],
                "level": LEVELS[result.severity] if result.result == "fail" else "none",
                "message": {"text": clean(f"{result.title}: {words.summary(result)}")},
                "partialFingerprints": {FINGERPRINT: _digest(result.rule)},
            }


def _of_subject(subject: Subject, result: RuleResult, index: int, counts: dict[str, int]) -> dict[str, Any]:
    kind = KINDS[subject.result]
    severity = words.severity_of(subject, result)
    # a file has no identity but its name, which the message begins with
    name = words.qualified_name(subject.identity) or subject.message
    counts[name] = counts.get(name, 0) + 1
    return {
        "ruleId": result.rule,
        "ruleIndex": index,
        "kind": kind,
        "level": LEVELS[severity] if kind == "fail" else "none",
        "message": {"text": _message(subject)},
        **_locations(subject.identity),
        "partialFingerprints": {FINGERPRINT: _digest(result.rule, name, str(counts[name]))},
        **({"suppressions": [_suppression(subject)]} if subject.result == "waived" else {}),
        "properties": {
            "severity": severity,
            "evidence": {attribute: dict(fields) for attribute, fields in subject.evidence.items()},
            "time": subject.time,
            "m_key_used": subject.m_key_used,
        },
    }


def _message(subject: Subject) -> str:
    """Return what was found, then where: viewers put together what begins with the same words."""
    at = words.place(subject.identity)
    return clean(subject.message if at == words.FABRIC_OR_HOST else f"{subject.message} ({at})")


def _suppression(subject: Subject) -> dict[str, str]:
    return {"kind": "external", "status": "accepted", "justification": clean(subject.waiver or "waived")}


def _locations(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return the logical location of a port, as ``node_guid/port``; nothing for what is none."""
    name = words.qualified_name(identity)
    if name is None:
        return {}
    port = identity.get("port")
    location = {
        "name": "node" if port is None else f"port {port}",
        "fullyQualifiedName": name,
        "kind": "node" if port is None else "port",
    }
    known = {key: identity.get(key) for key in ("node_desc", "node_type", "port_guid", "lid")}
    return {"locations": [{"logicalLocations": [location], "properties": known}]}


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "backslashreplace")).hexdigest()[:32]

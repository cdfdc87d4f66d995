"""The audit: run rules over one input, apply waivers, make the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ibkeys.audit.catalogue import CATALOGUE
from ibkeys.audit.findings import SEVERITIES, Coverage, Profile, Report, Result, RuleResult, Severity, Subject
from ibkeys.audit.inputs import AuditInput
from ibkeys.audit.rule import NO_IDENTITY, Draft, Rule, Verdict
from ibkeys.audit.waivers import Waivers
from ibkeys.topology.model import Trouble

DEFAULT_PROFILE: Final[Profile] = "cloud-secured"


def audit(
    data: AuditInput,
    profile: Profile = DEFAULT_PROFILE,
    rules: Sequence[Rule] = CATALOGUE,
    waivers: Waivers | None = None,
    source: str = "",
) -> Report:
    """Run *rules* and return the report. *source*: the snapshot file, or the local port, that the fabric was read from.

    Nothing is sent, and nothing is raised: what cannot be told is unknown.
    """
    results = [_result(rule, rule.check(data), profile, waivers or Waivers()) for rule in rules]
    return Report(
        profile,
        data.snapshot.about.finished,
        source,
        data.policy.path if data.policy is not None else None,
        results,
        coverage_of(data),
        _partitions(data),
        data.inbound_check,
        data.moves.moved if data.baseline is not None else None,
    )


def _result(rule: Rule, verdict: Verdict, profile: Profile, waivers: Waivers) -> RuleResult:
    subjects = [_subject(rule, draft, verdict.data, profile, waivers) for draft in verdict.drafts]
    failed = [subject.severity or rule.severity_in(profile) for subject in subjects if subject.result == "fail"]
    return RuleResult(
        rule.id,
        rule.group,
        rule.title,
        min(failed, key=SEVERITIES.index) if failed else rule.severity_in(profile),
        _of_all(verdict, subjects),
        rule.remedy,
        subjects,
        verdict.passed,
        verdict.note,
    )


def _of_all(verdict: Verdict, subjects: Sequence[Subject]) -> Result:
    """Return what the rule says of the fabric: the worst that it says of a subject."""
    results = {subject.result for subject in subjects}
    if "fail" in results:
        return "fail"
    if "unknown" in results or verdict.unknown_as_a_whole:
        return "unknown"
    if "waived" in results:
        return "waived"
    return "pass" if verdict.passed else "n/a"


def _subject(rule: Rule, draft: Draft, data: AuditInput, profile: Profile, waivers: Waivers) -> Subject:
    waiver = waivers.find(rule.id, draft)
    port = draft.port
    severity: Severity | None = rule.severity_in(profile, draft.severity) if draft.severity is not None else None
    return Subject(
        data.identity(port) if port is not None else NO_IDENTITY,
        "waived" if waiver is not None else draft.result,
        draft.message,
        draft.evidence,
        data.snapshot.about.finished,
        not port.end_port.m_key.is_zero if port is not None else None,
        str(waiver) if waiver is not None else None,
        severity,
    )


def coverage_of(data: AuditInput) -> Coverage:
    """Return how much of the fabric was read."""
    fabric = data.fabric
    ports = sum(1 for _ in fabric.ports())
    unreadable = {trouble.port for trouble in fabric.troubles if not trouble.is_behind}
    troubles: list[Mapping[str, Any]] = [
        {
            **data.identity(trouble.port),
            "attribute": trouble.attribute,
            "reading": trouble.reading,
            "error": trouble.error + _who_was_there(data, trouble),
        }
        for trouble in fabric.troubles
    ]
    troubles += [
        {
            **NO_IDENTITY,
            "attribute": "SA",
            "reading": "not-asked",
            "error": f"the SA could not be asked ({question}): {probe.detail}",
        }
        for question, probe in data.snapshot.sa_probes.items()
        if probe.answer == "failed"
    ]
    return Coverage(
        len(fabric.nodes), ports, ports - len(unreadable), len(unreadable), len(data.hidden_ports), troubles
    )


def _who_was_there(data: AuditInput, trouble: Trouble) -> str:
    """Name who was behind a port when the baseline was taken: whoever does not answer cannot say its name."""
    if data.baseline is None or not trouble.is_behind:
        return ""
    port = data.before(trouble.port)
    return f"; in the baseline {port.peer} was there" if port is not None and port.peer is not None else ""


def _partitions(data: AuditInput) -> list[tuple[int, str | None, int, int]]:
    names = {each.base: each.name for each in data.policy.partitions} if data.policy is not None else {}
    owners = data.registry or {}
    return [
        (
            each.partition,
            names.get(each.partition) or owners.get(each.partition),
            len(each.full),
            len(each.limited),
        )
        for each in data.reach.memberships()
    ]

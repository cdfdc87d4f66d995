"""The audit: runs rules over one input, applies waivers, makes the report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ibkeys.audit.catalogue import CATALOGUE
from ibkeys.audit.findings import SEVERITIES, Coverage, Profile, Report, Result, RuleResult, Severity, Subject
from ibkeys.audit.inputs import BETWEEN_SWITCHES, AuditInput
from ibkeys.audit.rule import NO_IDENTITY, Rule, RuleFinding, RuleVerdict
from ibkeys.audit.waivers import Waivers
from ibkeys.port_text import PortText
from ibkeys.topology.model import Trouble
from ibkeys.topology.moves import Move
from ibkeys.topology.nodes import Port
from ibkeys.topology.port_id import LookedAt


@dataclass(frozen=True, slots=True)
class FabricPart:
    """The part of a fabric that a report is limited to.

    ``keeps``: returns whether findings about a port are reported. ``is_about``: returns whether a port belongs to the
    part. It may return True for a port that was not read, because the memberships of this port are not known.
    ``concerns``: returns whether a trouble is reported for the part.
    """

    keeps: Callable[[Port], bool]
    is_about: Callable[[Port], bool]
    concerns: Callable[[Trouble], bool]


DEFAULT_PROFILE: Final[Profile] = "cloud-secured"


def audit(
    data: AuditInput,
    profile: Profile = DEFAULT_PROFILE,
    rules: Sequence[Rule] = CATALOGUE,
    waivers: Waivers | None = None,
    source: str = "",
    part: FabricPart | None = None,
) -> Report:
    """Run *rules* and return the report.

    *source*: the snapshot file or local port that the fabric was read from. Nothing is sent and nothing is raised: a
    result that cannot be determined is unknown. The rules always examine the whole fabric. With *part*, the report has
    only findings about the ports of that part; findings that concern no port are left out.
    """
    results = [_result(rule, rule.check(data), profile, waivers or Waivers(), part) for rule in rules]
    return Report(
        profile,
        data.snapshot.about.finished,
        source,
        data.policy.path if data.policy is not None else None,
        results,
        coverage_of(data, part, _undecided_by(data, results)),
        _partitions(data),
        data.inbound_check,
        _moved(data, part),
        _looked_at(data, part),
    )


def _moved(data: AuditInput, part: FabricPart | None) -> list[Move] | None:
    if data.baseline is None:
        return None
    return [each for each in data.moves.moved if part is None or any(map(part.keeps, each.ports))]


def _looked_at(data: AuditInput, part: FabricPart | None) -> LookedAt | None:
    if part is None:
        return None
    kept = [part.keeps(port) for port in data.fabric.ports()]
    return LookedAt(sum(kept), len(kept))


def _result(
    rule: Rule, verdict: RuleVerdict, profile: Profile, waivers: Waivers, part: FabricPart | None
) -> RuleResult:
    found = [(finding, _subject(rule, finding, verdict.data, profile, waivers)) for finding in verdict.findings]
    subjects = [subject for finding, subject in found if part is None or _is_of(part, finding)]
    failed = [subject.severity or rule.severity_in(profile) for subject in subjects if subject.result == "fail"]
    return RuleResult(
        rule.id,
        rule.group,
        rule.title,
        min(failed, key=SEVERITIES.index) if failed else rule.severity_in(profile),
        _of_all(verdict, subjects) if part is None else _of_part(rule, verdict, subjects),
        rule.remedy,
        subjects,
        verdict.passed if part is None else 0,
        verdict.note,
        verdict.lacks,
    )


def _is_of(part: FabricPart, finding: RuleFinding) -> bool:
    """Return whether a finding is about a port of *part*, about a pair with such a port, or about a node that did not
    answer and may belong to *part*."""
    if finding.port is not None and any(map(part.keeps, (finding.port, *finding.partners))):
        return True
    return finding.trouble is not None and finding.trouble.is_behind and part.concerns(finding.trouble)


def _of_all(verdict: RuleVerdict, subjects: Sequence[Subject]) -> Result:
    """Return the result of a rule for the whole fabric: the worst result of its subjects."""
    results = {subject.result for subject in subjects}
    if "fail" in results:
        return "fail"
    if "unknown" in results or verdict.unknown_as_a_whole:
        return "unknown"
    if "waived" in results:
        return "waived"
    return "pass" if verdict.passed else "n/a"


def _of_part(rule: Rule, verdict: RuleVerdict, subjects: Sequence[Subject]) -> Result:
    """Return the result of a rule for a part of the fabric, whose findings are *subjects*.

    The rule passes if it examines ports and found nothing at the ports of the part. A rule about files, or about the
    fabric as a whole, does not apply.
    """
    result = _of_all(verdict, subjects)
    if result not in ("pass", "n/a"):
        return result
    at_ports = any(finding.port is not None for finding in verdict.findings)
    alone = verdict.passed and not verdict.findings and rule.group != "KF"
    return "pass" if at_ports or alone else "n/a"


def _subject(rule: Rule, finding: RuleFinding, data: AuditInput, profile: Profile, waivers: Waivers) -> Subject:
    waiver = waivers.find(rule.id, finding)
    port = finding.port
    severity: Severity | None = rule.severity_in(profile, finding.severity) if finding.severity is not None else None
    return Subject(
        data.identity(port) if port is not None else NO_IDENTITY,
        "waived" if waiver is not None else finding.result,
        finding.message,
        finding.evidence,
        data.snapshot.about.finished,
        not port.end_port.m_key.is_zero if port is not None else None,
        str(waiver) if waiver is not None else None,
        severity,
    )


def _undecided_by(data: AuditInput, results: Sequence[RuleResult]) -> Iterator[Mapping[str, Any]]:
    """Yield the ports on links between switches that make a result unknown, because routes are not known."""
    subjects = (subject for result in results for subject in result.subjects)
    if not any(subject.result == "unknown" and BETWEEN_SWITCHES in subject.evidence for subject in subjects):
        return
    for port in data.reach.deciding():
        error = "it stops P_Keys on a link between switches, or may: on which routes is not known"
        yield _unread(data.identity(port), "LinearForwardingTable", "not-asked", error)


def _unread(identity: Mapping[str, Any], attribute: str, reading: str, error: str) -> Mapping[str, Any]:
    return {**identity, "attribute": attribute, "reading": reading, "error": error}


def coverage_of(data: AuditInput, part: FabricPart | None, undecided: Iterable[Mapping[str, Any]]) -> Coverage:
    """Return how much of the fabric, or of a *part* of it, was read. *undecided*: further troubles to count as
    unread."""
    fabric = data.fabric
    ports = [port for port in fabric.ports() if part is None or part.is_about(port)]
    missing = [trouble for trouble in fabric.troubles if part is None or part.concerns(trouble)]
    unreadable = {trouble.port for trouble in missing if not trouble.is_behind}
    troubles = [
        _unread(data.identity(each.port), each.attribute, each.reading, _error_of(data, each)) for each in missing
    ]
    troubles += [
        _unread(NO_IDENTITY, "SA", "not-asked", f"the SA could not be queried ({question}): {probe.detail}")
        for question, probe in data.snapshot.sa_probes.items()
        if probe.answer == "failed"
    ]
    troubles += undecided
    silent = {trouble.port for trouble in missing if trouble.is_behind}
    return Coverage(
        len({port.node for port in ports}),
        len(ports),
        len(ports) - len(unreadable),
        len(unreadable),
        len(silent),
        troubles,
    )


def _error_of(data: AuditInput, trouble: Trouble) -> str:
    """Return the error of a trouble. For a node that did not answer, the text also names the neighbour that the
    baseline has at this link.
    """
    port = data.before(trouble.port) if trouble.is_behind else None
    if port is None or port.peer is None:
        return trouble.error
    return PortText.joined(trouble.error, f"; in the baseline {port.peer} was there")


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

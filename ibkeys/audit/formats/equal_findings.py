"""Grouping equal findings of one rule: 179 equal rows of a report become one that names all ports."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ibkeys.audit.findings import Report, RuleResult, Subject
from ibkeys.audit.formats import words
from ibkeys.grouping import gathered
from ibkeys.port_text import common_of
from ibkeys.topology.names.folded import FoldedNames, in_order


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """Findings that are equal except for their port. ``message``: the common message. ``own``: whether each finding
    names another port and so has a message of its own (`PortText`). ``ports``: all ports of the group, in few words;
    empty if the group has only one finding.
    """

    subjects: Sequence[Subject]
    message: str
    own: bool
    ports: Sequence[str]

    @property
    def first(self) -> Subject:
        """The first of the findings, for the values that all share."""
        return self.subjects[0]


def names_in(report: Report) -> FoldedNames:
    """Return the short names of the ports of a report."""
    return FoldedNames(
        identity for result in report.results for subject in result.subjects if _is_port(identity := subject.identity)
    )


def grouped(
    result: RuleResult, subjects: Iterable[Subject], names: FoldedNames, evidence: bool = True
) -> list[FindingGroup]:
    """Return *subjects* of one rule in groups of equal result, message, evidence, severity, waiver, time, and use of an
    M_Key.

    Subjects that are no ports are never grouped. *evidence*: False to ignore the evidence, where it is not shown.
    """
    keyed = (
        (_said(result, subject, evidence) if _is_port(subject.identity) else index, subject)
        for index, subject in enumerate(subjects)
    )
    return [_same(each, names) for each in gathered(keyed).values()]


def _is_port(identity: Mapping[str, Any]) -> bool:
    return identity.get("node_guid") is not None and identity.get("port") is not None


def _said(result: RuleResult, subject: Subject, evidence: bool) -> Hashable:
    return (
        subject.result,
        common_of(subject.message),
        words.evidence_text(subject) if evidence else "",
        words.severity_of(subject, result),
        subject.waiver,
        words.m_key_text(subject),
        subject.time,
    )


def _same(subjects: Sequence[Subject], names: FoldedNames) -> FindingGroup:
    if len(subjects) == 1:
        return FindingGroup(subjects, subjects[0].message, False, ())
    own = len({subject.message for subject in subjects}) > 1
    message = common_of(subjects[0].message) if own else subjects[0].message
    ordered = sorted(subjects, key=lambda subject: in_order(subject.identity))
    return FindingGroup(ordered, message, own, names.words(subject.identity for subject in ordered))

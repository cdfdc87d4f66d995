"""The result of an audit, as the values that every output format renders. No rule and no format is known here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from ibkeys.errors import UsageError
from ibkeys.keys.pkey import DEFAULT_INBOUND_CHECK, InboundCheck
from ibkeys.topology.moves import Move
from ibkeys.topology.port_id import LookedAt

Severity = Literal["critical", "high", "medium", "low", "info"]
Result = Literal["pass", "fail", "unknown", "n/a", "waived"]
Profile = Literal["lab", "hpc", "cloud", "cloud-secured"]

SEVERITIES: Final[tuple[Severity, ...]] = ("critical", "high", "medium", "low", "info")
"""The severities, the worst first."""
RESULTS: Final[tuple[Result, ...]] = ("pass", "fail", "unknown", "n/a", "waived")
PROFILES: Final[tuple[Profile, ...]] = ("lab", "hpc", "cloud", "cloud-secured")

GROUPS: Final[Mapping[str, str]] = {
    "MK": "M_Keys",
    "KF": "Key files",
    "CK": "Keys of other classes",
    "PK": "P_Keys and partitions",
    "SE": "Switch enforcement",
    "QK": "Violations and Q_Keys",
    "SM": "Subnet managers and SA",
    "HY": "Hygiene",
}
"""The first two letters of a rule's id → the subject of the group."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One port, node or file that a finding of a rule is about.

    ``identity``: the JSON fields that identify a port in every document; all are None for a file of the host.
    ``result``: the rule's result for this subject alone. ``evidence``: attribute → field → value as it was read, with
    fingerprints in place of M_Keys. ``time``: when the evidence was read. ``m_key_used``: whether an M_Key was sent to
    read the evidence; None for a subject that is no port. ``waiver``: why the finding is waived, and until when.
    ``severity``: the severity for this subject; None if it is the rule's.
    """

    identity: Mapping[str, Any]
    result: Result
    message: str
    evidence: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    time: str | None = None
    m_key_used: bool | None = None
    waiver: str | None = None
    severity: Severity | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the subject as the JSON object that the man page promises."""
        return {
            **self.identity,
            "result": self.result,
            "evidence": {attribute: dict(fields) for attribute, fields in self.evidence.items()},
            "message": self.message,
            "time": self.time,
            "m_key_used": self.m_key_used,
            "waiver": self.waiver,
            "severity": self.severity,
        }


@dataclass(frozen=True, slots=True)
class RuleResult:
    """The result of one rule for the whole fabric, or for the part of it that the report is about. ``note``: why the
    rule is unknown or does not apply; "" otherwise. ``lacks``: the option of `ibkeys audit` that would give the input
    that the rule needs; "" if it has all inputs.

    ``severity``: the worst severity of the subjects that fail; if none fails, the rule's severity. ``subjects``: the
    subjects that fail, are unknown or are waived. ``passed``: the number of subjects that pass; it is 0 in a report
    about a part of the fabric.
    """

    rule: str
    group: str
    title: str
    severity: Severity
    result: Result
    remedy: str
    subjects: Sequence[Subject] = ()
    passed: int = 0
    note: str = ""
    lacks: str = ""

    def fails_at(self, severity: Severity | None) -> bool:
        """Return whether the rule fails with *severity* or worse; None: never."""
        return (
            self.result == "fail"
            and severity is not None
            and SEVERITIES.index(self.severity) <= SEVERITIES.index(severity)
        )

    def to_json(self, with_remedy: bool = True) -> dict[str, Any]:
        """Return the result as the JSON document has it; without *with_remedy* its remedy is null."""
        return {
            "rule": self.rule,
            "title": self.title,
            "severity": self.severity,
            "result": self.result,
            "note": self.note or None,
            "passed": self.passed,
            "subjects": [subject.to_json() for subject in self.subjects],
            "remedy": self.remedy if with_remedy else None,
        }


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of the fabric the audit read.

    ``read``: the number of ports whose attributes were all read. ``unreadable``: the number of ports with an attribute
    that was not read. ``silent``: the number of ports whose neighbour did not answer. ``troubles``: the JSON object of
    each trouble.
    """

    nodes: int
    ports: int
    read: int
    unreadable: int
    silent: int
    troubles: Sequence[Mapping[str, Any]] = ()

    @property
    def is_complete(self) -> bool:
        """Whether all nodes and attributes that should have been read were read."""
        return not self.troubles

    def to_json(self) -> dict[str, Any]:
        """Return the coverage as the JSON document has it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Report:
    """One audit.

    ``taken``: when the fabric was read, UTC. ``source``: the snapshot file or the local port it was read from.
    ``policy``: the policy's file name, None without one. ``results``: one entry for each rule of the catalogue that was
    selected, in the catalogue's order. ``partitions``: the partition matrix for pictures, as (partition, name or None,
    full members, limited members). ``inbound_check``: which incoming packets switches are assumed to check. ``moved``:
    cables, hosts, HCAs and names that changed since the baseline, None without one. ``looked_at``: the number of ports
    that an audit of a part of the fabric covers; the results hold for these ports only. None for the whole fabric.
    """

    profile: Profile
    taken: str
    source: str
    policy: str | None
    results: Sequence[RuleResult]
    coverage: Coverage
    partitions: Sequence[tuple[int, str | None, int, int]] = ()
    inbound_check: InboundCheck = DEFAULT_INBOUND_CHECK
    moved: Sequence[Move] | None = None
    looked_at: LookedAt | None = None

    @property
    def summary(self) -> dict[str, int]:
        """The number of rules with each result."""
        return {result: sum(each.result == result for each in self.results) for result in RESULTS}

    @property
    def subject_matter(self) -> str:
        """The source of the data and, if only a part of the fabric was examined, that part in words."""
        return self.source if self.looked_at is None else f"{self.source} ({self.looked_at})"

    def fails_at(self, severity: Severity | None) -> bool:
        """Return whether some rule fails with *severity* or worse; None: never. Raises UsageError for a word that is no
        severity."""
        if severity is not None and severity not in SEVERITIES:
            raise UsageError(f"severity {severity!r}: it must be one of {', '.join(SEVERITIES)}")
        return any(each.fails_at(severity) for each in self.results)

    def to_json(self, with_remedy: bool = True) -> dict[str, Any]:
        """Return the report as the JSON document has it, without its schema."""
        return {
            "profile": self.profile,
            "policy": self.policy,
            "inbound_check": self.inbound_check,
            "taken": self.taken,
            "source": self.source,
            "looked_at": self.looked_at.to_json() if self.looked_at is not None else None,
            "summary": self.summary,
            "results": [each.to_json(with_remedy) for each in self.results],
            "coverage": self.coverage.to_json(),
            "moved": [each.to_json() for each in self.moved] if self.moved is not None else None,
        }

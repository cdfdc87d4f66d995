"""Texts that all formats share: the place of a finding, its evidence, and the verdict."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ibkeys.audit.findings import Result, RuleResult, Severity, Subject
from ibkeys.printable import clean

Texts = Mapping[str, Mapping[str, Any]]
"""Rule id → explanations of the rule: ``why``, ``evidence`` and ``false_positives`` are texts, ``sources`` a list of
texts. A missing entry is left out of the report."""

FABRIC_OR_HOST: Final = "fabric or host"


def place(identity: Mapping[str, Any]) -> str:
    """Return a port in words, ``'node' 0x0002c90300a1b2c3 port 1``, or a node, without the port number; for a subject
    that is neither, return `FABRIC_OR_HOST`.
    """
    guid = identity.get("node_guid")
    if guid is None:
        return FABRIC_OR_HOST
    name = identity.get("node_desc")
    port = identity.get("port")
    return clean(f"{repr(name) + ' ' if name else ''}{guid}{'' if port is None else f' port {port}'}")


def qualified_name(identity: Mapping[str, Any]) -> str | None:
    """Return the lasting name of a port, ``node_guid/port``, or of a node, ``node_guid``; None for other subjects."""
    guid, port = identity.get("node_guid"), identity.get("port")
    if guid is None:
        return None
    return clean(str(guid) if port is None else f"{guid}/{port}")


def evidence_text(subject: Subject) -> str:
    """Return the evidence of a finding as text: ``PortInfo m_key_protect_bits 0, m_key_lease_period 60``."""
    return clean(
        "; ".join(
            f"{attribute} " + ", ".join(f"{name} {_value(value)}" for name, value in fields.items())
            for attribute, fields in subject.evidence.items()
        )
    )


def _value(value: Any) -> str:
    if value is None:
        return "not readable"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_value(each)}" for name, each in value.items()) + "}"
    return str(value)


def m_key_text(subject: Subject) -> str:
    """Return in words whether an M_Key was sent to read the evidence; "" for a subject that is not a port."""
    return "" if subject.m_key_used is None else "with M_Key" if subject.m_key_used else "without M_Key"


def finding_line(subject: Subject) -> str:
    """Return a finding as one line: its place, its message and, if it is waived, the reason of the waiver."""
    waiver = f" ({subject.waiver})" if subject.waiver else ""
    return clean(f"{place(subject.identity)}: {subject.message}{waiver}")


def subjects(result: RuleResult, *wanted: Result) -> list[Subject]:
    """Return those subjects of a rule whose result is one of *wanted*."""
    return [subject for subject in result.subjects if subject.result in wanted]


def summary(result: RuleResult) -> str:
    """Return the result of a rule in a few words: ``3 fail, 1 unknown, 12 pass``, and its note. Without a subject and a
    note, return the result itself.
    """
    counts = [
        f"{number:,} {word}"
        for word, number in (
            *((word, len(subjects(result, word))) for word in ("fail", "unknown", "waived")),
            ("pass", result.passed),
        )
        if number
    ]
    return clean("; ".join(part for part in (", ".join(counts), result.note) if part)) or result.result


def unknown_reasons(result: RuleResult, see: str, name: Callable[[Mapping[str, Any]], str] = place) -> tuple[str, ...]:
    """Return why a rule has no answer, a line for each reason.

    *see*: where the reader finds the data that was not read; *name*: returns the name of a port.
    """
    unknown = subjects(result, "unknown")
    lines = [clean(unknown_message(subject, see, name)) for subject in unknown if not is_unread(subject)]
    if len(lines) < len(unknown):
        lines.insert(0, f"needs data that was not read: {see}")
    return tuple(lines or [clean(result.note)])


def unknown_message(subject: Subject, see: str, name: Callable[[Mapping[str, Any]], str] = place) -> str:
    """Return the message of one unknown subject, after its port, if it is about a port or node. For data that was not
    read, *see* is in place of the message. *see* and *name*: as for `unknown_reasons`.
    """
    if subject.identity["node_guid"] is None:
        return subject.message
    return f"{name(subject.identity)}: " + (f"not read, {see}" if is_unread(subject) else subject.message)


def is_unread(subject: Subject) -> bool:
    """Return whether a subject is unknown only because an attribute was not read. Reports list such subjects in a
    section of their own.
    """
    return any("reading" in fields for fields in subject.evidence.values())


def severity_of(subject: Subject, result: RuleResult) -> Severity:
    """Return a subject's severity: its own, else the rule's."""
    return subject.severity or result.severity


def trouble_text(trouble: Mapping[str, Any]) -> str:
    """Return the error of a trouble with its place."""
    error = clean(str(trouble.get("error") or "not read"))
    at = place(trouble)
    return error if at == FABRIC_OR_HOST else f"{at}: {error}"


def sources_of(text: Mapping[str, Any]) -> Sequence[str]:
    """Return a rule's sources as a list."""
    sources = text.get("sources") or ()
    return (sources,) if isinstance(sources, str) else tuple(sources)


def time_text(time: str) -> str:
    """Return a time in UTC as ``2026-11-20 09:30:00 UTC``. A text that is no such time is returned as it is."""
    return f"{time[:10]} {time[11:-1]} UTC" if re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", time) else time


def count(things: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun: ``1 port``, ``3,000 ports``."""
    return f"{things:,} {one if things == 1 else many or one + 's'}"

"""The report as one self-contained HTML page: the verdict, then the data that was not read, then findings and remedies.

A manager reads down to the scores, an administrator filters the findings. The page works without JavaScript, which only
filters. Findings of a rule with the same text are one row, with a folded block that lists the hosts one by one. If a
rule has many rows, only the first are shown and the others are folded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from ibkeys.audit.findings import GROUPS, SEVERITIES, Report, Result, RuleResult, Severity, Subject
from ibkeys.audit.formats import words
from ibkeys.audit.formats.equal_findings import FindingGroup, grouped, names_in
from ibkeys.audit.formats.page import limit_listed_ports, markup, render_page
from ibkeys.audit.formats.words import Texts, count
from ibkeys.audit.pictures.members import members_svg
from ibkeys.grouping import gathered
from ibkeys.topology.moves import move_in_words
from ibkeys.topology.names.folded import FoldedNames

FIRST: Final = 10
"""Rows of a rule that are shown unfolded."""
MOST: Final = 3000
"""Rows of a rule that the page holds at most, and ports that it lists one by one: the JSON has all of them."""
_LARGEST: Final = 24
"""Partitions that are shown unfolded."""
_ORDER: Final[tuple[Result, ...]] = ("fail", "unknown", "waived", "n/a", "pass")
"""The order in which the subjects of a rule are listed."""
_OPEN_ROWS: Final = 60
"""With up to so many rows in all, every failing rule is unfolded."""
_MOST_UNPROTECTED: Final = 49
"""The highest score of the M_Keys, in percent, while no port is protected: other rules about M_Keys then pass, but an
M_Key that everyone can read protects nothing."""
_SEE: Final = "see “Could not be read”"


def render_html(
    report: Report, texts: Texts | None = None, *, fail_on: Severity | None = "high", version: str = ""
) -> str:
    """Return *report* as one HTML page.

    *texts*: the explanations of each rule. *fail_on*: the lowest severity at which the audit fails; None for never.
    *version*: the version of ibkeys. Raises UsageError if jinja2 is not installed.
    """
    names = names_in(report)
    return render_page(
        "report.html.j2",
        report=report,
        version=version,
        taken=words.time_text(report.taken),
        verdict=verdict_of(report, fail_on),
        severities=[_severity(report, severity) for severity in SEVERITIES],
        severity_names=SEVERITIES,
        groups=list(_groups(report)),
        group_names=list(GROUPS.items()),
        coverage_tiles=_coverage(report),
        troubles=[words.trouble_text(trouble) for trouble in report.coverage.troubles],
        not_evaluated=_not_evaluated(report, names),
        kinds=list(_kinds(report, texts or {}, names)),
        quiet=[
            ("Rules that pass", [each for each in report.results if each.result == "pass"]),
            ("Rules that do not apply here", [each for each in report.results if each.result == "n/a"]),
        ],
        picture=_picture(report),
        summary=words.summary,
        count=count,
        most_unprotected=_MOST_UNPROTECTED,
        move_in_words=move_in_words,
        first=FIRST,
        most=MOST,
    )


def verdict_of(report: Report, fail_on: Severity | None) -> dict[str, Any]:
    """Return the ``headline``, the ``sentences`` below it and their ``tone``: good, warn or bad."""
    summary, coverage = report.summary, report.coverage
    failed = report.fails_at(fail_on)
    headline = "Failed" if failed else "Passed"
    tone = "bad" if failed else "good"
    if not coverage.is_complete:
        headline, tone = ("Failed, and incomplete", "bad") if failed else ("Incomplete: no verdict", "warn")
    elif not failed and not summary["pass"]:
        headline, tone = "No answers: no verdict", "warn"
    elif not failed and (summary["fail"] or summary["unknown"]):
        headline, tone = "Passed, with remarks", "good"
    if report.looked_at is not None:
        headline = f"A part of the fabric: {headline[0].lower()}{headline[1:]}"
    return {"headline": headline, "tone": tone, "sentences": list(_sentences(report, fail_on))}


def _sentences(report: Report, fail_on: Severity | None) -> Iterator[str]:
    summary, coverage = report.summary, report.coverage
    if report.looked_at is not None:
        yield f"A part of the fabric: {report.looked_at}; nothing below applies to the other ports."
    failed = Counter(each.severity for each in report.results if each.result == "fail")
    by_severity = [f"{failed[severity]} {severity}" for severity in SEVERITIES if failed[severity]]
    if by_severity:
        limit = f"; the audit fails from {fail_on}" if fail_on is not None else ""
        yield f"{count(summary['fail'], 'rule fails', 'rules fail')}: {', '.join(by_severity)}{limit}."
    else:
        yield "No rule fails."
    if not coverage.is_complete:
        yield (
            f"{count(len(coverage.troubles), 'thing')} that should have been read could not be read: the results "
            "below apply only to the part that was read."
        )
    if summary["unknown"]:
        yield f"{count(summary['unknown'], 'rule has', 'rules have')} no answer; unknown does not count as a pass."
    if summary["waived"]:
        yield f"{count(summary['waived'], 'rule is', 'rules are')} waived."


def _not_evaluated(report: Report, names: FoldedNames) -> list[tuple[list[RuleResult], list[str]]]:
    """Return the rules without an answer, in groups of rules with the same reasons, each group with these reasons."""
    found = gathered((_unknown_reasons(each, names), each) for each in report.results if each.result == "unknown")
    more = "more; the JSON of this report has them all"
    return [
        (results, [*reasons[:FIRST], *([f"and {len(reasons) - FIRST} {more}"] if len(reasons) > FIRST else [])])
        for reasons, results in found.items()
    ]


def _unknown_reasons(result: RuleResult, names: FoldedNames) -> tuple[str, ...]:
    """Return why a rule has no answer: one line for each reason, with the ports that it holds for."""
    unknown = words.subjects(result, "unknown")
    explained = [subject for subject in unknown if not words.is_unread(subject)]
    lines = [
        f"{', '.join(same.ports)}: {same.message}" if same.ports else words.unknown_message(same.first, _SEE)
        for same in grouped(result, explained, names)
    ]
    if len(explained) < len(unknown):
        lines.insert(0, f"needs data that was not read: {_SEE}")
    return tuple(lines or [result.note])


def _severity(report: Report, severity: Severity) -> tuple[Severity, int, str, str]:
    """Return the contents of a severity's card: severity, number of rules that fail, their findings, the first such
    rule."""
    failed = [each for each in report.results if each.result == "fail" and each.severity == severity]
    found = sum(len(words.subjects(each, "fail")) for each in failed)
    return severity, len(failed), count(found, "finding"), failed[0].rule if failed else ""


def _groups(report: Report) -> Iterator[dict[str, Any]]:
    for group, title in GROUPS.items():
        members = [each for each in report.results if each.group == group]
        if not members:
            continue
        tally = Counter(each.result for each in members)
        asked = sum(tally[word] for word in ("pass", "fail", "unknown"))
        counts = ", ".join(
            f"{tally[word]} {word}" for word in ("pass", "fail", "unknown", "waived", "n/a") if word in tally
        )
        score = 100 * tally["pass"] // asked if asked else None
        if score is not None and group == "MK" and report.looked_at is None and _none_is_protected(members):
            score = min(score, _MOST_UNPROTECTED)
        yield {
            "title": title,
            "share": f"{score} %" if score is not None else "-",
            "counts": counts,
            "bars": list(_bars(tally, len(members))),
        }


def _none_is_protected(m_keys: Sequence[RuleResult]) -> bool:
    """Return whether no port is known to be protected by an M_Key, by the rules that ask each port for it: MK001 (has
    one) and MK002 (does not show it to everyone, if it has one)."""
    asked = [each for each in m_keys if each.rule in ("MK001", "MK002")]
    return any(each.result == "fail" for each in asked) and not asked[-1].passed


def _bars(tally: Counter[Result], whole: int) -> Iterator[dict[str, Any]]:
    x = 0.0
    none = tally["waived"] + tally["n/a"]
    shown = (*((word, tally[word]) for word in ("pass", "fail", "unknown")), ("none", none))
    for word, number in shown:
        if number:
            width = 100 * number / whole
            yield {"word": word, "count": number, "x": f"{x:.2f}", "width": f"{width:.2f}"}
            x += width


def _coverage(report: Report) -> list[tuple[str, str]]:
    coverage = report.coverage
    return [
        (f"{coverage.nodes:,}", "nodes"),
        (f"{coverage.ports:,}", "ports"),
        (f"{coverage.read:,}", "fully read"),
        (f"{coverage.unreadable:,}", "partly read"),
        (f"{coverage.silent:,}", "silent"),
        (str(report.summary["unknown"]), "rules unknown"),
    ]


def _kinds(report: Report, texts: Texts, names: FoldedNames) -> Iterator[dict[str, Any]]:
    """Yield the rules that have findings, as blocks for the template: first those that fail, then unknown, then waived,
    each with the worst severity first.

    A rule that is unknown as a whole is shown with the data that was not read.
    """
    rows = {
        each.rule: grouped(each, sorted(each.subjects, key=lambda one: _ORDER.index(one.result)), names)
        for each in report.results
    }
    few = sum(map(len, rows.values())) <= _OPEN_ROWS
    kinds: tuple[tuple[Result, str], ...] = (("fail", "Fails"), ("unknown", "Unknown"), ("waived", "Waived"))
    for word, title in kinds:
        chosen = sorted(
            (each for each in report.results if each.result == word and (each.subjects or word != "unknown")),
            key=lambda each: SEVERITIES.index(each.severity),
        )
        if chosen:
            yield {
                "title": title,
                "entries": [
                    {
                        "result": each,
                        "badge": each.severity if word == "fail" else word,
                        "open": word == "fail" and (few or each.severity == "critical"),
                        "text": {key: texts.get(each.rule, {}).get(key) for key in ("why", "false_positives")},
                        "sources": words.sources_of(texts.get(each.rule, {})),
                        "found": len(each.subjects),
                        "rows": limit_listed_ports(rows[each.rule][:MOST], MOST, partial(_row, each, report.taken)),
                    }
                    for each in chosen
                ],
            }


def _row(result: RuleResult, taken: str, same: FindingGroup, room: int) -> dict[str, Any]:
    """Return the texts of one row of equal findings.

    A row repeats its result or severity only where it differs from that of the whole rule, and its time only where it
    differs from that of the report. *room*: how many ports this row may list one by one, so that all rows of a rule
    list at most `MOST`. The short names (``ports``) always name all ports.
    """
    subject = same.first
    severity = words.severity_of(subject, result)
    word: str = "" if subject.result == result.result else subject.result
    if subject.result == "fail" and severity != result.severity:
        word = severity
    identity = subject.identity
    time = words.time_text(subject.time) if subject.time and subject.time != taken else ""
    return {
        "count": len(same.subjects),
        "ports": same.ports,
        "each": [_port_line(each, same.own) for each in same.subjects[:room]] if same.ports else [],
        "name": str(identity.get("node_desc") or ""),
        "address": words.place({**identity, "node_desc": None}),
        "word": word,
        "message": same.message,
        "waiver": f"waived: {subject.waiver}" if subject.waiver else "",
        "evidence": words.evidence_text(subject),
        "read": ", ".join(filter(None, (words.m_key_text(subject), time))),
    }


def _port_line(subject: Subject, own: bool) -> str:
    identity = subject.identity
    line = f"{identity['node_guid']} port {identity['port']} {identity.get('node_desc') or ''}".rstrip()
    return f"{line}: {subject.message}" if own else line


def _picture(report: Report) -> dict[str, Any] | None:
    """Return the partitions as bars: the largest unfolded, the others folded; None if there are no partitions."""
    if not report.partitions:
        return None
    ordered: Sequence[tuple[int, str | None, int, int]] = sorted(
        report.partitions, key=lambda each: (-(each[2] + each[3]), each[0])
    )
    scale = max(full + limited for _, _, full, limited in ordered)
    rest = ordered[_LARGEST:]
    return {
        "caption": f"{count(len(ordered), 'partition')} and how many ports are members"
        + (", the largest first." if len(ordered) > 1 else "."),
        "largest": markup(members_svg(ordered[:_LARGEST], scale)),
        "rest": markup(members_svg(rest, scale)) if rest else "",
        "others": len(rest),
    }

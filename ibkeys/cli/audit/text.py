"""Writing an audit's report for people: failures, then ports that were not read, then counts. Also its CSV rows."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ibkeys.audit.findings import SEVERITIES
from ibkeys.audit.formats import words
from ibkeys.audit.formats.equal_findings import grouped, names_in
from ibkeys.cli import exits
from ibkeys.cli.documents.audit import AUDIT_EXPLAIN
from ibkeys.cli.exits import clean, write
from ibkeys.cli.listing.causes import lines_by_cause
from ibkeys.cli.listing.folding import indented
from ibkeys.cli.render import heading_of, write_document
from ibkeys.cli.screen.colour import paint
from ibkeys.cli.screen.lines import fold_text, width_of
from ibkeys.grouping import grouped as by_key
from ibkeys.printable import counted, first_lines
from ibkeys.topology.moves import move_in_words

if TYPE_CHECKING:
    from ibkeys.audit.findings import Report, RuleResult, Subject
    from ibkeys.audit.rule import Rule
    from ibkeys.topology.names.folded import FoldedNames

LISTED: Final = 8
"""Most lines of one list in a folded report; --each, JSON and CSV have all lines."""
_WIDTH: Final = 110
_INDENT: Final = " " * 9
_SEE: Final = "see NOT READ"


def csv_rows(result: RuleResult) -> Iterator[dict[str, Any]]:
    """Yield one row for each subject, or one row for a rule without subjects."""
    head = {"rule": result.rule, "title": result.title, "severity": result.severity, "remedy": result.remedy}
    if not result.subjects:
        yield {**head, "result": result.result, "message": result.note}
    for subject in result.subjects:
        yield {
            **head,
            **subject.identity,
            "severity": subject.severity or result.severity,
            "result": subject.result,
            "message": subject.message,
            "evidence": json.dumps({name: dict(values) for name, values in subject.evidence.items()}),
            "waiver": subject.waiver,
        }


def write_table_report(
    report: Report, with_remedy: bool, folded: bool, names: FoldedNames | None = None, lists_all: bool = False
) -> None:
    """Write the report for people.

    *folded*: ports with the same message share an entry, and *names* folds their names (None: the names in the report
    are used). Otherwise each port has a line. *lists_all*: all rules that were not evaluated are listed, as with -v.
    """
    policy = f", policy {report.policy}" if report.policy else ""
    write(clean(f"Audit of {report.source}, read {report.taken}; profile {report.profile}{policy}"))
    if report.looked_at is not None:
        write(f"A PART OF THE FABRIC: {report.looked_at}; other ports are not covered")
    write(_verdict(report))
    fold = (names or names_in(report)) if folded else None
    for severity in SEVERITIES:
        failed = [each for each in report.results if each.result == "fail" and each.severity == severity]
        if failed:
            write("\n" + paint(severity.upper(), severity))
        for result in failed:
            _write_failure(result, with_remedy, fold)
    _write_not_read(report, fold)
    _write_not_evaluated(report, folded, lists_all or exits.explains_all())
    _write_section("WAIVED", _waived(report), folded=False)
    _write_section("MOVED SINCE THE BASELINE", [move_in_words(each.to_json()) for each in report.moved or ()], folded)
    coverage = report.coverage
    counts = report.summary
    write(
        f"\n{counted(len(report.results), 'rule')}: {counts['pass']} pass, {counts['fail']} fail, {counts['unknown']} "
        f"unknown, {counts['n/a']} not applicable, {counts['waived']} waived"
    )
    write(
        f"{counted(coverage.nodes, 'node')}, {counted(coverage.ports, 'port')}: {coverage.read} read, "
        f"{coverage.unreadable} partly read, {coverage.silent} with no answer behind them"
    )


def _verdict(report: Report) -> str:
    failed = [each for each in report.results if each.result == "fail"]
    counts = [(severity, sum(each.severity == severity for each in failed)) for severity in SEVERITIES]
    listed = ", ".join(paint(f"{count} {severity}", severity) for severity, count in counts if count)
    at = "" if report.looked_at is None else " at these ports"
    fails = f"fail{'s' if len(failed) == 1 else ''}"
    text = f"{counted(len(failed), 'rule')} {fails}{at}: {listed}" if failed else f"No rule fails{at}"
    unknown, unread = report.summary["unknown"], len(report.coverage.troubles)
    was = "was" if unread == 1 else "were"
    text += f"; {counted(unknown, 'rule')} could not be evaluated" if unknown else ""
    return text + (f"; {counted(unread, 'thing')} that should have been read {was} not" if unread else "")


def _write_failure(result: RuleResult, with_remedy: bool, fold: FoldedNames | None) -> None:
    failed = [subject for subject in result.subjects if subject.result == "fail"]
    results = Counter(subject.result for subject in result.subjects)
    counts = {"unknown": results["unknown"], "waived": results["waived"], "pass": result.passed}
    further = [f"{count} {word}" for word, count in counts.items() if count]
    more = f" ({', '.join(further)})" if further else ""
    messages = {subject.message for subject in failed}
    if len(failed) > 1 and len(messages) == 1 and failed[0].identity["node_guid"] is not None:
        write(f"  {result.rule}  {result.title}: {counted(len(failed), 'port')}{more}")
        _write_wrapped(_INDENT, clean(messages.pop()))
        places = [f"{_INDENT}- {clean(heading_of(subject.identity))}" for subject in failed]
        lines = places if fold is None else indented(fold, (subject.identity for subject in failed), f"{_INDENT}- ")
    else:
        write(f"  {result.rule}  {result.title}: {counted(len(failed), 'finding')}{more}")
        each = [f"{_INDENT}- {_line(subject)}" for subject in failed]
        lines = each if fold is None else list(_folded(result, failed, fold))
    for line in lines:
        write(line)
    if with_remedy:
        _write_wrapped(f"{_INDENT}Remedy: ", result.remedy)


def _folded(result: RuleResult, failed: Sequence[Subject], names: FoldedNames) -> Iterator[str]:
    """Yield each message of a rule once, with the names of all its ports below it."""
    for same in grouped(result, failed, names, evidence=False):
        if not same.ports:
            yield f"{_INDENT}- {_line(same.first)}"
            continue
        other = "; … stands for a different port each time: --each" if same.own else ""
        yield f"{_INDENT}- {clean(same.message)} ({counted(len(same.subjects), 'port')}{other})"
        yield from indented(names, (subject.identity for subject in same.subjects), f"{_INDENT}    ")


def _line(subject: Subject) -> str:
    return clean(words.unknown_message(subject, _SEE, heading_of))


def _write_not_read(report: Report, fold: FoldedNames | None) -> None:
    each = fold is None or exits.explains_all()
    causes = lines_by_cause([(trouble, trouble["error"]) for trouble in report.coverage.troubles], each, fold)
    _write_section("NOT READ", [clean(line) for line, _ in causes], not each)


def _write_section(title: str, lines: Sequence[str], folded: bool) -> None:
    if lines:
        write(f"\n{title}")
    _write_list(lines, folded, "  ")


def _write_list(lines: Sequence[str], folded: bool, indent: str) -> None:
    """Write *lines*, or only the first `LISTED` of them in a folded report."""
    most = LISTED if folded else len(lines)
    for line in first_lines(lines, most, "and {} more (all of them: --each)".format):
        write(indent + line)


def _write_not_evaluated(report: Report, folded: bool, lists_all: bool) -> None:
    """Write the rules that could not be evaluated; rules with the same reasons share an entry. Without
    *lists_all*, those that lack an option are only counted.
    """
    unknown = [result for result in report.results if result.result == "unknown"]
    counted_only = [] if lists_all else [each for each in unknown if _lacks_only_an_option(each)]
    listed = [each for each in unknown if each not in counted_only]
    if listed:
        write("\nNOT EVALUATED")
    for lines, same in by_key(listed, lambda result: words.unknown_reasons(result, _SEE, heading_of)).items():
        _write_wrapped("  ", " ".join(result.rule for result in same))
        _write_list(lines, folded, _INDENT)
    if counted_only:
        options = Counter(result.lacks for result in counted_only)
        lacking = ", ".join(f"{option} {count}" for option, count in options.most_common())
        were = "was" if len(counted_only) == 1 else "were"
        of_all = f"{len(counted_only)} of {counted(len(report.results), 'rule')} {were} not evaluated"
        write("")
        _write_wrapped("", f"{of_all} without these options: {lacking}; -v lists them")


def _lacks_only_an_option(result: RuleResult) -> bool:
    """Return whether a rule is unknown because an option was not given, and nothing of it was unread."""
    return result.lacks != "" and not any(map(words.is_unread, words.subjects(result, "unknown")))


def _waived(report: Report) -> list[str]:
    waived = Counter(
        (result.rule, result.title, subject.waiver)
        for result in report.results
        for subject in result.subjects
        if subject.waiver is not None
    )
    return [
        clean(f"{rule}  {title}: {counted(count, 'finding')}: {waiver}")
        for (rule, title, waiver), count in waived.items()
    ]


def _write_wrapped(first: str, text: str) -> None:
    write(fold_text(first + text, width_of(sys.stdout) or _WIDTH, len(first)))


# --- a rule by itself -------------------------------------------------------------------------------------------------


def write_explanation(rule: Rule, format: str) -> None:
    """Write a rule's explanation: as JSON, as a row, or for people."""
    explanation = rule.explanation()
    severities: Mapping[str, str] = explanation["severity"]
    sources: Sequence[str] = explanation["sources"]
    by_profile = ", ".join(f"{profile} {severity}" for profile, severity in severities.items())
    row = {**explanation, "severity": by_profile, "sources": "; ".join(sources)}
    if write_document(format, AUDIT_EXPLAIN, lambda: explanation, [row]):
        return
    texts = {
        "Group": explanation["group"],
        "Severity": ", ".join(f"{profile} {paint(each, each)}" for profile, each in severities.items()),
        "Looks at": rule.evidence,
        "Why": rule.why,
        "Remedy": rule.remedy,
        "May be wrong": rule.false_positives,
        "Sources": "; ".join(sources),
    }
    write(f"{rule.id}  {rule.title}")
    for name, text in texts.items():
        _write_wrapped(f"  {name + ':':<14}", text)

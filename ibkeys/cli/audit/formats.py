"""An audit's report for other programs and for managers: JUnit, SARIF, HTML."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ibkeys.cli import exits
from ibkeys.cli.exits import write_exact
from ibkeys.version import __version__

if TYPE_CHECKING:
    from ibkeys.audit.findings import Report, Severity
    from ibkeys.audit.rule import Rule

FOR_OTHERS: Final = ("junit", "sarif", "html")


def code_of(report: Report, fail_on: Severity | None) -> int:
    """Return the exit code of an audit that fails from *fail_on* on; None: never."""
    if not report.coverage.is_complete:
        return exits.NOT_COMPLETED
    return exits.SAYS_NO if report.fails_at(fail_on) else exits.DONE


def write_for_others(
    report: Report, rules: Iterable[Rule], format: str, fail_on: Severity | None, with_remedy: bool, code: int
) -> None:
    """Write the report in one of `FOR_OTHERS`; *code* is the exit code that the command ends with."""
    texts = {rule.id: rule.explanation() for rule in rules}
    if not with_remedy:
        report = replace(report, results=[replace(each, remedy="") for each in report.results])
    if format == "junit":
        from ibkeys.audit.formats.junit import render_junit

        text = render_junit(report, texts, fail_on=fail_on)
    elif format == "sarif":
        from ibkeys.audit.formats.sarif import render_sarif

        text = render_sarif(report, texts, version=__version__, exit_code=code, root=os.getcwd())
    else:
        from ibkeys.audit.formats.html import render_html

        text = render_html(report, texts, fail_on=fail_on, version=__version__)
    write_exact(text.rstrip("\n"))

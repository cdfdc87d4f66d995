"""Writing an audit's report for other programs and for managers: JUnit, SARIF, HTML.

Also the documents that NVIDIA's ai-cloud-validation reads.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ibkeys.cli import exits, options
from ibkeys.cli.exits import write_exact
from ibkeys.cli.given import is_typed
from ibkeys.cli.showing import errors_of, finish
from ibkeys.errors import UsageError
from ibkeys.version import __version__

if TYPE_CHECKING:
    from ibkeys.audit.files import Tenancy
    from ibkeys.audit.findings import Report, Severity
    from ibkeys.audit.inputs import AuditInput
    from ibkeys.audit.rule import Rule

FOR_OTHERS: Final = ("junit", "sarif", "html")
FOR_CHECKS: Final = ("sdn04-04", "sdn04-05")
"""Formats for ai-cloud-validation: the partitions or keys that were read, without results of ibkeys' own rules."""


@dataclass(frozen=True, slots=True)
class ForChecks:
    """The options of the formats in `FOR_CHECKS`: the site's name and platform, and the file of partition tenants."""

    site_id: str | None = options.field(
        "--site-id", metavar="TEXT", help="Value of site_id in sdn04-04 and sdn04-05.  [default: the host's name]"
    )
    platform: str | None = options.field(
        "--platform", metavar="TEXT", help="Value of platform in sdn04-04 and sdn04-05.  [default: infiniband]"
    )
    tenants: str | None = options.field(
        "--tenants",
        metavar="FILE",
        help="For -f sdn04-04: the tenant of each partition, one P_KEY TENANT per line, or JSON.",
    )


for_checks_options: Final = options.group("for_checks", ForChecks)


def for_checks_of(chosen: ForChecks, format: str, is_part: bool) -> list[Tenancy]:
    """Return the tenants of partitions from the file of --tenants; an empty list without a file.

    *is_part*: whether filters leave out ports. Raises UsageError for options and filters that do not go with *format*;
    FileFormatError and StoreError for the file.
    """
    from ibkeys.audit.files import read_tenants

    if format not in FOR_CHECKS:
        for name in ("site_id", "platform", "tenants"):
            if getattr(chosen, name) is not None and is_typed(name):
                raise UsageError(f"--{name.replace('_', '-')} requires -f {' or -f '.join(FOR_CHECKS)}")
        return []
    if is_part:
        raise UsageError(f"-f {format} is about the whole fabric: omit the filters")
    return read_tenants(Path(chosen.tenants)) if chosen.tenants is not None else []


def write_for_checks(data: AuditInput, format: str, chosen: ForChecks, tenancies: Sequence[Tenancy]) -> int:
    """Write a document of `FOR_CHECKS`; return the exit code: 3 if part of the fabric was not read.

    Whether a check passes is decided by the program that reads the document.
    """
    from ibkeys.audit.files import Tenancy
    from ibkeys.audit.formats.sdn04 import DEFAULT_PLATFORM, DocumentSite, keys_document, partitions_document
    from ibkeys.jsonfile import dumps

    site = DocumentSite(chosen.platform or DEFAULT_PLATFORM, chosen.site_id or data.snapshot.about.host)
    if format == "sdn04-05":
        document = keys_document(data, site)
    else:
        owners = [Tenancy(key, None if who == "-" else who) for key, who in (data.registry or {}).items()]
        document = partitions_document(data, site, tenancies or owners)
    write_exact(dumps(document))
    return finish(errors_of(data.fabric), format)


def code_of(report: Report, fail_on: Severity | None) -> int:
    """Return the exit code of an audit: NOT_COMPLETED if part of the fabric was not read, whatever was found.

    Else SAYS_NO if a rule fails at the severity *fail_on* or worse (None: never), or DONE.
    """
    if not report.coverage.is_complete:
        return exits.NOT_COMPLETED
    return exits.SAYS_NO if report.fails_at(fail_on) else exits.DONE


def text_for_others(
    report: Report,
    rules: Iterable[Rule],
    format: str,
    fail_on: Severity | None,
    with_remedy: bool = True,
    code: int = exits.DONE,
) -> str:
    """Return the report in *format*, one of `FOR_OTHERS`.

    *rules*: the rules to explain in it. *fail_on*: the least severity at which a failed rule counts; None: none counts.
    *code*: the exit code that the command ends with. Raises UsageError for html if jinja2 is not installed.
    """
    texts = {rule.id: rule.explanation() for rule in rules}
    if not with_remedy:
        report = replace(report, results=[replace(each, remedy="") for each in report.results])
    if format == "junit":
        from ibkeys.audit.formats.junit import render_junit

        return render_junit(report, texts, fail_on=fail_on)
    if format == "sarif":
        from ibkeys.audit.formats.sarif import render_sarif

        return render_sarif(report, texts, version=__version__, exit_code=code, root=os.getcwd())
    from ibkeys.audit.formats.html import render_html

    return render_html(report, texts, fail_on=fail_on, version=__version__)

"""The command `report`: a folder of web pages with the audit, the matrix and map, changes, and the journal."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from ibkeys.cli import exits, options, typed
from ibkeys.cli.audit.compared import ComparedSources, compare, read_input, waivers_of
from ibkeys.cli.audit.formats import code_of, text_for_others
from ibkeys.cli.audit.shared_options import FAIL_ON, PROFILE, WAIVERS, FailOn
from ibkeys.cli.exits import write
from ibkeys.cli.help.command import command
from ibkeys.cli.opening import stores_of
from ibkeys.cli.options import Where
from ibkeys.cli.showing import errors_of, finish
from ibkeys.errors import StoreError
from ibkeys.version import __version__

if TYPE_CHECKING:
    from ibkeys.audit.findings import Profile, Report
    from ibkeys.audit.inputs import AuditInput


class ReportPage(NamedTuple):
    """One file of the folder: its name, its title, a sentence about its contents, and its text."""

    name: str
    title: str
    contents: str
    text: str


@command("report")
@click.argument("folder", metavar="DIR")
@compare
@PROFILE
@FAIL_ON
@WAIVERS
@options.reading
def report(
    where: Where, folder: str, compared: ComparedSources, profile: Profile, fail_on: FailOn, waivers: str | None
) -> int:
    """Write web pages: audit, matrix, map, changes, journal.

    DIR is created, or an earlier report in it is replaced in one step. If DIR holds anything else, nothing is
    written and the command ends. The pages load nothing from elsewhere and hold no key. With --baseline they show
    what changed since that snapshot. The exit status is that of the audit.
    """
    from ibkeys.audit.catalogue import CATALOGUE
    from ibkeys.audit.engine import audit as run_audit
    from ibkeys.audit.formats.folder import check_folder, write_folder

    place = Path(folder)
    check_folder(place)  # before the sweep, not after it
    data, source = read_input(where, compared)
    accepted = waivers_of(waivers)
    exits.warn_each(accepted.warnings)
    audit_report = run_audit(data, profile, CATALOGUE, accepted, source)
    fails = f"{audit_report.summary['fail']} of {len(audit_report.results)} rules fail, with remedies and evidence"
    audit = ReportPage("audit.html", "Audit", fails, text_for_others(audit_report, CATALOGUE, "html", fail_on))
    pages = [audit, *_matrix(data, audit_report), *_diff(data), *_journal(where, data)]
    files = {page.name: page.text for page in pages}
    files["index.html"] = _index(audit_report, pages, fail_on)
    write_folder(place, files)
    write(typed.without_keys(exits.clean(f"{place}: {', '.join(sorted(files))}")))
    finish(errors_of(data.fabric), "table")
    return code_of(audit_report, fail_on)


def _index(audit_report: Report, pages: Sequence[ReportPage], fail_on: FailOn) -> str:
    from ibkeys.audit.formats.html import verdict_of
    from ibkeys.audit.formats.report_pages import Text, render_text
    from ibkeys.audit.formats.words import time_text

    verdict = verdict_of(audit_report, fail_on)
    facts = {"Fabric read": time_text(audit_report.taken), "From": audit_report.source, "Profile": audit_report.profile}
    text = Text("InfiniBand keys: report", verdict["headline"], verdict["sentences"], facts, verdict["tone"])
    return render_text(text, links=[page[:3] for page in pages], version=__version__)


def _matrix(data: AuditInput, audit_report: Report) -> Iterator[ReportPage]:
    from ibkeys.audit.formats.matrix_page import render_matrix
    from ibkeys.audit.formats.words import time_text
    from ibkeys.audit.pictures.columns import lay_out
    from ibkeys.audit.pictures.fabric_map import COLOURINGS, fabric_map, worst_findings
    from ibkeys.audit.pictures.map_svg import map_svg

    names = {number: name for number, name, *_ in audit_report.partitions if name}
    picture = fabric_map(data.fabric, names, worst_findings(audit_report))
    source = f"{audit_report.source}, read {time_text(audit_report.taken)}"
    text = render_matrix(lay_out(data.reach, names), picture, source=source, version=__version__)
    contents = "Which port is in which partition, who can talk to whom, and where"
    yield ReportPage("matrix.html", "Matrix and map", contents, text)
    colours = {"partition": "partition", "level": "M_Key and ProtectBits", "finding": "finding"}
    for each in COLOURINGS:
        yield ReportPage(
            f"map-{each}.svg", f"Map by {colours[each]}", "The map as a separate picture", map_svg(picture, each)
        )


def _diff(data: AuditInput) -> Iterator[ReportPage]:
    from ibkeys.audit.formats.report_pages import render_text
    from ibkeys.cli.audit.report_tables import what_changed

    if data.baseline is not None:
        text, tables = what_changed(data.baseline, data.snapshot)
        contents = f"{text.headline}, since {text.facts['Before']}"
        yield ReportPage("diff.html", "What changed", contents, render_text(text, tables, version=__version__))


def _journal(where: Where, data: AuditInput) -> Iterator[ReportPage]:
    """Yield the page of this host's journal; for a snapshot of another host only if --journal names one."""
    from ibkeys.audit.formats.report_pages import render_text
    from ibkeys.cli.audit.report_tables import what_was_done

    about = data.snapshot.about
    is_here = where.snapshot is None or (not about.simulated and about.host == socket.gethostname())
    path = stores_of(where).journal if is_here or where.journal is not None else None
    if path is None:
        return
    try:
        text, tables = what_was_done(path)
    except StoreError as error:
        exits.warn(f"the report does not contain the journal: {error}")
        return
    contents = f"What changing commands did: {text.headline.lower()}"
    yield ReportPage("journal.html", "Journal", contents, render_text(text, tables, version=__version__))

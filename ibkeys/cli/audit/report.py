"""One folder for a manager: the audit, the matrix with the map, what changed, what changing commands did."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ibkeys.cli import exits, options, typed
from ibkeys.cli.audit.compared import Compare, compare, read_input, waivers_of
from ibkeys.cli.audit.formats import code_of
from ibkeys.cli.audit.shared_options import FAIL_ON, PROFILE, WAIVERS, fail_on_of
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

Page = tuple[str, str, str]
"""A file of the folder, its title, what is in it."""


@command("report")
@click.argument("folder", metavar="DIR")
@compare
@PROFILE
@FAIL_ON
@WAIVERS
@options.reading
def report(where: Where, folder: str, compared: Compare, profile: Profile, fail_on: str, waivers: str | None) -> int:
    """Write a folder of web pages: audit, matrix and map, changes, journal.

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
    found = run_audit(data, profile, CATALOGUE, accepted, source)
    files: dict[str, str] = {}
    pages: list[Page] = []
    _add_audit(files, pages, found, fail_on)
    _add_matrix(files, pages, data, found)
    _add_diff(files, pages, data)
    _add_journal(files, pages, where, data)
    files["index.html"] = _index(found, pages, fail_on)
    write_folder(place, files)
    write(typed.without_keys(exits.clean(f"{place}: {', '.join(sorted(files))}")))
    finish(errors_of(data.fabric), "table")
    return code_of(found, fail_on_of(fail_on))


def _index(found: Report, pages: Sequence[Page], fail_on: str) -> str:
    from ibkeys.audit.formats.html import verdict_of
    from ibkeys.audit.formats.report_pages import Text, render_index
    from ibkeys.audit.formats.words import time_text

    verdict = verdict_of(found, fail_on_of(fail_on))
    facts = {"Fabric read": time_text(found.taken), "From": found.source, "Profile": found.profile}
    text = Text("InfiniBand keys: report", verdict["headline"], verdict["sentences"], facts, verdict["tone"])
    return render_index(text, pages, version=__version__)


def _add_audit(files: dict[str, str], pages: list[Page], found: Report, fail_on: str) -> None:
    from ibkeys.audit.catalogue import CATALOGUE
    from ibkeys.audit.formats.html import render_html

    texts = {rule.id: rule.explanation() for rule in CATALOGUE}
    files["audit.html"] = render_html(found, texts, fail_on=fail_on_of(fail_on), version=__version__)
    failing = found.summary["fail"]
    pages.append(("audit.html", "Audit", f"{failing} of {len(found.results)} rules fail, with remedies and evidence"))


def _add_matrix(files: dict[str, str], pages: list[Page], data: AuditInput, found: Report) -> None:
    from ibkeys.audit.formats.matrix_page import render_matrix
    from ibkeys.audit.formats.words import time_text
    from ibkeys.audit.pictures.columns import lay_out
    from ibkeys.audit.pictures.fabric_map import COLOURINGS, fabric_map, worst_findings
    from ibkeys.audit.pictures.map_svg import map_svg

    names = {number: name for number, name, *_ in found.partitions if name}
    made = fabric_map(data.fabric, names, worst_findings(found))
    source = f"{found.source}, read {time_text(found.taken)}"
    files["matrix.html"] = render_matrix(lay_out(data.reach, names), made, source=source, version=__version__)
    pages.append(("matrix.html", "Matrix and map", "Which port is in which partition, who can talk to whom, and where"))
    for colouring in COLOURINGS:
        files[f"map-{colouring}.svg"] = map_svg(made, colouring)
    by = {"partition": "partition", "level": "M_Key and ProtectBits", "finding": "finding"}
    pages += [(f"map-{each}.svg", f"Map by {by[each]}", "The map as a separate picture") for each in COLOURINGS]


def _add_diff(files: dict[str, str], pages: list[Page], data: AuditInput) -> None:
    from ibkeys.audit.formats.report_pages import render_tables
    from ibkeys.cli.audit.report_tables import what_changed

    if data.baseline is not None:
        text, tables = what_changed(data.baseline, data.snapshot)
        files["diff.html"] = render_tables(text, tables, version=__version__)
        pages.append(("diff.html", "What changed", f"{text.headline}, since {text.facts['Before']}"))


def _add_journal(files: dict[str, str], pages: list[Page], where: Where, data: AuditInput) -> None:
    """Add what changing commands did on this host; of a snapshot from elsewhere only where a journal is named."""
    from ibkeys.audit.formats.report_pages import render_tables
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
    files["journal.html"] = render_tables(text, tables, version=__version__)
    pages.append(("journal.html", "Journal", f"What changing commands did: {text.headline.lower()}"))

"""The command `rehearse`: a change made by the site's own OpenSM on a private copy of the fabric."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ibkeys import files
from ibkeys.cli import exits, options
from ibkeys.cli.documents.field import Field, JsonRow
from ibkeys.cli.documents.rehearsal import AT_START, DIFFERS, LEFT, REHEARSE
from ibkeys.cli.exits import clean, write
from ibkeys.cli.help.command import command
from ibkeys.cli.listing.folding import is_folded
from ibkeys.cli.opening import open_fabric, open_recorded, stores_of
from ibkeys.cli.options import Folding, Where
from ibkeys.cli.render import write_document
from ibkeys.cli.screen.colour import paint
from ibkeys.cli.showing import take_snapshot, write_ports
from ibkeys.cli.sm.policy import require_file
from ibkeys.errors import StoreError, UsageError
from ibkeys.printable import counted
from ibkeys.topology.names.folded import FoldedNames

if TYPE_CHECKING:
    from ibkeys.fabric.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class _RehearseOptions:
    """The options of `rehearse`: the OpenSM, its host, and those of `ibkeys apply`."""

    policy: Path | None = options.field(
        "--policy",
        metavar="FILE",
        type=click.Path(path_type=Path),
        default=None,
        help="Rehearse this policy instead of a plan: it is planned on the copy.",
    )
    now: bool = options.field(
        "--now", is_flag=True, default=False, help="Rehearse no change: show what a restart of OpenSM would change."
    )
    opensm: str | None = options.field(
        "--opensm",
        metavar="COMMAND",
        default=None,
        help="Command line of your OpenSM, in quotes.  [default: the one that runs on this host, else 'opensm']",
    )
    html: Path | None = options.field(
        "--html",
        metavar="FILE",
        type=click.Path(path_type=Path),
        default=None,
        help="Write the result as a web page too.",
    )
    host: str | None = options.field(
        "--host", metavar="NODE", default=None, help="Node on which OpenSM runs.  [default: that of the master]"
    )
    allow_removals: bool = options.field_of(options.allow_removals, default=False)
    allow_break: bool = options.field_of(options.allow_break, default=False)
    override: tuple[str, ...] = options.field_of(options.override, ())


_VERDICTS: Final = {
    "identical": "identical: OpenSM made the tables as planned, and the undo restored every value",
    "differs": "differs: not everything is as planned",
    "refused": "refused: `ibkeys apply` refuses this change",
}
_VERDICTS_NOW: Final = {
    "identical": "identical: a restart of this OpenSM changes nothing",
    "differs": "differs: a restart of this OpenSM changes values",
}
_CODES: Final = {"identical": exits.DONE, "differs": exits.SAYS_NO, "refused": exits.REFUSED}


@command("rehearse")
@click.argument("plan", required=False, type=click.Path(path_type=Path), metavar="[PLAN]")
@options.group("command_options", _RehearseOptions)
@options.folding
@options.format
@options.reading
def rehearse(where: Where, command_options: _RehearseOptions, folding: Folding, format: str, plan: Path | None) -> int:
    """Try a change with your OpenSM, on a simulated copy.

    PLAN is the file that `ibkeys plan --out` wrote. The fabric, or a snapshot of it, is served privately. Your OpenSM
    starts on this copy with its options and files, and `ibkeys apply` makes the change through it; then `ibkeys undo`.
    The tables are compared with the plan, value by value. Nothing reaches the fabric, and nothing is left on this
    host. With --from neither root nor an adapter is needed.
    """
    from ibkeys.rehearse.rehearsal import rehearse as make_rehearsal
    from ibkeys.rehearse.request import request_of
    from ibkeys.rehearse.site_opensm import find_opensm

    folded = is_folded(folding, format)
    change = _read_change(plan, command_options)
    if command_options.html is not None:
        with files.told_as(UsageError, str(command_options.html)):
            files.check_output(command_options.html)  # before the rehearsal, not after it
    opensm = find_opensm(command_options.opensm)
    snapshot = _snapshot(where)
    permitted = {"--allow-removals": command_options.allow_removals, "--allow-break": command_options.allow_break}
    only_apply = [word for word, given in permitted.items() if given and word == "--allow-removals"]
    both = [word for word, given in permitted.items() if given and word != "--allow-removals"]
    both += [word for name in command_options.override for word in ("--override", name)]
    request = request_of(
        snapshot,
        str(where.snapshot or "the fabric"),
        opensm,
        command_options.host,
        change,
        command_options.policy is not None,
        both,
        only_apply,
    )
    made = make_rehearsal(request, exits.note)
    document = {
        "verdict": made.pop("verdict"),
        "plan": made.pop("plan"),
        "snapshot": {
            "file": str(where.snapshot) if where.snapshot is not None else None,
            "finished": snapshot.about.finished,
        },
        **made,
    }
    if document["plan"] is not None:
        _note_in_journal(where, document)
    words = (_VERDICTS if document["plan"] is not None else _VERDICTS_NOW)[document["verdict"]]
    if command_options.html is not None:
        _write_page(document, words, command_options.html)
    if not write_document(format, REHEARSE, lambda: document, _rows(document)):
        _write_words(document, words, snapshot, folded)
    return _CODES[document["verdict"]]


def _read_change(plan: Path | None, command_options: _RehearseOptions) -> bytes | None:
    """Return the bytes of the plan or policy to rehearse; None with --now. Raises UsageError unless one is given, and
    for a file that cannot be read; FileFormatError for a mistake in a plan."""
    from ibkeys.plan.document_reader import read_plan

    path = plan or command_options.policy
    if [plan is not None, command_options.policy is not None, command_options.now].count(True) != 1:
        raise UsageError("give a PLAN that `ibkeys plan --out PLAN` wrote, --policy FILE, or --now: one of them")
    if path is None:
        return None
    if plan is None:
        require_file(str(path), "--policy takes a file that your OpenSM can read, not the partitions of a UFM")
    with files.told_as(UsageError, str(path)):
        if plan is not None:
            read_plan(path)
        return files.read_bytes(path, files.LARGE)


def _snapshot(where: Where) -> Snapshot:
    if where.snapshot is not None:
        return open_recorded(where).snapshot
    with open_fabric(where) as fabric:
        return take_snapshot(fabric, where, make_secret=False)


def _note_in_journal(where: Where, document: dict[str, Any]) -> None:
    """Write the note of the rehearsal into the journal that `ibkeys apply` reads. A failure is a warning: the rehearsal
    was made all the same."""
    from ibkeys.store.journal import Journal
    from ibkeys.store.journal.rehearsals import note_rehearsal

    path = stores_of(where).journal
    if path is None:
        return
    opensm = document["opensm"]
    about = document["plan"], document["verdict"], document["snapshot"]["finished"]
    try:
        with Journal(path) as journal:
            note_rehearsal(journal, *about, opensm["source"], opensm["program"])
    except StoreError as error:
        exits.warn(f"`ibkeys apply` will not know of this rehearsal: {error}")


# --- output -----------------------------------------------------------------------------------------------------------

_PARTS: Final[dict[str, tuple[tuple[Field, ...], str]]] = {
    "differences": (DIFFERS, "{} not as planned:"),
    "left_by_undo": (LEFT, "{} that the undo did not restore:"),
    "at_start": (AT_START, "{} that a restart of this OpenSM changes in any case:"),
}


def _rows(document: dict[str, Any]) -> Iterator[JsonRow]:
    return ({"part": part, "cause": None, **row} for part in _PARTS for row in document[part])


def _write_page(document: dict[str, Any], words: str, path: Path) -> None:
    from ibkeys.rehearse.page import render
    from ibkeys.version import __version__

    with files.told_as(UsageError, str(path)):
        files.replace_file(files.check_output(path), render(document, words, version=__version__).encode())


def _write_words(document: dict[str, Any], words: str, snapshot: Snapshot, folded: bool) -> None:
    from ibkeys.rehearse.causes import IN_WORDS
    from ibkeys.rehearse.page import UNKNOWN

    write(paint(words, "unchanged" if document["verdict"] == "identical" else "changed"))
    opensm = document["opensm"]
    file = opensm["options_file"]
    write(
        clean(
            f"OpenSM: {opensm['program']} ({opensm['source']}), "
            f"{f'options of {file}' if file else 'no options file'}, on {opensm['port']['node_desc']!r} port "
            f"{opensm['port']['port']}; copy of the fabric at {document['snapshot']['finished']}"
        )
    )
    for name in ("apply", "undo"):
        step = document[name]
        if step is not None:
            write(
                clean(
                    f"{name}: exit status {step['exit_code']} after {step['seconds']} s, {step['sets']} Sets, "
                    f"{counted(step['sweeps'], 'heavy sweep')}; at most {counted(step['most_cut'], 'pair')} cut and "
                    f"{step['most_open']} connected that should not be"
                )
            )
            if step["message"]:
                write(clean(f"  {step['message']}"))
    names = FoldedNames((port.identity() for port in snapshot.fabric.ports()), snapshot.fabric)
    for part, (fields, title) in _PARTS.items():
        rows = document[part]
        if rows:
            write("")
            write(title.format(counted(len(rows), "value")))
            write_ports(fields, rows, names, folded)
            for cause in dict.fromkeys(row["cause"] for row in rows if "cause" in row):
                write(f"  {cause}: {IN_WORDS[cause]}")
    for each in document["opensm_errors"]:
        write(f"OpenSM logged ERR {each['error']} {each['count']} times")
    if document["plan"] is not None:
        gained, lost = document["pairs_gained"], document["pairs_lost"]
        write(f"pairs of end ports that gain connectivity: {gained}; that lose connectivity: {lost}")
    exits.warn_each([*document["notes"], f"a rehearsal does not know {'; '.join(UNKNOWN)}"], "note")

"""The command `rehearse`: a change made by the site's own OpenSM on a private copy of the fabric."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ibkeys import files
from ibkeys.cli import exits, options
from ibkeys.cli.documents.field import Field, JsonRow
from ibkeys.cli.documents.rehearsal import AT_START, AT_TAKEOVER, DIFFERS, LEFT, REHEARSE
from ibkeys.cli.exits import clean, write
from ibkeys.cli.help.command import Command
from ibkeys.cli.opening import open_fabric, open_recorded, stores_of
from ibkeys.cli.options import Folding, Where
from ibkeys.cli.render import write_document
from ibkeys.cli.screen.colour import paint
from ibkeys.cli.showing import take_snapshot, write_ports
from ibkeys.cli.sm.policy import require_file
from ibkeys.errors import StoreError, UsageError
from ibkeys.files import or_none
from ibkeys.printable import counted
from ibkeys.topology.names.folded import FoldedNames

if TYPE_CHECKING:
    from ibkeys.fabric.snapshot import Snapshot
    from ibkeys.rehearse.rehearsal import RehearsalRequest
    from ibkeys.rehearse.site_opensm import SiteOpensm


@dataclass(frozen=True, slots=True)
class _RehearseOptions:
    """The options of `rehearse`: the OpenSM, its host, and those of `ibkeys apply`."""

    policy: Path | None = options.field(
        "--policy",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Rehearse this policy instead of a plan: it is planned on the copy.",
    )
    now: bool = options.field(
        "--now", is_flag=True, help="Rehearse no change: show what a restart of OpenSM would change."
    )
    opensm: str | None = options.field(
        "--opensm",
        metavar="COMMAND",
        help="Command line of your OpenSM, in quotes.  [default: the one that runs on this host, else 'opensm']",
    )
    html: Path | None = options.field(
        "--html",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Write the result as a web page too.",
    )
    faults: bool = options.field(
        "--faults",
        is_flag=True,
        help="Try faults too: OpenSM killed, a node silent, ibkeys killed; then resume or undo.",
    )
    fault_runs: int | None = options.number_field(
        "--fault-runs", 1, 1000, "N", "Number of faults to try, with --faults.  [default: 6]"
    )
    seed: int | None = options.number_field(
        "--seed", 0, 2**32 - 1, "N", "Choose the same faults again, with --faults.  [default: 0]"
    )
    pack: Path | None = options.field(
        "--pack",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Only write a bundle without keys, for --from on another machine.",
    )
    host: str | None = options.field(
        "--host", metavar="NODE", help="Node on which OpenSM runs.  [default: that of the master]"
    )
    standby: tuple[str, ...] = options.field(
        "--standby",
        multiple=True,
        metavar="NODE:COMMAND",
        help="Node of a standby SM, and the command line of its OpenSM; repeatable.",
    )
    allow_removals: bool = options.field_of(options.allow_removals, default=False)
    allow_break: bool = options.field_of(options.allow_break, default=False)
    override: tuple[str, ...] = options.field_of(options.override, ())


_VERDICTS: Final = {
    "identical": "identical: OpenSM made the tables as planned, and the undo restored every value",
    "differs": "differs: not everything is as planned",
    "refused": "refused: ibkeys refuses this change",
}
_VERDICTS_NOW: Final = {
    "identical": "identical: a restart of this OpenSM changes nothing",
    "differs": "differs: a restart of this OpenSM, or a takeover, changes values",
}
_CODES: Final = {"identical": exits.DONE, "differs": exits.SAYS_NO, "refused": exits.REFUSED}


class _Rehearse(Command):
    """The command `rehearse`: if its first word is a command, all that follows belongs to that one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments."""
        ctx.allow_interspersed_args = False
        with suppress(click.UsageError):  # parsing in the other mode reports the mistake
            found, _, _ = self.make_parser(ctx).parse_args(list(args))
            words = found.get("words")  # a sentinel of click if there are none
            ctx.allow_interspersed_args = not (isinstance(words, tuple) and _is_command(words))
        return super().parse_args(ctx, args)


@click.command("rehearse", cls=_Rehearse)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[PLAN|COMMAND...]")
@options.group("command_options", _RehearseOptions)
@options.folding
@options.format
@options.reading
def rehearse(
    where: Where, command_options: _RehearseOptions, folding: Folding, format: str, words: tuple[str, ...]
) -> int:
    """Try a change with your OpenSM, on a simulated copy.

    PLAN is the file that `ibkeys plan --out` wrote. COMMAND is mkey-deploy, mkey-rotate, mkey-remove, partition-add (or
    -remove, -delete, -rename), replace or undo, with its own arguments; options of rehearse stand before it. The
    fabric, or a snapshot of it, is served privately. Your OpenSM starts on this copy with its options and files, and
    ibkeys makes the change through it; then `ibkeys undo`. The tables are compared with what was planned, value by
    value. Nothing reaches the fabric, and nothing is left on this host. A rehearsal on a snapshot (--from) needs
    neither root nor an adapter.
    """
    from ibkeys.rehearse.rehearsal import rehearse as make_rehearsal
    from ibkeys.rehearse.request import request_of
    from ibkeys.rehearse.surprises import notes_on_unread_nodes

    if command_options.pack is not None:
        return _pack(where, command_options, words)
    folded = folding.is_folded(format)
    change = _read_change(words, command_options)
    _check_faults(command_options)
    command = words if _is_command(words) else ()
    if command_options.html is not None:
        with files.os_errors_as(UsageError, str(command_options.html)):
            files.check_output(command_options.html)  # before the rehearsal, not after it
    opensm, snapshot = _opensm_and_snapshot(where, command_options)
    only_apply = ["--allow-removals"] if command_options.allow_removals else []
    both = ["--allow-break"] if command_options.allow_break else []
    both += [word for name in command_options.override for word in ("--override", name)]
    request = request_of(
        snapshot,
        str(where.snapshot or "the fabric"),
        opensm,
        command_options.host,
        change,
        command_options.policy is not None,
        command,
        _operation(command),
        stores_of(where).journal if opensm.packed is None else None,
        command_options.standby,
        both,
        only_apply,
    )
    made = make_rehearsal(request, exits.note)
    made["notes"] += notes_on_unread_nodes(snapshot.fabric)
    if command_options.faults and made["apply"] is not None and made["verdict"] != "refused":
        _add_faults(made, request, command_options)
    document = {
        "verdict": made.pop("verdict"),
        "command": made.pop("command"),
        "plan": made.pop("plan"),
        "snapshot": {
            "file": str(where.snapshot) if where.snapshot is not None else None,
            "finished": snapshot.about.finished,
        },
        **made,
    }
    if document["plan"] is not None:
        _note_in_journal(where, document)
    verdict = (_VERDICTS_NOW if command_options.now else _VERDICTS)[document["verdict"]]
    if command_options.html is not None:
        _write_page(document, verdict, command_options.html)
    if not write_document(format, REHEARSE, lambda: document, _rows(document)):
        _write_words(document, verdict, snapshot, folded)
    return _CODES[document["verdict"]]


def _is_command(words: Sequence[str]) -> bool:
    from ibkeys.rehearse.commands import COMMANDS, NOT_REHEARSED

    return bool(words) and words[0] in {*COMMANDS, *NOT_REHEARSED}


def _check_faults(command_options: _RehearseOptions) -> None:
    """Raise UsageError for options of faults that have no effect."""
    if command_options.faults and command_options.now:
        raise UsageError("--faults is for a change, and --now has none: omit one of them")
    if not command_options.faults and (command_options.fault_runs is not None or command_options.seed is not None):
        raise UsageError("--fault-runs and --seed require --faults")


def _read_change(words: Sequence[str], command_options: _RehearseOptions) -> bytes | None:
    """Return the bytes of the plan or policy to rehearse; None with --now and for a command. Raises UsageError unless
    one is given, and for a file that cannot be read; FileFormatError for a mistake in a plan."""
    from ibkeys.plan.document_reader import read_plan
    from ibkeys.rehearse.commands import COMMANDS, NOT_REHEARSED

    is_command = _is_command(words)
    if is_command and words[0] in NOT_REHEARSED:
        raise UsageError(f"{words[0]} cannot be rehearsed: {NOT_REHEARSED[words[0]]}")
    path = command_options.policy if is_command or not words else Path(words[0])
    if [bool(words), command_options.policy is not None, command_options.now].count(True) != 1:
        raise UsageError(
            "give a PLAN that `ibkeys plan --out PLAN` wrote, --policy FILE, a COMMAND, or --now: one of them"
        )
    if path is None or is_command:
        return None
    if len(words) > 1:
        raise UsageError(f"{words[0]} is none of the commands that can be rehearsed: {', '.join(COMMANDS)}")
    if not words:
        require_file(str(path), "--policy takes a file that your OpenSM can read, not the partitions of a UFM")
    if words:
        read_plan(path)
    with files.os_errors_as(UsageError, str(path)):
        return files.read_bytes(path, files.LARGE)


def _operation(command: Sequence[str]) -> int | None:
    """Return the operation that `undo` takes back; None for another command. Raises UsageError if it is not named."""
    if command[:1] != ("undo",):
        return None
    number = next((int(word) for word in command[1:] if word.isdecimal()), None)
    if number is None:
        raise UsageError("name the operation to undo: `ibkeys journal` lists them")
    return number


def _opensm_and_snapshot(where: Where, command_options: _RehearseOptions) -> tuple[SiteOpensm, Snapshot]:
    """Return the OpenSM of the rehearsal, and the snapshot of its fabric: both from a bundle if --from names one."""
    from ibkeys.fabric.snapshot_file import load_snapshot_image
    from ibkeys.rehearse.bundle import is_bundle, read_bundle
    from ibkeys.rehearse.site_opensm import find_opensm, packed_opensm

    named = command_options.opensm
    if where.snapshot is None:
        opensm = find_opensm(named)
        with open_fabric(where) as fabric:
            return opensm, take_snapshot(fabric, where, make_secret=False)
    path = Path(where.snapshot)
    if not or_none(is_bundle, path):
        return find_opensm(named), open_recorded(where).snapshot
    bundle = read_bundle(path)
    opensm = packed_opensm(bundle, named)
    packed = " ".join([bundle.program, *bundle.words])
    exits.note(f"options and files are those of `{packed}` in the bundle; the program is {opensm.program} of this host")
    return opensm, load_snapshot_image(bundle.snapshot, str(where.snapshot))


def _pack(where: Where, command_options: _RehearseOptions, words: Sequence[str]) -> int:
    """Write the bundle of --pack, and return the exit code. Raises UsageError for other options of a rehearsal, for a
    snapshot with M_Keys, and for a file that cannot be written."""
    from ibkeys.fabric.snapshot_file import snapshot_image
    from ibkeys.rehearse.bundle import bundle_bytes
    from ibkeys.rehearse.packing import pack
    from ibkeys.rehearse.request import request_of

    path, others = command_options.pack, replace(command_options, pack=None, opensm=None, host=None)
    assert path is not None
    if words or others != _RehearseOptions():
        raise UsageError("--pack makes no rehearsal: give only --from, --opensm and --host with it")
    with files.os_errors_as(UsageError, str(path)):
        target = files.check_output(path)
    opensm, snapshot = _opensm_and_snapshot(where, command_options)
    if where.snapshot is None:
        image = snapshot_image(snapshot)
    elif opensm.packed is not None or snapshot.about.has_keys:
        what = "is a bundle already" if opensm.packed is not None else "was taken with -K and has M_Keys"
        raise UsageError(f"{where.snapshot} {what}: pack a snapshot without keys")
    else:
        with files.os_errors_as(UsageError, str(where.snapshot)):
            image = files.read_bytes(where.snapshot, files.LARGE)
    bundle, notes = pack(request_of(snapshot, str(where.snapshot or path), opensm, command_options.host), image)
    with files.os_errors_as(UsageError, str(path)):
        files.replace_file(target, bundle_bytes(bundle))
    copied = ", ".join(sorted(bundle.files)) or "none"
    write(
        clean(f"{path}: the snapshot of {snapshot.about.finished}, OpenSM's options with made-up keys; files: {copied}")
    )
    exits.warn_each(notes, "note")
    return exits.DONE


def _add_faults(made: dict[str, Any], request: RehearsalRequest, command_options: _RehearseOptions) -> None:
    """Try faults, and add them to the result *made* of the rehearsal without faults."""
    from ibkeys.rehearse.faults import RUNS, choose_faults, try_faults

    seed = command_options.seed or 0
    chosen = choose_faults(made, command_options.fault_runs or RUNS, seed)
    made |= {"seed": seed, "faults": try_faults(request, chosen, exits.note)}
    if not chosen:
        made["notes"].append("no fault was tried: no Set of this change writes P_Keys, enforcement or an M_Key")
    if not all(each["worked"] for each in made["faults"]):
        made["verdict"] = "differs"


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
    "at_takeover": (AT_TAKEOVER, "{} that a takeover by a standby changes in any case:"),
}


def _rows(document: dict[str, Any]) -> Iterator[JsonRow]:
    return ({"part": part, "cause": None, "standby": None, **row} for part in _PARTS for row in document[part])


def _write_page(document: dict[str, Any], words: str, path: Path) -> None:
    from ibkeys.rehearse.page import render
    from ibkeys.version import __version__

    with files.os_errors_as(UsageError, str(path)):
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
            ran = document["command"] if name == "apply" else name
            write(
                clean(
                    f"{ran}: exit status {step['exit_code']} after {step['seconds']} s, {step['sets']} Sets, "
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
    _write_faults(document)
    for each in document["opensm_errors"]:
        write(f"OpenSM logged ERR {each['error']} {each['count']} times")
    if document["unknown_indexes"]:
        ports = FoldedNames(document["unknown_indexes"], snapshot.fabric).words(document["unknown_indexes"])
        write(clean(f"the index of a new P_Key may differ, if OpenSM remembers another: {', '.join(ports)}"))
    if document["plan"] is not None:
        gained, lost = document["pairs_gained"], document["pairs_lost"]
        write(f"pairs of end ports that gain connectivity: {gained}; that lose connectivity: {lost}")
    exits.warn_each(document["notes"], "note")
    exits.detail(f"a rehearsal does not know {'; '.join(UNKNOWN)}")


def _write_faults(document: dict[str, Any]) -> None:
    from ibkeys.rehearse.fault_words import change_in_words, fault_in_words, loss_in_words, way_back_in_words

    tried = document["faults"] or ()
    if tried:
        worked = sum(each["worked"] for each in tried)
        write(f"faults tried: {len(tried)} (--seed {document['seed']}); the way back worked after {worked} of them")
    for each in tried:
        mark = "" if each["worked"] else "NOT RESTORED: "
        write(clean(f"  {mark}{fault_in_words(each)}: {change_in_words(each)}; {way_back_in_words(each)}"))
        write(clean(f"    {loss_in_words(each)}"))
        for message in filter(None, (each["message"], each["back_message"])) if not each["worked"] else ():
            write(clean(f"    {message}"))

"""The command `snapshot`: the whole fabric's keys in one file."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import ibkeys
from ibkeys.classkeys.reading import ANSWERED
from ibkeys.cli import exits, options
from ibkeys.cli.documents.snapshots import SNAPSHOT
from ibkeys.cli.exits import write
from ibkeys.cli.given import is_typed
from ibkeys.cli.help.command import command
from ibkeys.cli.mkeys.asking_class_keys import ASK_UNKEYED, CLASS_KEYS, ask_all_ports, refuse_unkeyed_alone
from ibkeys.cli.opening import open_fabric, open_sa
from ibkeys.cli.options import AskSa, Where
from ibkeys.cli.render import write_document
from ibkeys.cli.showing import errors_of, finish, say_notes, take_snapshot
from ibkeys.cli.types import DURATION
from ibkeys.errors import UsageError
from ibkeys.printable import counted

if TYPE_CHECKING:
    from ibkeys.fabric.snapshot import Snapshot
    from ibkeys.fabric.snapshot_folder import SnapshotFolder


@dataclass(frozen=True, slots=True)
class _SnapshotOptions:
    """The options of `snapshot`: the folder, and the parts to add to the sweep."""

    into: str | None = options.field(
        "--into", metavar="DIR", help="Folder for snapshots named by their time; its link latest leads to the newest."
    )
    keep: timedelta | None = options.field(
        "--keep", type=DURATION, metavar="TIME", help="With --into: remove older snapshots (30d, 12h, 8w)."
    )
    probe_sa: bool = options.field_of(options.probe_sa, default=False)
    with_sa: bool = options.field(
        "--sa", "with_sa", is_flag=True, help="Store what the SA says about every port, for compare --from."
    )
    sa: AskSa = options.field_of(options.sa)
    class_keys: bool = options.field_of(CLASS_KEYS, default=False)
    ask_unkeyed: bool = options.field_of(ASK_UNKEYED, default=False)


@command("snapshot")
@click.argument("file", required=False, metavar="FILE")
@options.group("command_options", _SnapshotOptions)
@options.format
@options.fabric
def snapshot(where: Where, file: str | None, command_options: _SnapshotOptions, format: str) -> int:
    """Save the whole fabric's keys in one file.

    FILE is an SQLite database: nodes, ports, links, P_Key tables, M_Key state and counters, with the raw bytes of each,
    and the errors of what could not be read. M_Keys are stored as fingerprints, with -K in clear. Every reading command
    reads the file with --from. An existing snapshot is replaced in one step; any other file is left alone, and the
    command ends. With --into DIR the file is named by its time, and none is replaced.
    """
    from ibkeys.fabric.probes import probe_sa as ask_sa
    from ibkeys.fabric.sa_view import ask_sa_view
    from ibkeys.store.snapshot import check_place

    sa, folder = command_options.sa, _folder(file, command_options.into, command_options.keep)
    refuse_unkeyed_alone(command_options.class_keys, command_options.ask_unkeyed)
    if file is not None:
        check_place(Path(file))  # before the sweep, not after it
    with open_fabric(where) as fabric:
        fabric.routes = "all" if where.routes else "none"
        client = open_sa(fabric, where, sa) if command_options.with_sa else None  # a key is asked for before the sweep
        taken = take_snapshot(fabric, where, make_secret=True)
        if command_options.probe_sa:
            taken.sa_probes = ask_sa(fabric, sa.sm_port, sa.pkey_idx)
        if client is not None:
            taken.sa_view = ask_sa_view(client, taken.fabric)
        if command_options.class_keys:
            ask_all_ports(fabric, taken, command_options.ask_unkeyed, sa.pkey_idx)
    say_notes(taken.fabric)
    place = folder.place_for(taken) if folder is not None else Path(file or "")
    ibkeys.save(taken, place, with_keys=where.show_keys)
    removed = folder.finish(place, command_options.keep) if folder is not None else []
    _say_unread_counters(taken)
    _say_silent_sa(taken)
    return _report(taken, str(place), [each.name for each in removed], where.show_keys, format)


def _folder(file: str | None, into: str | None, keep: timedelta | None) -> SnapshotFolder | None:
    """Return the folder of --into, checked before the sweep; None where FILE is given. Raises UsageError."""
    from ibkeys.fabric.snapshot_folder import SnapshotFolder

    if file is not None:
        if is_typed("into"):
            raise UsageError("give FILE or --into DIR, not both")
        if is_typed("keep"):
            raise UsageError("--keep requires --into DIR: with FILE nothing is removed")
        return None
    if into is None:
        raise UsageError("no destination: give FILE or --into DIR" + (" with --keep" if keep is not None else ""))
    folder = SnapshotFolder(Path(into))
    folder.check()
    return folder


def _report(taken: Snapshot, file: str, removed: list[str], with_keys: bool, format: str) -> int:
    errors = errors_of(taken.fabric)
    summary = _summary(taken, with_keys)
    row = {"file": file, **summary}
    document = {**row, "removed": removed, "errors": errors, "unreached": taken.fabric.unreached}
    if not write_document(format, SNAPSHOT, lambda: document, [row]):
        keys = "with its M_Keys" if with_keys else "M_Keys as fingerprints"
        things = (("nodes", "node"), ("ports", "port"), ("links", "link"), ("pkeys", "P_Key"))
        write(f"{file}: {', '.join(counted(summary[name], what) for name, what in things)}; {keys}")
        if removed:
            write(f"removed, for their age: {', '.join(removed)}")
    return finish(errors, format)


def _say_unread_counters(taken: Snapshot) -> None:
    """Warn about switch ports whose PortCounters were not read.

    PortCounters are read by LID and P_Key, not by the sweep, so the sweep's errors do not name these ports.
    """
    unread = [(port, errors.error) for port, errors in taken.constraint_errors.items() if errors.error is not None]
    if unread:
        (port, error), count = unread[0], counted(len(unread), "switch port")
        exits.warn(f"PortCounters of {count} that enforce partitions could not be read; {port}: {error}")


def _say_silent_sa(taken: Snapshot) -> None:
    """Warn about queries that the SA did not answer. They are no part of the sweep, so its errors do not name them."""
    answers = taken.sa_view.answers.values() if taken.sa_view is not None else ()
    for detail in dict.fromkeys(each.detail for each in answers if each.outcome != "answered"):
        exits.warn(f"part of the SA's data is missing in the snapshot: {detail}")


def _summary(taken: Snapshot, with_keys: bool) -> dict[str, Any]:
    ports = list(taken.fabric.ports())
    return {
        "started": taken.about.started,
        "finished": taken.about.finished,
        "has_keys": with_keys,
        "nodes": len(taken.fabric.nodes),
        "ports": len(ports),
        "links": sum(port.peer is not None for port in ports) // 2,
        "port_counters_unread": sum(errors.error is not None for errors in taken.constraint_errors.values()),
        "class_keys": None if taken.class_keys is None else sum(each.state in ANSWERED for each in taken.class_keys),
        "pkeys": sum(len(port.occupied or ()) for port in ports),
    }

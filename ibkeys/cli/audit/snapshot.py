"""The whole fabric's keys into one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import ibkeys
from ibkeys.cli import exits, options
from ibkeys.cli.exits import write
from ibkeys.cli.opening import open_fabric, open_sa
from ibkeys.cli.options import AskSa, Where
from ibkeys.cli.render import write_csv, write_json
from ibkeys.cli.showing import errors_of, finish, say_notes, take_snapshot

if TYPE_CHECKING:
    from ibkeys.fabric.snapshot import Snapshot


@click.command("snapshot")
@click.argument("file")
@options.probe_sa
@options.option("--sa", "with_sa", is_flag=True, help="Keep what the SA says of every port, for compare --from.")
@options.sa
@options.format
@options.fabric
def snapshot(where: Where, file: str, format: str, probe_sa: bool, with_sa: bool, sa: AskSa) -> int:
    """Read the whole fabric's keys into one file.

    FILE is an SQLite database: nodes, ports, links, P_Key tables, M_Key state and counters, each with the raw bytes
    that were read, and what could not be read and why. M_Keys are kept as fingerprints, with -K as they are. Every
    reading command reads it with --from. A snapshot that is there is replaced at one stroke; any other file stays, and
    the command ends.
    """
    from ibkeys.fabric.probes import probe_sa as ask_sa
    from ibkeys.fabric.sa_view import ask_sa_view
    from ibkeys.store.snapshot import check_place

    check_place(Path(file))  # before the sweep, not after it
    with open_fabric(where) as fabric:
        client = open_sa(fabric, where, sa) if with_sa else None  # a key is asked for before the sweep
        taken = take_snapshot(fabric, where, make_secret=True)
        if probe_sa:
            taken.sa_probes = ask_sa(fabric, sa.sm_port, sa.pkey_idx)
        if client is not None:
            taken.sa_view = ask_sa_view(client, taken.fabric)
    say_notes(taken.fabric)
    ibkeys.save(taken, file, with_keys=where.show_keys)
    _say_unread_counters(taken)
    _say_silent_sa(taken)
    errors = errors_of(taken.fabric)
    summary = _summary(taken, where.show_keys)
    if format == "json":
        write_json("snapshot", {"file": file, **summary, "errors": errors, "unreached": taken.fabric.unreached})
    elif format == "csv":
        write_csv(["file", *summary], [{"file": file, **summary}])
    else:
        keys = "with its M_Keys" if where.show_keys else "M_Keys as fingerprints"
        write(
            f"{file}: {summary['nodes']} nodes, {summary['ports']} ports, {summary['links']} links, "
            f"{summary['p_keys']} P_Keys; {keys}"
        )
    return finish(errors, format)


def _say_unread_counters(taken: Snapshot) -> None:
    """Say whose PortCounters are missing; they are asked by LID and P_Key, and no part of the sweep."""
    unread = [(port, errors.error) for port, errors in taken.constraint_errors.items() if errors.error is not None]
    if unread:
        (port, error), count = unread[0], f"{len(unread)} switch port{'s' if len(unread) != 1 else ''}"
        exits.warn(f"PortCounters of {count} that enforce partitions could not be read; {port}: {error}")


def _say_silent_sa(taken: Snapshot) -> None:
    """Say what the SA was asked and did not tell; that is no part of the sweep either."""
    answers = taken.sa_view.answers.values() if taken.sa_view is not None else ()
    for detail in dict.fromkeys(each.detail for each in answers if each.outcome != "answered"):
        exits.warn(f"of what the SA says this is not in the snapshot: {detail}")


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
        "p_keys": sum(len(port.occupied or ()) for port in ports),
    }

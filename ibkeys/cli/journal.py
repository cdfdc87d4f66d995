"""What changing commands did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ibkeys.cli import exits, options
from ibkeys.cli.exits import write
from ibkeys.cli.options import Where
from ibkeys.cli.render import IDENTITY, NOTHING, heading_of, write_csv, write_json, write_table
from ibkeys.cli.types import Number
from ibkeys.cli.where import journal_of

if TYPE_CHECKING:
    from ibkeys.store.journal import Entry, OperationRecord


@click.command("journal")
@click.argument("operation", required=False, type=Number(1, 2**31), metavar="[ID]")
@options.format
@options.fabric
def journal(where: Where, format: str, operation: int | None) -> int:
    """Show what changing commands did.

    One line for each operation; with ID what it overwrote, port by port. An operation that is open was interrupted, or
    could not be proven: `ibkeys undo ID` goes back, and an apply is finished by `ibkeys apply --resume`.
    """
    from ibkeys.store.journal import Journal

    with Journal(journal_of(where), create=False) as stored:
        records = stored.list_operations() if operation is None else [stored.find(operation)]
        entries = [] if operation is None else stored.entries(operation)
    operations = [_operation(record) for record in records]
    rows = [row for entry in entries for row in _rows(entry)]
    if format == "json":
        write_json("journal", {"operations": operations, **({} if operation is None else {"changes": rows})})
    elif format == "csv" and operation is None:
        write_csv(["id", "command", "state", "started", "finished", "ports", "unproven", "unconfirmed"], operations)
    elif format == "csv":
        write_csv([*IDENTITY, "status", "kind", "index", "before", "after"], rows)
    else:
        _write(operations, rows)
    return exits.DONE


def _operation(record: OperationRecord) -> dict[str, Any]:
    """The contract knows three states: what failed, or waits for a confirmation, is open."""
    is_open = record.state == "failed" or record.awaits_confirmation
    return {
        "id": record.id,
        "command": record.command,
        "state": "open" if is_open else record.state,
        "started": record.started,
        "finished": record.finished,
        "ports": record.ports,
        "unproven": record.unproven,
        "unconfirmed": record.awaits_confirmation,
    }


def _rows(entry: Entry) -> list[dict[str, Any]]:
    """What one Set changed: one row for each P_Key entry or field."""
    from ibkeys.change.images import changes_of

    image = entry.image
    identity = {
        "node_guid": f"0x{image.node_guid:016x}",
        "port_guid": f"0x{image.port_guid:016x}" if image.port_guid else None,
        "node_desc": image.node_desc,
        "node_type": image.node_type,
        "port": image.port,
        "lid": image.lid,
    }
    return [
        {**identity, "status": entry.status, "kind": kind, "index": index, "before": before, "after": after}
        for kind, index, before, after in changes_of(image)
    ]


def _write(operations: list[dict[str, Any]], rows: list[dict[str, Any]]) -> None:
    if not operations:
        write("the journal is empty")
        return
    titles = ["Id", "Command", "State", "Started", "Finished", "Ports", "Unproven Sets"]
    write_table(titles, ([*map(_cell, list(each.values())[:7])] for each in operations))
    for each in operations:
        if each["unconfirmed"]:
            write(f"operation {each['id']} goes back unless it is confirmed: `ibkeys apply --confirm {each['id']}`")
    heading = ""
    for row in rows:
        if heading_of(row) != heading:
            heading = heading_of(row)
            write(heading)
        index = f"[{row['index']}]" if row["index"] is not None else ""
        proven = "" if row["status"] == "done" else f" ({row['status']})"
        write(f"  {row['kind']}{index}: {_cell(row['before'])} -> {_cell(row['after'])}{proven}")


def _cell(value: object) -> object:
    return NOTHING if value is None else value

"""The command `import`: a snapshot made from files that other tools wrote."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

import ibkeys
from ibkeys.cli import exits, options
from ibkeys.cli.documents.snapshots import IMPORT
from ibkeys.cli.exits import clean, write
from ibkeys.cli.help.command import command
from ibkeys.cli.render import write_document
from ibkeys.cli.screen.lines import keep_whole
from ibkeys.printable import counted

if TYPE_CHECKING:
    from ibkeys.fabric.snapshot import Snapshot


@command("import")
@click.argument("files", metavar="FILE...", nargs=-1)
@options.option(
    "--out", env=False, required=True, metavar="SNAPSHOT", help="Where the snapshot goes; an earlier one is replaced."
)
@options.option(
    "--pkeys-of",
    env=False,
    type=(str, str),
    multiple=True,
    metavar="PORT FILE",
    help="FILE is the output of smpquery pkeys for PORT: LID, LID:N, GUID or GUID:N; repeatable.",
)
@options.format
@options.common
def import_(files: tuple[str, ...], out: str, pkeys_of: tuple[tuple[str, str], ...], format: str) -> int:
    """Make a snapshot from files that other tools wrote.

    FILE is an ibdiagnet2.db_csv, a file of ibnetdiscover --cache, the output of ibnetdiscover, saquery (NodeRecord,
    PortInfoRecord, PKeyTableRecord) or smpquery (nodeinfo, portinfo, switchinfo), or an opensm-subnet.lst. Name all
    files of one fabric together. Values that none of them has are unknown. Values that come only from the SM are
    marked as reported by it. M_Keys are stored as fingerprints. Nothing is sent. Every
    command with --from then reads the snapshot.
    """
    from ibkeys.dumps.importing import TableOf
    from ibkeys.opening import import_snapshot
    from ibkeys.store.snapshot import check_place

    check_place(Path(out))
    tables = [TableOf(port, Path(file)) for port, file in pkeys_of]
    snapshot, warnings = import_snapshot([Path(file) for file in files], tables)
    keep_whole(node.description for node in snapshot.fabric.nodes)
    exits.warn_each(snapshot.fabric.notes, "note")
    exits.warn_each(warnings)
    ibkeys.save(snapshot, out)
    _report(snapshot, out, format)
    return exits.DONE


_SM_WORD: Final = ", reported by the SM"


def _report(snapshot: Snapshot, out: str, format: str) -> None:
    summary = _summary(snapshot)
    row = {"file": out, **summary}
    files = [
        {
            "file": each.name,
            "kind": each.kind,
            "modified": each.written,
            "sm_word": each.is_sm,
            "m_keys": each.m_keys,
        }
        for each in snapshot.files
    ]
    document = {**row, "files": files, "notes": snapshot.fabric.notes}
    if not write_document(format, IMPORT, lambda: document, [row]):
        for each in snapshot.files:
            write(clean(f"{each.name}: {each.kind}, written {each.written}{_SM_WORD if each.is_sm else ''}"))
        write(
            f"{out}: {counted(summary['nodes'], 'node')}, {counted(summary['ports'], 'port')}, "
            f"{counted(summary['links'], 'link')}, {counted(summary['pkeys'], 'P_Key')}; M_Keys as fingerprints"
        )
        unread = (("port_info_unknown", "PortInfo"), ("pkeys_unknown", "P_Key table"))
        missing = [f"the {what} of {counted(summary[key], 'port')}" for key, what in unread if summary[key]]
        if missing:
            write(f"not in these files, so unknown: {' and '.join(missing)}")


def _summary(snapshot: Snapshot) -> dict[str, Any]:
    ports = list(snapshot.fabric.ports())
    return {
        "nodes": len(snapshot.fabric.nodes),
        "ports": len(ports),
        "links": sum(port.peer is not None for port in ports) // 2,
        "pkeys": sum(len(port.occupied or ()) for port in ports),
        "port_info_unknown": sum(port.info is None for port in ports),
        "pkeys_unknown": sum(port.p_key_raw is None for port in ports),
        "m_keys": sum(each.m_keys for each in snapshot.files),
    }

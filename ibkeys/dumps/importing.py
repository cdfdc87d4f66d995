"""Making one snapshot of the files that other tools wrote about a fabric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ibkeys.dumps.facts import PortFacts
from ibkeys.dumps.joining import DescribedFabric, FileFacts, join
from ibkeys.dumps.kinds import kind_of, read_file
from ibkeys.dumps.routes import lay_routes, start_of
from ibkeys.errors import EncodeError, FileFormatError, UsageError
from ibkeys.fabric.snapshot import ImportedFile, Snapshot, SnapshotOrigin, traits_of
from ibkeys.keys.fingerprint import Fingerprints
from ibkeys.keys.guid import is_spelled_as_guid, parse_guid
from ibkeys.mad.attributes import NodeInfo, PKeyTable, PortInfo, SwitchInfo
from ibkeys.mad.const import MAX_PORT, MAX_UNICAST_LID
from ibkeys.mad.virtualization import VirtualizationInfo
from ibkeys.printable import clean, counted
from ibkeys.store.sqlite import timestamp
from ibkeys.topology.model import Trouble
from ibkeys.topology.nodes import Port
from ibkeys.version import __version__

_SAMPLE: Final = 3
_NO_LINKS: Final = "no imported file says what is at the far end of its link"


@dataclass(frozen=True, slots=True)
class TableOf:
    """The output of ``smpquery pkeys`` in *path*, and the port of the table: as ``parse_owner`` takes it."""

    owner: str
    path: Path


def import_files(paths: Sequence[Path], fingerprints: Fingerprints, tables: Sequence[TableOf] = ()) -> Snapshot:
    """Return the snapshot of these files of one fabric together, with the M_Keys in them.

    *fingerprints*: `save_snapshot` writes these in place of the keys. Raises FileFormatError (with file, and line where
    there is one; no message shows a value, for it may be a key) and UsageError.
    """
    owners = {each.path: parse_owner(each.owner) for each in tables}
    if len(owners) < len(tables):
        raise UsageError("the same file is named twice as the P_Key table of a port")
    every = list(dict.fromkeys([*paths, *owners]))
    if not every:
        raise UsageError("no file to import")
    read = [_read(path, owners.get(path)) for path in every]
    joined = join(read)
    start = start_of(joined.fabric, [each.facts.start for each in read if each.facts.start is not None])
    route_notes = lay_routes(joined.fabric, start)
    _name_unread(joined)
    files = [each.about for each in read]
    joined.fabric.notes += [
        *(note for each in read for note in _few(each.facts.notes)),
        *joined.notes,
        *route_notes,
    ]
    about = _about(joined, files, start, fingerprints)
    return Snapshot(
        joined.fabric,
        about,
        traits_of(joined.fabric),
        sa_view=joined.sm_view if joined.sm_view.answers else None,
        fingerprints=fingerprints,
        files=files,
        origins=joined.origins,
    )


def parse_owner(text: str) -> PortFacts:
    """Return the port that ``LID``, ``LID:PORT``, ``GUID`` or ``GUID:PORT`` names. Raises UsageError."""
    address, _, number = text.rpartition(":") if text.count(":") == 1 else (text, "", "0")
    if not (number.isascii() and number.isdigit() and int(number) <= MAX_PORT) or not address:
        raise UsageError(f"the port {clean(text)!r} of a P_Key table: write LID, LID:PORT, GUID or GUID:PORT")
    if is_spelled_as_guid(address):
        try:
            return PortFacts(None, int(number), at_guid=parse_guid(address))
        except EncodeError as error:
            raise UsageError(f"the port {clean(text)!r} of a P_Key table: {error}") from None
    if not (address.isascii() and address.isdigit() and 0 < int(address[:9]) <= MAX_UNICAST_LID):
        raise UsageError(f"the port {clean(text)!r} of a P_Key table: {clean(address)!r} is neither a LID nor a GUID")
    return PortFacts(None, int(number), at_lid=int(address[:9]))


def _read(path: Path, owner: PortFacts | None) -> FileFacts:
    kind = kind_of(path)
    facts = read_file(path, kind, owner)
    try:
        written = datetime.fromtimestamp(int(path.stat().st_mtime), UTC)
        when = timestamp(lambda: written)
    except (OSError, ValueError, OverflowError) as error:
        fault = f"its modification time cannot be read, or is no valid date: {error}"
        raise FileFormatError(fault, str(path)) from None
    return FileFacts(str(path), facts, ImportedFile(clean(path.name), kind.name, when, kind.is_sm, facts.m_keys))


def _about(
    joined: DescribedFabric, files: Sequence[ImportedFile], start: Port | None, fingerprints: Fingerprints
) -> SnapshotOrigin:
    times = sorted(each.written for each in files)
    infos = [PortInfo(port.info) for port in joined.fabric.end_ports() if port.info is not None]
    masters = {info.master_sm_lid for info in infos if info.master_sm_lid}
    return SnapshotOrigin(
        __version__,
        times[0],
        times[-1],
        host="",
        ca_name="",
        port=start.num if start is not None else 0,
        port_guid=start.guid if start is not None else 0,
        lid=(start.lid or 0) if start is not None else 0,
        sm_lid=masters.pop() if len(masters) == 1 else 0,
        simulated=False,
        has_keys=True,
        fingerprints=fingerprints.id,
    )


def _few(notes: Sequence[str]) -> list[str]:
    """Return a file's notes, or only the first of them if there are very many."""
    if len(notes) <= _SAMPLE:
        return list(notes)
    return [*notes[:_SAMPLE], f"{counted(len(notes) - _SAMPLE, 'more remark')} like these"]


def _name_unread(joined: DescribedFabric) -> None:
    """Add a trouble for each attribute that a sweep would have read and no file has."""
    fabric = joined.fabric
    for node in fabric.nodes:
        if node.is_switch and node.switch_info_raw is None:
            _add_unread(joined, node.port(0), SwitchInfo.name)
    for port in fabric.ports():
        if port.info is None:
            _add_unread(joined, port, PortInfo.name)
        if port.p_key_raw is None and port.capacity == 0 and not port.is_end_port:
            port.p_key_raw = b""
        if port.p_key_raw is None:
            _add_unread(joined, port, PKeyTable.name)
        if port.virtual_ports == "unknown":
            _add_unread(joined, port, VirtualizationInfo.name)
        if not joined.lists_links and port.peer is None and port.num and (port.info is None or port.is_linked):
            port.says_peer = False
            fabric.troubles.append(Trouble(port, _NO_LINKS, NodeInfo.name, "not-in-file"))


def _add_unread(joined: DescribedFabric, port: Port, attribute: str) -> None:
    why = joined.why.get((port, attribute), f"{attribute} is in no imported file")
    joined.fabric.troubles.append(Trouble(port, why, attribute, "not-in-file"))

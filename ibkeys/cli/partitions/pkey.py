"""The commands `pkey-show`, `pkey-set`, `pkey-add` and `pkey-remove`: P_Key tables of ports."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from ibkeys.cli import options
from ibkeys.cli.addresses import PortArguments, parse_address, parse_portnum, port_arguments
from ibkeys.cli.documents.field import JsonRow
from ibkeys.cli.documents.p_key import PKEY_ADD, PKEY_REMOVE, PKEY_SET, PKEY_SHOW
from ibkeys.cli.documents.shared import P_KEY_ENTRY
from ibkeys.cli.exits import clean, write, write_each
from ibkeys.cli.help.command import command
from ibkeys.cli.listing.folding import fold_rows, indented, width_of_output
from ibkeys.cli.options import AddressKinds, ChangeOptions, ShowPortsOptions
from ibkeys.cli.render import UNREADABLE, heading_of, write_columns, write_document, write_table
from ibkeys.cli.screen.lines import fold_text
from ibkeys.cli.showing import NAME_TITLES, PortListing, finish, name_cells, read_port_listing, write_unreached
from ibkeys.cli.sm.policy import policy_if_known
from ibkeys.cli.types import parse_p_key
from ibkeys.errors import TransportError, UsageError
from ibkeys.keys.number import parse_number, quoted
from ibkeys.keys.pkey import EMPTY, PKey, entry_documents
from ibkeys.printable import counted, named
from ibkeys.topology.names.folded import FoldedNames

if TYPE_CHECKING:
    from ibkeys.fabric.readable_port import ReadablePort
    from ibkeys.topology.nodes import Port

PER_LINE: Final = 8
"""How many P_Keys are on one line in the table of a sweep."""
_PORTNUM_IN_HEX: Final = re.compile("0[xX][0-9a-fA-F]{1,2}")


@command("pkey-show")
@options.show_ports_options()
def pkey_show(command_options: ShowPortsOptions) -> int:
    """Show P_Key tables.

    Lists the entries that are not empty, with index, partition and membership. ADDR is a LID unless -D, -G or -N is
    given; without ADDR the local port is shown. PORTNUM defaults to port 0 on a switch. On other nodes it is the
    port that ADDR reaches. Without the right to send SMPs, the table of a local port is read from sysfs instead, and
    a message says so.
    """
    format, folded = command_options.format, command_options.listing.is_folded(command_options.format)
    source = {}
    try:
        port_listing = read_port_listing(command_options, _read, _values, policy_if_known, p_keys=True)
    except TransportError as error:
        if command_options.every_port:
            raise
        from ibkeys.cli.local.fallback import table_of_kernel

        named_port = port_arguments(command_options.words, command_options.kind)
        port_listing, source = table_of_kernel(command_options.where, named_port, error), {"source": "sysfs"}
    if format == "table":
        _write_tables(port_listing, folded)
        _write_virtual_ports(port_listing)
    else:
        write_document(format, PKEY_SHOW, lambda: {**port_listing.document(), **source}, _entries(port_listing))
    return finish(port_listing.errors, format, each=command_options.listing.each)


def _write_tables(port_listing: PortListing, folded: bool) -> None:
    if port_listing.is_sweep and folded:
        _write_folded(port_listing)
    elif port_listing.is_sweep:
        titles = [*NAME_TITLES, "Used", "P_Keys (index:P_Key)"]
        write_table(titles, ([*name_cells(row), _used(row), _listed(row)] for row in port_listing.ports))
    if port_listing.is_sweep:
        write_unreached(port_listing.unreached)
        return
    for row in port_listing.ports:
        write(f"{heading_of(row)}: {len(row['pkeys'])} of {row['capacity']} P_Key entries in use")
        if keys := row["pkeys"]:
            write_columns(P_KEY_ENTRY.fields, keys)


def _read(handle: ReadablePort) -> None:
    if handle.port.end_port.stated_lid is None:  # an import may have the table without PortInfo
        handle.read_port_info()
    handle.read_p_keys()
    handle.read_virtualization()


def _values(port: Port) -> dict[str, Any]:
    raw = port.p_key_raw
    return {
        "capacity": port.capacity,
        "pkeys": None if raw is None else _documents_of(raw),
        "virtual_ports": _virtual_ports(port),
    }


@cache
def _documents_of(raw: bytes) -> list[dict[str, Any]] | None:
    """Return the entries of a P_Key table that are not empty. Cached: very many ports may have the same table."""
    from ibkeys.topology.nodes import occupied_entries

    return entry_documents(occupied_entries(raw))


def _virtual_ports(port: Port) -> dict[str, Any] | None:
    """Return the field ``virtual_ports`` of the document; None for a port that has no virtual ports."""
    state = port.virtual_ports
    if state == "none":
        return None
    info = port.virtualization_info if state == "on" else None
    possible, top = (info.vport_cap, info.vport_index_top) if info is not None else (None, None)
    return {"state": state, "possible": possible, "top_index": top}


def _write_virtual_ports(port_listing: PortListing) -> None:
    """Write below the tables which ports have virtual ports, or may have them: their tables are not shown."""
    rows = [
        row for row in port_listing.ports if row["virtual_ports"] and row["virtual_ports"]["state"] in ("on", "unknown")
    ]
    if rows:
        names = named([f"{row['node_desc'] or row['node_guid']} port {row['port']}" for row in rows])
        have = "have" if len(rows) > 1 else "has"
        write(clean(f"({names} {have} virtual ports, or may have them: their P_Key tables cannot be read)"))


def _entries(port_listing: PortListing) -> Iterator[dict[str, Any]]:
    """Yield one row for each entry; a port without entries has no row."""
    for row in port_listing.ports:
        for key in row["pkeys"] or ():
            yield {**row, **key}


def _used(row: JsonRow) -> str:
    used = UNREADABLE if row["pkeys"] is None else len(row["pkeys"])
    return f"{used}/{UNREADABLE if row['capacity'] is None else row['capacity']}"


def _listed(row: JsonRow) -> list[str] | None:
    if row["pkeys"] is None:
        return None
    keys = _indexed(row)
    return [" ".join(keys[at : at + PER_LINE]) for at in range(0, len(keys), PER_LINE)]


def _indexed(row: JsonRow) -> list[str]:
    return [f"{key['index']}:{key['pkey']}" for key in row["pkeys"]]


def _write_folded(port_listing: PortListing) -> None:
    """Write each distinct table once, then the ports that have it: tables may be long, and ports many."""
    names = FoldedNames(port_listing.ports, port_listing.fabric)
    width = width_of_output()
    for rows in fold_rows(port_listing.ports, lambda row: (row["capacity"], row["pkeys"] and tuple(_indexed(row)))):
        first = rows[0]
        keys = " ".join(_indexed(first)) if first["pkeys"] is not None else UNREADABLE
        heading = f"{counted(len(rows), 'port')}, {_used(first)} P_Keys used (index:P_Key): {keys or 'none'}"
        write(fold_text(heading, width))
        write_each(indented(names, rows))


@command("pkey-set")
@options.address("[ADDR] [PORTNUM] INDEX=PKEY...", required=True)
@options.change
def pkey_set(command_options: ChangeOptions, kind: AddressKinds, words: tuple[str, ...]) -> int:
    """Write entries of a P_Key table by index.

    3=0x8010 writes entry 3, 3= clears it. Reads first, writes only the blocks that differ, saves what it overwrites
    in the journal, and verifies the result by a fresh read.
    """
    from ibkeys.change.pkeys import plan_set
    from ibkeys.cli.changing import change_port

    missing = "nothing to write: INDEX=PKEY is missing after ADDR and PORTNUM (as in 3=0x8010)"
    named_port, rest = split_words(words, kind, lambda word: "=" in word, missing)
    entries = parse_entries(rest)
    return change_port(PKEY_SET, command_options, named_port, lambda writer, port: plan_set(writer, port, entries))


@command("pkey-add")
@options.address("[ADDR] [PORTNUM] PKEY...", required=True)
@options.change
def pkey_add(command_options: ChangeOptions, kind: AddressKinds, words: tuple[str, ...]) -> int:
    """Add P_Keys to a port's table, at free indexes.

    PKEY is 0x8001, 0x1:full or 0x1:limited. A word that begins with 0x is a P_Key, so write a LID in decimal, or
    after -L. If you give several P_Keys and no ADDR in decimal, add -L, -D, -G or -N (-D 0 is the local port). No
    other entry changes its index.
    """
    from ibkeys.change.pkeys import plan_add
    from ibkeys.cli.changing import change_port

    named_port, keys = _port_and_keys(words, kind, "add")
    return change_port(PKEY_ADD, command_options, named_port, lambda writer, port: plan_add(writer, port, keys))


@command("pkey-remove")
@options.address("[ADDR] [PORTNUM] PKEY...", required=True)
@options.change
def pkey_remove(command_options: ChangeOptions, kind: AddressKinds, words: tuple[str, ...]) -> int:
    """Remove P_Keys from a port's table, by value.

    PKEY is 0x8001, 0x1:full or 0x1:limited. Only that P_Key is removed: a partition's full and limited P_Keys are
    separate. A word that begins with 0x is a P_Key, so write a LID in decimal, or after -L. If you give several
    P_Keys and no ADDR in decimal, add -L, -D, -G or -N (-D 0 is the local port).
    """
    from ibkeys.change.pkeys import plan_remove
    from ibkeys.cli.changing import change_port

    named_port, keys = _port_and_keys(words, kind, "remove")
    return change_port(PKEY_REMOVE, command_options, named_port, lambda writer, port: plan_remove(writer, port, keys))


def _port_and_keys(words: Sequence[str], kind: AddressKinds, verb: str) -> tuple[PortArguments, list[PKey]]:
    missing = f"nothing to {verb}: a P_Key is missing after ADDR and PORTNUM (it begins with 0x)"
    named_port, rest = split_words(words, kind, _looks_like_p_key, missing)
    keys = [parse_p_key(word) for word in rest]  # before the next check: its message repeats only valid P_Keys
    _refuse_ambiguous(named_port, rest)
    return named_port, keys


def _refuse_ambiguous(named_port: PortArguments, keys: Sequence[str]) -> None:
    """Raise UsageError if the first of several *keys* could also be meant as ADDR or PORTNUM.

    *named_port*: the port that was named before the keys. A single key is accepted, because one is required.
    """
    if len(keys) < 2:
        return
    first, *others = keys
    rest = " ".join(others)
    if named_port.address is None:
        raise UsageError(
            f"{first} may be a LID or a P_Key: for LID {first} write -L {first} {rest}, for P_Keys of the local port "
            f"-D 0 {first} {rest}"
        )
    if named_port.portnum is None and _PORTNUM_IN_HEX.fullmatch(first):
        number = int(first, 16)
        raise UsageError(
            f"{first} may be PORTNUM or a P_Key: for port {number} write {number}, for the P_Key {first}:limited"
        )


def _looks_like_p_key(word: str) -> bool:
    return word[:2].lower() == "0x" or ":" in word


def split_words(
    words: Sequence[str], kind: AddressKinds, is_value: Callable[[str], bool], missing: str
) -> tuple[PortArguments, list[str]]:
    """Return the port and the values of the words ``[ADDR] [PORTNUM] VALUE...``.

    With an option for the kind of address the first word is ADDR. Without one, the words up to the first for which
    *is_value* is true are ADDR and PORTNUM. Raises UsageError with the message *missing* if there is no value, and the
    errors of `parse_address` and `parse_portnum`.
    """
    rest = list(words)
    has_kind = kind.lid or kind.direct or kind.guid or kind.name
    address = rest.pop(0) if rest and (has_kind or not is_value(rest[0])) else None
    portnum = rest.pop(0) if address is not None and rest and not is_value(rest[0]) else None
    named_port = PortArguments(parse_address(address, kind), parse_portnum(portnum) if portnum is not None else None)
    if not rest:
        raise UsageError(missing)
    return named_port, rest


def parse_entries(words: Sequence[str]) -> dict[int, PKey]:
    """Return the P_Keys of the words ``INDEX=PKEY``, by index; ``INDEX=`` stands for an empty entry.

    Raises UsageError for any other word and for an index that is given twice; EncodeError for an invalid P_Key.
    """
    entries: dict[int, PKey] = {}
    for word in words:
        number, equals, key = word.partition("=")
        if not equals:
            raise UsageError(f"{quoted(word)} is not an INDEX=PKEY, as in 3=0x8010 (3= clears entry 3)")
        index = parse_number(number, "index", 16, UsageError)
        if index in entries:
            raise UsageError(f"index {index} is given twice")
        entries[index] = parse_p_key(key) if key else EMPTY
    return entries

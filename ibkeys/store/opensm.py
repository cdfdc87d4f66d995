"""Reading and writing OpenSM's cache files guid2mkey, neighbors and guid2lid of one directory.

    file   := { record }
    record := KEY blanks VALUE NEWLINE NEWLINE

A key begins in column 0. Lines up to the empty line belong to the value; the last record may lack the empty line. The
first of two records with the same key counts. OpenSM finds a GUID only in the form in which it writes it, ``0x`` and 16
digits in lower case; of a value it reads the number at its start, as strtoull does. OpenSM reads the files only when it
starts. Source: opensm osm_db_files.c and osm_db_pack.c, and files that opensm 3.3.23 wrote and read. No message of this
module shows text of a file, because the text might be an M_Key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from ibkeys.errors import FileFormatError
from ibkeys.files import LIST, read_bytes
from ibkeys.keys.mkey import MKey
from ibkeys.store.private_files import named_errors, replace_private_file
from ibkeys.store.sqlite import guid_text

MKEY_FILE: Final = "guid2mkey"
NEIGHBORS_FILE: Final = "neighbors"
LID_FILE: Final = "guid2lid"
KEY_FILES: Final = (MKEY_FILE, NEIGHBORS_FILE, LID_FILE)

_MAX_LINE: Final = 1023
"""Bytes in a line, its newline included: OpenSM reads into a buffer of 1024."""
_FIRST_MULTICAST_LID: Final = 0xC000
_MAX_PORT: Final = 255
_NUMBER: Final = re.compile(rb"0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*")

_NUMBER_AT_START: Final = re.compile(rb"[\t-\r ]*([+-]?)(" + _NUMBER.pattern + rb")")
_MAX_NUMBER: Final = (1 << 64) - 1

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class KeyFiles:
    """The contents of OpenSM's cache files.

    ``m_keys``: M_Key by port GUID. ``lids``: (base LID, top LID) by port GUID. ``neighbors``: from (port GUID, port
    number) of one end of a link to that of the other end; the GUID of any port of a switch is that of its port 0.
    ``warnings``: lines for the user, without any key. ``is_whole``: whether no record was left out in whole or in part.
    """

    m_keys: dict[int, MKey] = field(default_factory=dict)
    neighbors: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    lids: dict[int, tuple[int, int]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    is_whole: bool = True


def read_key_files(directory: Path, names: Sequence[str] = KEY_FILES, others: Iterable[str] = ()) -> KeyFiles:
    """Return the contents of the files *names* in *directory*.

    At least one of *names* or *others* must exist; the files *others* are not read. A record that OpenSM would drop, or
    whose value is invalid, is left out; of a value with several lines only the first is used. A record whose GUID is in
    another form than OpenSM's counts if there is no other record for the port. A warning names the line of each such
    record. Raises FileFormatError for a record that begins with a blank or tab, for a line that is longer
    than OpenSM's buffer, and if none of the files exists; StoreError for a file that cannot be read.
    """
    files = KeyFiles()
    parsers: dict[str, Callable[[bytes, str], None]] = {
        MKEY_FILE: lambda data, name: _parse(data, name, _guid, guid_text, _m_key, files.m_keys, files),
        NEIGHBORS_FILE: lambda data, name: _parse(data, name, _end_of_link, _end, _end_of_link, files.neighbors, files),
        LID_FILE: lambda data, name: _parse(data, name, _guid, guid_text, _lid_range, files.lids, files),
    }
    is_there = False
    for name in names:
        data = read_if_there(directory / name)
        if data is not None:
            is_there = True
            parsers[name](data, str(directory / name))
    if not is_there and not any((directory / name).exists() for name in others):
        raise FileFormatError(f"has none of OpenSM's files {', '.join(names)}", str(directory))
    return files


def find_m_keys(directory: Path) -> dict[int, MKey] | None:
    """Return the M_Keys, by port GUID, that OpenSM finds in the guid2mkey in *directory*; None if there is no such
    file. Raises FileFormatError as `parse_m_keys`, and StoreError if the file cannot be read."""
    data = read_if_there(directory / MKEY_FILE)
    return None if data is None else parse_m_keys(data, str(directory / MKEY_FILE))


def parse_m_keys(data: bytes, name: str) -> dict[int, MKey]:
    """Return the M_Keys, by port GUID, that OpenSM finds in the bytes of a file guid2mkey. *name*: the name of the
    file, for errors.

    A value that is not valid counts as the number that OpenSM reads of it. Raises FileFormatError for a record that
    begins with a blank or tab, and for a line that is longer than OpenSM's buffer.
    """
    keys: dict[int, MKey] = {}
    for _, key_text, first, rest in _records(data, name):
        guid = _guid(key_text)
        if guid is not None and key_text == guid_text(guid).encode():
            keys.setdefault(guid, MKey(_number_at_start(first + rest)))
    return keys


def write_key_file(path: Path, data: bytes) -> None:
    """Replace the file *path* by *data* atomically, with mode 0600, synced. A missing directory is created with mode
    0700. Raises StoreError.
    """
    with named_errors(path, "key file"):
        replace_private_file(path, data)


def write_key_files(
    directory: Path, files: KeyFiles, names: Sequence[str], write: Callable[[Path, bytes], None] = write_key_file
) -> None:
    """Write the files *names* in OpenSM's own form, each by a call of *write*; raises the errors of *write*.

    guid2mkey is written last. If the write stops before it, OpenSM has the new links and the old keys, and reaches no
    fewer ports than before.
    """
    lids = files.lids
    texts = {
        NEIGHBORS_FILE: (_pair(_end(near), _end(far)) for near, far in sorted(files.neighbors.items())),
        LID_FILE: (_pair(guid_text(port), f"0x{base:04x} 0x{top:04x}") for port, (base, top) in sorted(lids.items())),
        MKEY_FILE: (_pair(guid_text(guid), files.m_keys[guid].hex()) for guid in sorted(files.m_keys)),
    }
    for name, records in texts.items():
        if name in names:
            write(directory / name, "".join(records).encode())


def _pair(key: str, value: str) -> str:
    return f"{key} {value}\n\n"


def _end(end: tuple[int, int]) -> str:
    return f"{guid_text(end[0])}:{end[1]}"


def _parse(
    data: bytes,
    name: str,
    read_key: Callable[[bytes], K | None],
    write_key: Callable[[K], str],
    read_value: Callable[[bytes], V | None],
    into: dict[K, V],
    files: KeyFiles,
) -> None:
    """Add the records of a file to *into*, and a line to the warnings of *files* for each record that is ignored in
    whole or in part, or that OpenSM does not find."""
    not_found: set[K] = set()
    for line, key_text, first, rest in _records(data, name):
        key, value = read_key(key_text), read_value(first.strip(b" "))
        is_found = key is not None and key_text == write_key(key).encode()
        if key is None:
            problem = "the first word of the record is not a valid number or port; record ignored"
        elif key in into and not (is_found and key in not_found):
            problem = "a second record for the same port; record ignored, the first one counts"
        elif value is None:
            problem = "the value is not valid in this file; record ignored"
        else:
            into[key] = value
            if is_found:
                not_found.discard(key)
            else:
                not_found.add(key)
                files.warnings.append(
                    f"{name}:{line}: OpenSM does not find this record: write the GUID as 0x and 16 lower-case digits"
                )
            if not rest:
                continue
            problem = (
                "lines up to the next empty line belong to this record: OpenSM reads them as part of the value, here "
                "they are ignored; is an empty line missing?"
            )
        files.is_whole = False
        files.warnings.append(f"{name}:{line}: {problem}")


def _records(data: bytes, path: str) -> Iterator[tuple[int, bytes, bytes, bytes]]:
    """Yield each record as (line number, key, first line of the value, further lines of the value)."""
    record: tuple[int, bytes, bytes] | None = None
    rest: list[bytes] = []
    for number, line in numbered_lines(data, path):
        if record is None:
            if line[:1] in (b" ", b"\t"):
                raise FileFormatError("a record begins in the first column, this line with a blank", path, number, 1)
            if line:
                key, _, value = line.replace(b"\t", b" ").partition(b" ")
                record, rest = (number, key, value), []
        elif line:
            rest.append(line)
        else:
            yield *record, b"\n".join(rest)
            record = None
    if record is not None:
        yield *record, b"\n".join(rest)


def read_if_there(path: Path) -> bytes | None:
    """Return the bytes of a file with keys, None if it does not exist. Raises StoreError if it cannot be read."""
    with named_errors(path, "key file"), suppress(FileNotFoundError):
        return read_bytes(path, LIST)
    return None


def numbered_lines(data: bytes, name: str) -> Iterator[tuple[int, bytes]]:
    """Yield (line number, line) for the bytes of one of OpenSM's files. *name*: the name of the file, for errors.
    Raises FileFormatError for a line that is longer than OpenSM's buffer.
    """
    for number, line in enumerate(data.split(b"\n"), 1):
        if len(line) >= _MAX_LINE:
            raise FileFormatError(f"the line is longer than {_MAX_LINE - 1} bytes", name, number, _MAX_LINE)
        yield number, line


def c_number(text: bytes, bits: int) -> int | None:
    """Return the number that C's strtoull reads with base 0 (``0x`` hexadecimal, a leading 0 octal, else decimal), None
    if *text* is not a number of at most *bits* bits."""
    if not _NUMBER.fullmatch(text):
        return None
    base = 16 if text[:2] in (b"0x", b"0X") else 8 if text[:1] == b"0" else 10
    value = int(text, base) if base != 10 or len(text) <= 20 else 1 << bits
    return value if value < 1 << bits else None


def _number_at_start(text: bytes) -> int:
    """Return the number that C's strtoull reads at the start of *text* with base 0; 0 if there is none."""
    match = _NUMBER_AT_START.match(text)
    if match is None:
        return 0
    value = c_number(match[2], 64)
    if value is None:
        return _MAX_NUMBER
    return -value & _MAX_NUMBER if match[1] == b"-" else value


def _guid(text: bytes) -> int | None:
    return c_number(text, 64)


def _m_key(text: bytes) -> MKey | None:
    value = c_number(text, 64)
    return None if value is None else MKey(value)


def _end_of_link(text: bytes) -> tuple[int, int] | None:
    guid_part, colon, port_part = text.partition(b":")
    guid = c_number(guid_part, 64)
    if guid is None or not colon or not re.fullmatch(rb"[0-9]{1,4}", port_part):
        return None
    port = int(port_part)
    return (guid, port) if port <= _MAX_PORT else None


def _lid_range(text: bytes) -> tuple[int, int] | None:
    lids = [c_number(part, 16) for part in text.split()]
    if len(lids) != 2:
        return None
    base, top = lids
    if base is None or top is None or base >= _FIRST_MULTICAST_LID or top >= _FIRST_MULTICAST_LID:
        return None
    return base, top

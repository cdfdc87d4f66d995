"""A bundle for a rehearsal elsewhere: a snapshot, and the options and files of the site's OpenSM, without keys.

A bundle is a tar file. Its members have fixed names: the command line and the program in JSON, the snapshot, the
options as `ibkeys.rehearse.opensm_options` makes them, with made-up keys, and a copy of each file that OpenSM reads, by
the name of its option. Nothing is ever unpacked: a member is read into memory if its name is one of these, it is a
regular file, and it is not larger than such a file can be. Any other member makes the bundle invalid. So a bundle
cannot name a file of the host on which it is read. A snapshot or option in it is as untrusted as any other.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ibkeys import files, jsonfile
from ibkeys.errors import FileFormatError, UsageError
from ibkeys.printable import cut
from ibkeys.rehearse.opensm_options import TREATMENTS
from ibkeys.store.opensm import MKEY_FILE, NEIGHBORS_FILE

SCHEMA: Final = "ibkeys.rehearsal-bundle/1"
WITHOUT: Final = frozenset({"sa_db_file"})
"""Files of OpenSM that are not packed: records of the SA may have ServiceKeys, and a rehearsal does not need them."""
_ABOUT, _SNAPSHOT, _OPTIONS, _FILES = "about.json", "snapshot.db", "opensm.conf", "files/"
FILES: Final = (
    *(name for name, treatment in TREATMENTS.items() if treatment == "read" and name not in WITHOUT),
    MKEY_FILE,
    NEIGHBORS_FILE,
)
"""The names of the files of OpenSM in a bundle: the options that name them, and the key files of its cache."""
_PACKED: Final = {_FILES + name: name for name in FILES}
_LIMITS: Final[Mapping[str, int]] = {
    _ABOUT: files.SETTINGS,
    _OPTIONS: files.SETTINGS,
    _SNAPSHOT: files.LARGE,
    **dict.fromkeys(_PACKED, files.LIST),
}
"""Name of a member → the most bytes that it may have."""
_MAGIC: Final = slice(257, 262)


@dataclass(frozen=True, slots=True)
class Bundle:
    """The contents of a bundle. ``program``: the path of the site's OpenSM; ``words``: its arguments with their
    values, without keys; both only to be shown. ``options``: its options file, with made-up keys; ``files``: their
    bytes, by the names in `FILES`; ``snapshot``: the bytes of the snapshot."""

    program: str
    words: tuple[str, ...]
    options: bytes
    files: Mapping[str, bytes]
    snapshot: bytes


def is_bundle(path: Path) -> bool:
    """Return whether the regular file *path* begins as a tar file does. Raises OSError."""
    return files.read_head(path, _MAGIC.stop)[_MAGIC] == b"ustar"


def bundle_bytes(bundle: Bundle) -> bytes:
    """Return the bytes of the file of *bundle*."""
    about = {"schema": SCHEMA, "program": bundle.program, "arguments": list(bundle.words)}
    members = {_ABOUT: (json.dumps(about, indent=2) + "\n").encode(), _OPTIONS: bundle.options}
    members |= {_FILES + name: data for name, data in sorted(bundle.files.items()) if name in FILES}
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in (*members.items(), (_SNAPSHOT, bundle.snapshot)):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o600
            archive.addfile(entry, io.BytesIO(data))
    return target.getvalue()


def read_bundle(path: Path) -> Bundle:
    """Return the bundle in the file *path*. Raises FileFormatError for anything that `bundle_bytes` does not write;
    UsageError if the file cannot be read."""
    with files.os_errors_as(UsageError, str(path)):
        data = files.read_bytes(path, files.STATE)
    try:
        members = _members(data)
        program, words = _about(members[_ABOUT])
    except FileFormatError as error:
        raise FileFormatError(f"is no bundle of `ibkeys rehearse --pack`: {error.fault}", str(path)) from None
    except (tarfile.TarError, ValueError, OverflowError, EOFError) as error:
        raise FileFormatError(f"is no bundle of `ibkeys rehearse --pack` ({type(error).__name__})", str(path)) from None
    copies = {_PACKED[name]: content for name, content in members.items() if name in _PACKED}
    return Bundle(program, words, members[_OPTIONS], copies, members[_SNAPSHOT])


def _members(data: bytes) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        for entry in archive:
            limit = _LIMITS.get(entry.name)
            if limit is None or not entry.isreg() or entry.issparse() or entry.pax_headers:
                raise FileFormatError(f"it has {cut(entry.name)!r}, which no bundle has")
            if entry.name in found:
                raise FileFormatError(f"it has {entry.name} twice")
            if not 0 <= entry.size <= limit:
                raise FileFormatError(f"{entry.name} has more than {limit} bytes")
            content = archive.extractfile(entry)
            assert content is not None  # It is a regular file.
            found[entry.name] = content.read()
    missing = [name for name in (_ABOUT, _OPTIONS, _SNAPSHOT) if name not in found]
    if missing:
        raise FileFormatError(f"{missing[0]} is missing")
    return found


def _about(data: bytes) -> tuple[str, tuple[str, ...]]:
    about = jsonfile.loads(data)
    try:
        program, words = about["program"], about["arguments"]
        if about["schema"] != SCHEMA or not all(isinstance(each, str) for each in (program, *words)):
            raise TypeError
        return program, tuple(words)
    except (LookupError, TypeError):
        raise FileFormatError(f"{_ABOUT} is not that of {SCHEMA}: pack it again with this version") from None

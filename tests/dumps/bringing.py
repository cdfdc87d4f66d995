"""Short words for tests of imports: the files in ``tests/data/dumps``, and an import with a secret of the tests."""

from __future__ import annotations

from pathlib import Path

from ibkeys.dumps.importing import TableOf, import_files
from ibkeys.fabric.snapshot import Snapshot
from ibkeys.keys.fingerprint import Fingerprints
from tests.corpus import DATA

DUMPS = DATA / "dumps"
M_KEY = 0x6B2F90C1D4E5A387
SECRET = Fingerprints(bytes(range(32)))
FORMS = (M_KEY.to_bytes(8), M_KEY.to_bytes(8, "little"), b"%x" % M_KEY, b"%X" % M_KEY, b"%d" % M_KEY)
"""How the M_Key could stand somewhere."""


def bring(*files: str | Path, **tables: str) -> Snapshot:
    """Import files of ``tests/data/dumps`` by name, or others by path. *tables*: file of smpquery pkeys, with
    underscores for minus and dot → its port."""
    named = {"pkeys": "pkeys.txt", "pkeys_switch": "pkeys-switch.txt"}
    owners = [TableOf(port, DUMPS / named[name]) for name, port in tables.items()]
    return import_files([DUMPS / file for file in files], SECRET, owners)


def write(folder: Path, text: str | bytes, name: str = "file") -> Path:
    """Write a file and return its path."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path

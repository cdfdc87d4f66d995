"""Files with keys of classes: guid2vskey, guid2cckey and guid2_m2n_key, one record for each port GUID.

A record is a line ``0x<guid> 0x<key>``. NVIDIA's opensm writes an empty line after each record, ibdiagnet does not;
both are read. No message of this module shows any text of a file: it might be a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ibkeys.keys.classkey import ClassKey
from ibkeys.mad.classes.gmp import ClassName
from ibkeys.store.opensm import c_number, numbered_lines, read_if_there

CLASS_KEY_FILES: Final[Mapping[ClassName, str]] = {"vs": "guid2vskey", "cc": "guid2cckey", "n2n": "guid2_m2n_key"}
"""Class → the file with its keys. No program is known that writes one for B_Keys."""

ClassKeys = dict[ClassName, dict[int, ClassKey]]
"""Class → port GUID → key."""


def read_class_key_files(directory: Path) -> tuple[ClassKeys, list[str]]:
    """Return the keys in the files of *directory*, and warnings. A missing file has no keys.

    Raises FileFormatError (a line that is too long) and StoreError (a file that cannot be read).
    """
    found: ClassKeys = {}
    warnings: list[str] = []
    for name, file in CLASS_KEY_FILES.items():
        path = directory / file
        data = read_if_there(path)
        if data is not None:
            found[name] = parse_class_keys(data, str(path), warnings)
    return found, warnings


def parse_class_keys(data: bytes, name: str, warnings: list[str]) -> dict[int, ClassKey]:
    """Return the keys in the bytes of a file, by port GUID. *name*: the name of the file, for *warnings* and errors.

    Lines that are no records are left out. If a GUID has two records, the first counts. Raises FileFormatError for a
    line that is too long.
    """
    keys: dict[int, ClassKey] = {}
    for number, line in numbered_lines(data, name):
        words = line.split()
        if not words:
            continue
        values = [c_number(word, 64) for word in words]
        if len(values) != 2 or values[0] is None or values[1] is None:
            warnings.append(f"{name}:{number}: is not a record of a GUID and a key; ignored")
        elif values[0] in keys:
            warnings.append(f"{name}:{number}: a second record for the same port; ignored, the first one is used")
        else:
            keys[values[0]] = ClassKey(values[1])
    return keys

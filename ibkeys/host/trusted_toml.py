"""Settings files of this program in TOML. They decide what a command does, so they are used only if no other user can
write them or put another file in their place."""

from __future__ import annotations

import codecs
import os
import stat
import tomllib
from pathlib import Path
from typing import Any, Final

from ibkeys import files
from ibkeys.errors import FileFormatError, UsageError
from ibkeys.host.file_access import read_file_fact

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_MOST_PARTS: Final = 8
"""Most parts of a dotted name; the time that tomllib takes grows with their square."""


def parse_trusted(path: Path, data: bytes, status: os.stat_result) -> dict[str, Any]:
    """Return the TOML document *data*, which is all of the file *path*, as a dictionary. *status*: the status of the
    file when it was read. Raises FileFormatError if another user can write the file or replace it, if that cannot be
    determined, or if it is no TOML in UTF-8. A message never repeats a value from the file.
    """
    try:
        refuse_writable_by_others(path, status)
        if data.startswith(codecs.BOM_UTF8):
            raise FileFormatError("begins with a byte order mark: save it as UTF-8 without one", str(path))
        text = data.decode("utf-8")
        names = (line.partition("=")[0] for line in text.splitlines() if not line.lstrip().startswith("#"))
        if any(name.count(".") > _MOST_PARTS for name in names):
            raise FileFormatError("a name with too many parts", str(path))
        return tomllib.loads(text)
    except FileFormatError:
        raise
    except UsageError as error:
        raise FileFormatError(str(error), str(path)) from None
    except (RecursionError, MemoryError):
        raise FileFormatError("is nested too deeply", str(path)) from None
    except UnicodeDecodeError as error:
        raise FileFormatError(f"is not UTF-8: byte {error.start + 1}", str(path)) from None
    except ValueError as error:
        raise FileFormatError(f"is not TOML: {error}", str(path)) from None


def refuse_writable_by_others(path: Path, status: os.stat_result | None = None) -> None:
    """Raise UsageError if another user can write the file or put another file in its place, or if that cannot be
    determined. *status*: the status of the file when it was read; if given, another file of that name is refused."""
    fact = read_file_fact(path)
    if fact is None or (status is not None and fact.identity != (status.st_dev, status.st_ino)):
        raise UsageError("it is not known who may write it, so it is not used")
    owners = {fact.uid, *fact.strange_owners}
    if not owners <= files.trusted_users() or fact.others_can_write or fact.mode & _OTHERS_WRITE:
        raise UsageError("others can write it or put another in its place, so it is not used")

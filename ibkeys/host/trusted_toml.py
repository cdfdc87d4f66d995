"""Settings files of this program in TOML, which decide what a command does: they are used only if no other user can
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
    """Return the TOML document *data*, which is all of the file *path*. *status*: that of the file that was read.
    Raises FileFormatError if others can write the file, or it is no TOML. No message repeats a value.
    """
    try:
        refuse_what_others_decide(path, status)
        if data.startswith(codecs.BOM_UTF8):
            raise FileFormatError("begins with a byte order mark: save it as UTF-8 without one", str(path))
        text = data.decode("utf-8")
        named = (line.partition("=")[0] for line in text.splitlines() if not line.lstrip().startswith("#"))
        if any(name.count(".") > _MOST_PARTS for name in named):
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


def refuse_what_others_decide(path: Path, status: os.stat_result | None = None) -> None:
    """Raise UsageError if another user can write the file or put another in its place. *status*: that of the file that
    was read."""
    fact = read_file_fact(path)
    if fact is None or (status is not None and fact.identity != (status.st_dev, status.st_ino)):
        raise UsageError("it is not known who may write it, so it is not used")
    owners = {fact.uid, *fact.strange_owners}
    if not owners <= files.trusted_users() or fact.others_can_write or fact.mode & _OTHERS_WRITE:
        raise UsageError("others can write it or put another in its place, so it is not used")

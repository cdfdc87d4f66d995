"""The names of temporary files. Each is written in the folder of the file that it will replace.

The name shows whether a temporary file is complete. An incomplete one has never replaced the other file, so it can be
removed unread. A complete one is exchanged with the other file. So the file that has the temporary name afterwards may
hold an edit by another program or administrator.
"""

from __future__ import annotations

import os
import re
import secrets


def new_name(name: str) -> str:
    """Return a name that cannot be guessed, for the temporary file that will replace *name*."""
    return f".{name}.ibkeys-{os.getpid()}-{secrets.token_hex(8)}"


def unfinished_name(beside: str) -> str:
    """Return the name that the temporary file *beside* has until it is complete."""
    return f"{beside}.part"


def is_unfinished(candidate: str, name: str) -> bool:
    """Return whether *candidate* is the name of an incomplete temporary file for *name*."""
    return candidate.endswith(".part") and is_new_name(candidate.removesuffix(".part"), name)


def is_new_name(candidate: str, name: str) -> bool:
    """Return whether *candidate* is a name that `new_name` can return for *name*."""
    return re.fullmatch(rf"\.{re.escape(name)}\.ibkeys-[0-9]+-[0-9a-f]{{16}}", candidate, re.DOTALL) is not None

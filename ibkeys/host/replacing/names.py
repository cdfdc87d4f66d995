"""The names of files that are written beside the file that they will replace.

A name shows the state of the file. An incomplete file has never replaced the other one, so it can be removed without
reading it. A complete file is exchanged with the other one, so the file that has its name afterwards may hold an edit
by another program or administrator.
"""

from __future__ import annotations

import os
import re
import secrets


def new_name(name: str) -> str:
    """Return a name, for a file beside *name*, that cannot be guessed."""
    return f".{name}.ibkeys-{os.getpid()}-{secrets.token_hex(8)}"


def unfinished(beside: str) -> str:
    """Return the name that the file *beside* has until it is complete."""
    return f"{beside}.part"


def is_unfinished(candidate: str, name: str) -> bool:
    """Return whether *candidate* is the name of a file that was written to replace *name* and is not complete."""
    return candidate.endswith(".part") and is_beside(candidate.removesuffix(".part"), name)


def is_beside(candidate: str, name: str) -> bool:
    """Return whether *candidate* is a name that `new_name` gives for *name*."""
    return re.fullmatch(rf"\.{re.escape(name)}\.ibkeys-[0-9]+-[0-9a-f]{{16}}", candidate, re.DOTALL) is not None

"""The names of files that are written beside the one they shall replace."""

from __future__ import annotations

import os
import re
import secrets


def new_name(name: str) -> str:
    """Return a name beside *name* that nobody can have known."""
    return f".{name}.ibkeys-{os.getpid()}-{secrets.token_hex(8)}"


def is_beside(candidate: str, name: str) -> bool:
    """Return whether *candidate* is a name that `new_name` gives for *name*."""
    return re.fullmatch(rf"\.{re.escape(name)}\.ibkeys-[0-9]+-[0-9a-f]{{16}}", candidate, re.DOTALL) is not None

"""The origin of a change: user, host, options, overrides, and the SMs that were there. The journal stores it for each
start of an operation."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

LOGIN_UID: Final = Path("/proc/self/loginuid")
"""The file with the ID of the user who logged in, which sudo and su do not change. Source: Linux, proc(5)."""
_UNSET: Final = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a change. ``overrides``: the names of the interlocks that the user overrode. ``options``: as on the
    command line, without keys and other secrets. ``managers``: the SMs of the subnet that the change found, port GUID →
    port; empty if it looked for none."""

    user: str
    host: str
    overrides: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    managers: Mapping[str, str] = field(default_factory=dict, compare=False)


def this_process(
    overrides: Iterable[str] = (), options: Iterable[str] = (), managers: Mapping[str, str] | None = None
) -> Origin:
    """Return the origin of the changes of this process. Arguments as in `Origin`."""
    return Origin(user_name(), os.uname().nodename, tuple(sorted(overrides)), tuple(options), managers or {})


def user_name(
    uid: Callable[[], int] = os.geteuid, login_uid: Path = LOGIN_UID, name_of: Callable[[int], str] | None = None
) -> str:
    """Return the name of the user that this process runs as, or ``uid 1000`` if that user has no name. If another user
    logged in, his name follows: ``root (login alice)``.

    *uid*, *login_uid* and *name_of* are the sources of the user ID, of the user ID of the login, and of a user's name.
    """
    name_of = name_of or _name_of
    own = uid()
    try:
        login = int(login_uid.read_text())
    except (OSError, ValueError):  # this kernel does not record logins
        login = _UNSET
    return name_of(own) if login in (_UNSET, own) else f"{name_of(own)} (login {name_of(login)})"


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"

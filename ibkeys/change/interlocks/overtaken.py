"""The refusal to continue or roll back an operation when another program or administrator has changed values that it
set.

The journal has the values that an operation found and wrote. An operation is continued or rolled back only if ports and
files hold one of these values. Any other value was set by another administrator, who has another key store, and is not
overwritten.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from typing import Final

from ibkeys.errors import Refused
from ibkeys.managers.files.opensm_file import FileKey, OpensmFile
from ibkeys.printable import named

OVERTAKEN: Final = "overtaken"
"""``Refused.interlock`` when another program or administrator has changed a value that an operation set; nothing
overrides it."""


def overtaken(what: str, changed_values: Sequence[str], close_command: str | None) -> Refused:
    """Return the refusal to continue or roll back an operation. *what*: the operation in words; *changed_values*: the
    values that ports and files have now, in words; *close_command*: the command that ends the operation's record, None
    if the record has ended."""
    refusal = Refused(
        f"{what} can neither be finished nor rolled back, because another user or program has changed what it set: "
        f"{named(changed_values)}",
        OVERTAKEN,
    )
    refusal.changed = "nothing was written, and no OpenSM was signalled"
    if close_command is not None:
        refusal.going_on(f"to keep what is there: `{close_command}`")
    return refusal.explained(
        f"`{close_command}` only ends the record of this operation, and every key stays in the key store."
        if close_command
        else "",
        "`ibkeys sm-show` and `ibkeys mkey-show --all` show what is in force; keys of another key store: `ibkeys "
        "keystore import`.",
    )


def why_overtaken(*plans: Callable[[], object]) -> str | None:
    """Call *plans* one after the other until one is refused because another program or administrator has changed a
    value that an operation set, and return the reason; None if none is refused for that. Raises every other error of a
    plan."""
    for plan in plans:
        try:
            plan()
        except Refused as error:
            if error.interlock != OVERTAKEN:
                raise
            return str(error)
    return None


def other_files(written: Collection[FileKey], present: Sequence[OpensmFile]) -> str:
    """Return a text if a change wrote options files, and none of these is an options file of this subnet; else "".
    *written*: the files that the change wrote; *present*: the options files of this subnet."""
    if not written or not {file.key for file in present}.isdisjoint(written):
        return ""
    names = named([f"{path} on {host}" if host else path for host, path in sorted(written)])
    return f"other options files ({names}) than this subnet has ({named([file.name for file in present])})"


def changed_file(conf: OpensmFile, contents: str) -> str:
    """Return an options file in words, with its contents (*contents*, without any key) and the time of its last
    change."""
    found = conf.seen.found
    if found is None:
        return f"{conf.name} says {contents}"
    when = datetime.fromtimestamp(found.modified_ns // 10**9, UTC)
    return f"{conf.name} says {contents} (changed {when:%Y-%m-%d %H:%M:%S} UTC)"

"""The refusal to continue or roll back an operation when somebody else has changed what it set.

An operation that was interrupted, or has ended, knows what it found and what it wrote. It is continued or rolled back
only where ports and files hold one of these values. Anything else was set by another administrator, who has another key
store, and nothing of it is overwritten.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from typing import Final

from ibkeys.errors import Refused
from ibkeys.managers.files.opensm_file import FileKey, OpensmFile
from ibkeys.printable import named

OVERTAKEN: Final = "overtaken"
"""What `Refused.interlock` is where somebody else has changed what an operation set; nothing overrides that."""


def overtaken(what: str, found: Sequence[str], close: str | None) -> Refused:
    """Return the refusal for the operation *what*. *found*: what is there instead, each in words; *close*: the command
    that ends its record, None where that has ended."""
    refusal = Refused(
        f"{what} neither goes on nor back, because somebody else has changed what it set: {named(found)}", OVERTAKEN
    )
    refusal.changed = "nothing was written, and no OpenSM was signalled"
    if close is not None:
        refusal.going_on(f"to keep what is there: `{close}`")
    return refusal.explained(
        f"`{close}` only ends the record of this operation, and every key stays in the key store." if close else "",
        "`ibkeys sm-show` and `ibkeys mkey-show --all` show what is in force; keys of another key store: `ibkeys "
        "keystore import`.",
    )


def why_overtaken(*plans: Callable[[], object]) -> str | None:
    """Return why the first of *plans* is refused because somebody else has changed what an operation set; None where
    nothing refuses one so. Raises what else a plan raises."""
    for plan in plans:
        try:
            plan()
        except Refused as error:
            if error.interlock != OVERTAKEN:
                raise
            return str(error)
    return None


def other_files(wrote: Collection[FileKey], here: Sequence[OpensmFile]) -> str:
    """Return which options files a change wrote and not those that are *here*, in words; "" where it wrote one of
    these, or none."""
    if not wrote or not {file.key for file in here}.isdisjoint(wrote):
        return ""
    names = named([f"{path} on {host}" if host else path for host, path in sorted(wrote)])
    return f"other options files ({names}) than this subnet has ({named([file.name for file in here])})"


def changed_file(conf: OpensmFile, holds: str) -> str:
    """Return an options file in words, with the time of its last change. *holds*: what it says, no key in it."""
    found = conf.seen.found
    if found is None:
        return f"{conf.name} says {holds}"
    when = datetime.fromtimestamp(found.modified_ns // 10**9, UTC)
    return f"{conf.name} says {holds} (changed {when:%Y-%m-%d %H:%M:%S} UTC)"

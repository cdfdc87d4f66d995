"""The holder of the lock beside an OpenSM's options file: one line of text, without a key."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

from ibkeys.printable import clean, shortened

_MOST_CHARACTERS: Final = 64
"""Most characters of the user, host or command in the line."""
_LINE: Final = re.compile(r"([^\t]+)\t([^\t]+)\t([^\t]+)\t([0-9TZ:-]{20})\t([0-9]{1,10})\t([0-9a-f]{32})\n?")


@dataclass(frozen=True, slots=True)
class LockHolder:
    """A command that makes a change through OpenSM. ``since``: ISO 8601 in UTC, to the second. ``journal``: the
    identity of the journal that it writes, by which a later command of the same administrator recognises its own lock.
    """

    user: str
    host: str
    command: str
    since: str
    process: int
    journal: str

    def line(self) -> bytes:
        """Return the contents of the lock file: one line with all fields."""
        names = [clean(each)[:_MOST_CHARACTERS] or "?" for each in (self.user, self.host, self.command)]
        return ("\t".join([*names, self.since, str(self.process), self.journal]) + "\n").encode()

    @classmethod
    def read(cls, text: bytes) -> Self | None:
        """Return the holder from the contents of a lock file; None if `line` cannot have made them: any user with
        write access to the folder may have put a file there."""
        try:
            found = _LINE.fullmatch(text.decode())
        except UnicodeDecodeError:
            return None
        if found is None or not all(map(str.isprintable, found.groups())):
            return None
        user, host, command, since, process, journal = found.groups()
        return cls(
            user[:_MOST_CHARACTERS], host[:_MOST_CHARACTERS], command[:_MOST_CHARACTERS], since, int(process), journal
        )


def holder_in_words(text: bytes) -> str:
    """Return the holder, from the contents of a lock file, in words for a message: user, host, command, start time and
    process. If the contents name no holder, they are quoted in part."""
    holder = LockHolder.read(text)
    if holder is None:
        return f"an unknown holder, for it does not say who ({shortened(clean(text.decode('utf-8', 'replace')))})"
    since = holder.since.replace("T", " ").replace("Z", " UTC")
    return f"{holder.user} at {holder.host}, by `{holder.command}` since {since}, process {holder.process}"

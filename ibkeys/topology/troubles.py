"""Attributes that a sweep could not read, and nodes that it did not query."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from ibkeys.errors import IbkeysError, LimitReached, NoReply
from ibkeys.topology.nodes import LinkEnd, Port, Reading


@dataclass(frozen=True, slots=True)
class Trouble:
    """An attribute that should have been read and was not: at which port, and why.

    ``attribute``: the attribute, or the field whose value no port can have (`ibkeys.topology.impossible_values`).
    ``reading``: ``refused``, ``silent``, ``not-asked`` or ``not-in-file``. ``limit``: the name of the limit that was
    reached. NodeInfo is asked of the far end of a link, so its trouble is that of the port before it: the neighbour of
    that port did not answer.
    """

    port: Port
    error: str
    attribute: str = ""
    reading: Reading = "refused"
    limit: str = field(default="", compare=False)

    @classmethod
    def of(cls, port: Port, attribute: str, error: IbkeysError, text: str | None = None) -> Self:
        """Return the trouble for *error*. *text*: a message that is more precise than that of *error*; None or "":
        there is none."""
        reading: Reading = "refused"
        if isinstance(error, NoReply):
            reading = "silent" if error.attempts else "not-asked"
        limit = error.limit if isinstance(error, LimitReached) else ""
        return cls(port, text or str(error), attribute, reading, limit)

    @property
    def is_behind(self) -> bool:
        """Whether the far end of the port's link is the part that could not be read."""
        return self.attribute == "NodeInfo"


@dataclass(frozen=True, slots=True)
class UnqueriedPlace:
    """A place at which a sweep did not query the node, because a protected port may be there.

    ``near``: the port before it. ``known``: (GUID, port) that the known links have there, ``named``: that the SA or a
    forwarding table has there (port 0 where it does not give one); None for nothing.
    """

    near: Port
    known: LinkEnd | None
    named: LinkEnd | None

"""Texts about single ports, such as an error, that know their part in common with texts about other ports."""

from __future__ import annotations

from typing import Self


class PortText(str):
    """A text about one port.

    ``common``: the text without the parts that are only about this port, such as the route to it, so that it is equal
    for all ports with the same cause. ``details``: lines to be shown below the text, such as a diff.
    """

    common: str
    details: str

    def __new__(cls, text: str, common: str | None = None, details: str = "") -> Self:
        """Make a text with the common part *common*; None: the whole text is common."""
        made = super().__new__(cls, text)
        made.common, made.details = text if common is None else common, details
        return made

    def __str__(self) -> Self:
        return self

    @classmethod
    def of(cls, template: str, *ports: object) -> Self:
        """Return *template*, as for `str.format`, filled with *ports*. Its common part has … in their places."""
        return cls(template.format(*ports), template.format(*("…" for _ in ports)))

    @classmethod
    def joined(cls, *texts: str) -> Self:
        """Return *texts* joined, with their common parts joined as ``common``, and the lines of their ``details``."""
        return cls("".join(texts), "".join(map(common_of, texts)), "\n".join(filter(None, map(details_of, texts))))


def at_port(port: object, text: str) -> PortText:
    """Return *text* with the port that it is about before it. A `PortText` keeps its common part and its details."""
    return PortText(f"{port}: {text}", common_of(text), details_of(text))


def common_of(text: str) -> str:
    """Return the common part of a text about one port: all of it, unless it is a `PortText`."""
    return text.common if isinstance(text, PortText) else text


def details_of(text: str) -> str:
    """Return the lines to be shown below a text about one port; "" unless it is a `PortText` with such lines."""
    return text.details if isinstance(text, PortText) else ""

"""Texts about single ports, such as why one could not be read, with what is the same in those about other ports."""

from __future__ import annotations

from typing import Self


class PortText(str):
    """A text about one port. ``common``: the same without what is of that port alone, such as the route to it: ports
    of which the same is said have it in common. ``details``: lines to be shown below it, such as a diff."""

    common: str
    details: str

    def __new__(cls, text: str, common: str | None = None, details: str = "") -> Self:
        """Make a text, of which *common* is as it says; None: all of it."""
        made = super().__new__(cls, text)
        made.common, made.details = text if common is None else common, details
        return made

    def __str__(self) -> Self:
        return self

    @classmethod
    def of(cls, template: str, *ports: object) -> Self:
        """Return *template* with other *ports* in its places; what it has in common has … there."""
        return cls(template.format(*ports), template.format(*("…" for _ in ports)))

    @classmethod
    def joined(cls, *texts: str) -> Self:
        """Return *texts* one after the other; each gives its own part of what they have in common."""
        return cls("".join(texts), "".join(map(common_of, texts)))


def at_port(port: object, text: str) -> PortText:
    """Return *text* with the port that it is about before it."""
    return PortText(f"{port}: {text}", text)


def common_of(text: str) -> str:
    """Return what a text about one port has in common with those about others: all of it, unless it says more."""
    return text.common if isinstance(text, PortText) else text

"""Refusals by checks that run before a change and again during it. During the change they have to say what was done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ibkeys.errors import IbkeysError

_NOTHING: Final = "; nothing was changed"


@contextmanager
def halfway(done: str) -> Iterator[None]:
    """In errors raised inside this block, replace the statement that nothing was changed by what was *done*."""
    try:
        yield
    except IbkeysError as error:
        if error.args:
            error.args = (told_halfway(str(error.args[0]), done), *error.args[1:])
        raise


def told_halfway(text: str, done: str) -> str:
    """Return the *text* of an error with what was *done* in place of that nothing was changed, if it ends so."""
    return f"{text.removesuffix(_NOTHING)}; {done}" if text.endswith(_NOTHING) else text

"""The commands that a message of ibkeys names, and which of them a user takes."""

from __future__ import annotations

import re
from collections.abc import Callable

SHOWING = ("sm-show", "mkey-show", "doctor", "journal", "host-show", "policy-diff", "audit")
"""Commands that only show something: nobody is further by them alone."""
FIRST = (
    "policy-check",
    "--overtaken",
    "--settle",
    "import",
    "mkey-recover",
    "resume",
    "undo",
    "mkey-deploy",
)
"""Which one is taken where a message names several: the first of these that is in one of them."""
HELPING = ("policy-check", "keystore", "mkey-recover")
"""Commands after which the refused one is typed again."""
CODES = (3, 4)
MOST = 8
"""Commands after which a site must be whole."""
_NAMED = re.compile(r"`ibkeys ([^`]+)`")

Run = Callable[[list[str]], tuple[int, str]]


def named_commands(text: str) -> list[list[str]]:
    """Return the commands that *text* names and that do something, each as words without ``ibkeys``."""
    commands = [" ".join(found.split()).split() for found in _NAMED.findall(text)]
    return [words for words in commands if words[0] not in SHOWING]


def way_out(text: str, taken: list[list[str]]) -> list[str]:
    """Return the command that a user takes who reads *text* and has *taken* others already.

    Raises AssertionError where it names none.
    """
    named = named_commands(text)
    again = [words for words in named if words[0] in HELPING and taken.count(words) == 1]
    commands = [words for words in named if words not in taken] or again
    if not commands:
        raise AssertionError(f"names no command that was not taken yet ({taken}): {text}")
    return next((words for part in FIRST for words in commands if part in words), commands[0])


def until_done(run: Run, words: list[str]) -> list[list[str]]:
    """Run a command; where it is refused, what its message names, until one of them has ended the operation; return
    what was typed.

    Raises AssertionError where a message names no way, or none leads there.
    """
    taken: list[list[str]] = [words]
    refused = words
    while len(taken) <= MOST:
        code, text = run(words)
        if code == 0 and words[0] not in HELPING:
            return taken
        if code == 0:
            words = refused
            continue
        if code not in CODES:
            raise AssertionError(f"{words} ended with {code}: {text}")
        if words[0] not in HELPING:
            refused = words
        words = way_out(text, taken)
        taken.append(words)
    raise AssertionError(f"not done after {taken}: {text}")

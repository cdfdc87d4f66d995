"""What an error says on one line is one sentence, made of its fields; the rest explains it, and waits for -v."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from ibkeys import errors
from ibkeys.errors import NOTHING, FileFormatError, IbkeysError, NoReply, NoRoom, Refused, TransportError
from tests.texts import ROOT, fixed_text

KINDS = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, IbkeysError)}
ADDED = {"unchanged", "going_on"}
"""What adds to a message."""
LONGEST = 195
"""Characters of a message before its names and numbers are put in."""
_NO_ONE = re.compile(r"\b(somebody|nobody|someone)\b", re.IGNORECASE)
_NEXT_SENTENCE = re.compile(r"\w[)`]?\. +[A-Z]")


def messages() -> Iterator[tuple[str, str]]:
    """Yield where each error and each objection of an interlock is made, and its text."""
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func).rpartition(".")[2]
            at = 1 if called == "Objection" else 0 if called in KINDS | ADDED else None
            if at is not None and len(node.args) > at:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", fixed_text(node.args[at])


def test_each_message_is_one_sentence() -> None:
    assert [where for where, text in messages() if _NEXT_SENTENCE.search(text)] == []


def test_no_message_is_longer_than_people_read() -> None:
    assert [(where, len(text)) for where, text in messages() if len(text) > LONGEST] == []


def test_every_sentence_says_who() -> None:
    """A message, a help text or a page names the user, the program or the port in place of an unknown person."""
    files = [path for kind in ("*.py", "*.sh") for path in ROOT.rglob(kind)]
    files += [*(ROOT.parent / "man").iterdir(), *(ROOT.parent / "docs").glob("*.md")]
    files += [path for folder in ("howto", "explanation") for path in (ROOT.parent / "docs" / folder).iterdir()]
    found = [
        f"{path.relative_to(ROOT.parent)}: {line.strip()}"
        for path in files
        for line in path.read_text().splitlines()
        if _NO_ONE.search(line)
    ]
    assert found == []


def test_there_are_messages_to_look_at() -> None:
    assert len(list(messages())) > 300


def test_what_explains_an_error_is_beside_it_for_scripts_and_in_a_traceback() -> None:
    error = NoRoom("full").explained("Why it is so.", "", "What else.")
    assert str(error) == "full"
    assert error.more == "Why it is so.\nWhat else."
    assert error.__notes__ == [error.more]
    assert NoRoom("full").more == NoRoom("full").explained("").more == ""


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Refused("a stranger", "opensm-keys").unchanged(), "a stranger; 2 of 5 are made"),
        (Refused("a stranger", "opensm-keys").unchanged("stop it"), "a stranger; 2 of 5 are made: stop it"),
        (Refused("the master runs no more", "stale"), "the master runs no more"),
        (FileFormatError("no record", "guid2mkey", 3).unchanged(), "guid2mkey:3: no record; 2 of 5 are made"),
        (TransportError("no port", 19).unchanged(), "no port; 2 of 5 are made"),
    ],
)
def test_in_the_middle_of_a_change_an_error_does_not_say_that_nothing_was_changed(
    error: IbkeysError, text: str
) -> None:
    assert str(error.after("2 of 5 are made")) == text


def test_the_line_is_made_of_the_fields() -> None:
    error = NoReply("no answer", 3).unchanged("ask again", "A cable?").going_on("`ibkeys undo 7` first", operation=7)
    error.step = "step 2 of 3 (M_Keys)"
    assert str(error) == "step 2 of 3 (M_Keys): no answer; nothing was changed: ask again; `ibkeys undo 7` first"
    assert (error.message, error.changed, error.operation, error.more) == ("no answer", NOTHING, 7, "A cable?")
    assert str(error.going_on("", "or wait")).endswith("first; or wait")

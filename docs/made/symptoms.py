"""The symptoms: the list in ibkeys-symptoms(7), and a page of the site, both made from the table of `explain`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ibkeys.symptoms.row import Cause, Symptom
from ibkeys.symptoms.table import BY_SUBJECT

_LIST: Final = re.compile(r'(\.\\" made from ibkeys/symptoms: TABLE\n)(?:.*\n)*?(\.\\" end\n)')
_SAMPLES: Final = {
    "lid": "5",
    "lid1": "5",
    "lid2": "6",
    "guid": "0x0002c903000a1021",
    "guid2": "0x0002c903000a1031",
    "pkey": "0x8010",
    "qkey": "0x00000b1b",
    "route": "0,1,4",
}
"""The numbers of a command on the pages, by their place."""
_PLACE: Final = re.compile(r"\{([a-z_0-9]+)\}")


def with_symptoms(page: str) -> str:
    """Return the text of a man page with the list of the symptoms, where it has one."""
    return _LIST.sub(lambda found: f"{found[1]}{''.join(_sections())}{found[2]}", page)


def page() -> str:
    """Return the text of the page of the site: the symptoms by subject."""
    text = (
        "# From the symptom to the command\n\nWhat programs print, what it means, and the command that decides. "
        "`ibkeys explain` finds the\nentry of a text that you paste, and fills its LIDs, GUIDs and P_Keys in:\n\n"
        "```sh\nibkeys explain - < opensm.log\n```\n\n"
    )
    for subject, rows in BY_SUBJECT.items():
        text += f"## {subject}\n\n" + "".join(map(_entry, rows))
    return text


def _entry(row: Symptom) -> str:
    text = f"({_anchor(row)})=\n### {_capital(row.title)}\n\n```text\n{row.example}\n```\n\n{row.meaning}\n\n"
    for number, cause in enumerate(row.causes, 1):
        command = _command(cause)
        shown = f" `{command}` shows then: {cause.shows}." if command else ""
        remedy = f" {cause.remedy}" if cause.remedy else ""
        text += f"{number}. {cause.text}{shown}{remedy}\n"
    text += "\n" if row.causes else ""
    for title, words in (("Not known", row.unknown), ("A key is in it", row.leaks), ("Source", row.source)):
        text += f"**{title}:** {words}\n\n" if words else ""
    return text


def _anchor(row: Symptom) -> str:
    return f"symptom-{row.name.lower()}"


def _sections() -> Iterator[str]:
    for subject, rows in BY_SUBJECT.items():
        yield f".SH {_roff(subject.upper())}\n"
        for row in rows:
            yield from _lines(row)


def _lines(row: Symptom) -> Iterator[str]:
    yield f".SS {_roff(_capital(row.title))}\n"
    yield f"\\fI{_roff(row.example)}\\fR\n.PP\n{_roff(row.meaning)}\n"
    for number, cause in enumerate(row.causes, 1):
        command = _command(cause)
        yield f".IP {number}. 4\n{_roff(cause.text)}\n"
        if command:
            yield f"\\fB{_roff(command)}\\fR shows then: {_roff(cause.shows)}.\n"
        if cause.remedy:
            yield f"{_roff(cause.remedy)}\n"
    for title, words in (("Not known", row.unknown), ("A key is in it", row.leaks), ("Source", row.source)):
        if words:
            yield f".PP\n{title}: {_roff(words)}\n"


def _command(cause: Cause) -> str:
    """Return the command of a cause with samples of its numbers; "" if no command decides."""
    if not cause.commands:
        return ""
    return "ibkeys " + _PLACE.sub(lambda place: _SAMPLES[place[1]], cause.commands[0])


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _roff(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return f"\\&{text}" if text[:1] in (".", "'") else text

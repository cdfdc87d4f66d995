"""Searching all help texts, man pages, symptoms and audit rules for a word that names no command.

``P_Key``, ``p-key`` and ``PKEY`` are the same word. The man pages are read where they are installed, or in the folder
of a checkout; without them the rest is searched. Options that many commands share are searched in ibkeys-options(7).
"""

from __future__ import annotations

import gzip
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import click

from ibkeys.cli.help.common import section_of

Where = Literal["command", "symptom", "rule", "page"]
_FOLDERS: Final = ("man1", "man5", "man7")
_PAGE: Final = re.compile(r"(?P<name>ibkeys[a-z.-]*)\.(?P<section>[157])(?:\.gz)?")
_LARGEST: Final = 1_000_000
"""The most bytes of a man page that are read."""
_ESCAPES: Final = re.compile(r"\\f[BIRP]|\\[%&|]|\\\([a-z]{2}")
_MACRO: Final = re.compile(r"\.(?P<name>[A-Z]{2})(?: +(?P<rest>.*))?$")
_SNIPPET: Final = 76
"""The most characters that are shown of a place."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A place where all words are. ``name``: of the command, symptom, rule or man page. ``text``: the place, shortened;
    of a symptom or rule its title. ``rank``: 0 for a name, summary or title, 1 for a text that is like a title, 2 for a
    longer text."""

    where: Where
    name: str
    text: str
    rank: int


_Searched = tuple[Where, str, list[tuple[int, str]]]
"""A thing that is searched: its kind, its name, and its texts, each with its rank."""


def search(words: Iterable[str], root: click.Context) -> list[Hit]:
    """Return the places where all *words* are: the best of each command, symptom, rule and man page, and the best
    first. Of equal ones those come first that have the words in their own name.

    *root*: click's context of ibkeys.
    """
    wanted = [plain for word in words for part in word.split() if (plain := _plain(part))]
    if not wanted:
        return []
    best: dict[tuple[str, str], Hit] = {}

    def order(hit: Hit) -> tuple[int, bool]:
        return hit.rank, not all(word in _plain(hit.name) for word in wanted)

    for hit in sorted(_hits(wanted, root), key=order):
        best.setdefault((hit.where, hit.name), hit)
    return list(best.values())


def _hits(wanted: list[str], root: click.Context) -> Iterator[Hit]:
    for where, name, texts in (*_commands(root), *_symptoms(), *_rules(), *_man_pages()):
        for rank, text in texts:
            plain = _plain(text)
            if all(word in plain for word in wanted):
                shown = texts[0][1] if where in ("symptom", "rule") else text
                yield Hit(where, name, _snippet(shown, wanted), rank)


def _commands(root: click.Context) -> Iterator[_Searched]:
    from ibkeys.cli import COMMANDS

    assert isinstance(root.command, click.Group)
    for name, entry in COMMANDS.items():
        command = root.command.get_command(root, name)
        assert command is not None
        inner = [*command.commands.values()] if isinstance(command, click.Group) else []
        texts = [(0, f"{name}: {entry.summary}"), (2, " ".join((command.help or "").split()))]
        texts += [(1, f"{name} {each.name}: {each.get_short_help_str(200)}") for each in inner]
        for param in (param for each in (command, *inner) for param in each.params):
            if isinstance(param, click.Option) and not param.hidden and section_of(param) is None:
                texts.append((2, f"{max(param.opts, key=len)}: {param.help or ''}"))
        yield "command", name, texts


def _symptoms() -> Iterator[_Searched]:
    from ibkeys.symptoms.table import TABLE

    for row in TABLE:
        causes = [(2, cause.text) for cause in row.causes]
        yield "symptom", row.name, [(0, row.title), (1, row.example), (1, row.words), (2, row.meaning), *causes]


def _rules() -> Iterator[_Searched]:
    from ibkeys.audit.catalogue import CATALOGUE

    for rule in CATALOGUE:
        yield "rule", rule.id, [(0, f"{rule.id}: {rule.title}"), (2, rule.evidence), (2, rule.why)]


def _man_pages() -> Iterator[_Searched]:
    for file, found in _files():
        if found["name"] != "ibkeys-symptoms":  # its entries are the symptoms
            yield "page", f"{found['name']}({found['section']})", list(_paragraphs(_read(file)))


def _files() -> list[tuple[Path, re.Match[str]]]:
    """Return the man pages of the first place that has them: the checkout, this installation, the system."""
    places = [[Path(__file__).parents[3] / "man"]]
    places += [[Path(base, "share", "man", each) for each in _FOLDERS] for base in (sys.prefix, "/usr")]
    for folders in places:
        names = [(file, _PAGE.fullmatch(file.name)) for folder in folders for file in sorted(folder.glob("ibkeys*"))]
        found = [(file, match) for file, match in names if match is not None]
        if found:
            return found
    return []


def _read(file: Path) -> str:
    try:
        if file.suffix == ".gz":
            with gzip.open(file) as packed:
                return packed.read(_LARGEST).decode("utf-8", "replace")
        with file.open("rb") as page:
            return page.read(_LARGEST).decode("utf-8", "replace")
    except OSError:
        return ""  # a page that cannot be read is not searched: the others are


def _paragraphs(page: str) -> Iterator[tuple[int, str]]:
    """Yield the paragraphs of a man page with their rank; a paragraph ends at a macro."""
    section, lines = "", list[str]()
    for line in (*page.splitlines(), ".SH"):
        macro = _MACRO.match(line)
        if macro is None:
            if not line.startswith((".", "'")):
                lines.append(line)
            continue
        if lines:
            text = _ESCAPES.sub("", " ".join(lines).replace("\\-", "-"))
            yield (0, text.partition(" - ")[2]) if section == "NAME" else (2, text)
        lines = []
        if macro["name"] == "SH":
            section = (macro["rest"] or "").strip('"')


def _plain(text: str) -> str:
    """Return *text* as it is compared: in small letters, without the hyphens and underscores within words."""
    return re.sub(r"(?<=\w)[-_](?=\w)", "", " ".join(text.lower().split()))


def _snippet(text: str, wanted: list[str]) -> str:
    """Return the part of *text* around the first of the words, of about `_SNIPPET` characters."""
    text = " ".join(text.split())
    if len(text) <= _SNIPPET:
        return text
    words, length = text.split(" "), 0
    at = next((number for number, word in enumerate(words) if wanted[0] in _plain(word)), 0)
    start = max(0, at - 4)
    before = "... " if start else ""
    shown = list[str]()
    for word in words[start:]:
        length += len(word) + 1
        if length > _SNIPPET and len(shown) > at - start:
            return f"{before}{' '.join(shown)} ..."
        shown.append(word)
    return f"{before}{' '.join(shown)}"

"""The commands that README, docs and man pages show."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from ibkeys.cli import main
from tests.corpus import DATA

ROOT: Final = DATA.parents[1]
DOCS: Final = ROOT / "docs"
PAGES: Final = sorted(page for page in DOCS.glob("**/*.md") if "reference" not in page.relative_to(DOCS).parts)
"""The pages of docs that are written by hand."""
MAN_PAGES: Final = sorted((ROOT / "man").glob("ibkeys*.[1-8]"))

_SPAN = r"\\f[BI](?:(?!\\fR).)*\\fR"
_NUMBERS: Final = {"ID": "7", "N": "3", "S": "60"}
"""Words of man pages that stand for a number."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A command of a page. ``words``: what follows ``ibkeys``; ``is_whole``: it can be typed as it is. A sentence may
    name a command without what it needs."""

    words: tuple[str, ...]
    is_whole: bool

    def __str__(self) -> str:
        return " ".join(("ibkeys", *self.words))


def commands(page: Path) -> Iterator[Shown]:
    """Yield each ``ibkeys COMMAND ...`` of a page in Markdown or of a man page."""
    text = page.read_text()
    yield from _of_markdown(text) if page.suffix == ".md" else _of_man_page(text)


def _of_markdown(text: str) -> Iterator[Shown]:
    """Those in blocks of shell, and in code within a sentence."""
    for block in re.findall(r"```(?:sh|console)\n(.*?)```", text, re.S):
        for line in re.findall(r"^ *(?:[$#] )?(?:ibsim-run )?(ibkeys .*)$", block, re.M):
            yield from of_line(line, is_whole=True)
    for code in re.findall(r"`(ibkeys [a-z][^`\n]*)`", text):
        yield from of_line(code, is_whole=False)


def _of_man_page(text: str) -> Iterator[Shown]:
    """Those in bold, which begin with their name, and those in blocks without filling."""
    for section in re.split(r"^\.SH ", text, flags=re.M)[1:]:
        name = section.partition("\n")[0]
        for line in re.findall(r"^# (ibkeys .*)$", section, re.M):
            yield from of_line(_plain(line), is_whole=True)
        if name == "SYNOPSIS":
            continue
        for spans in re.findall(rf"\\fB(?:[^\\\n]*; )?ibkeys [a-z](?:(?!\\fR).)*\\fR(?: ?{_SPAN})*", section):
            yield from of_line(_plain(spans), is_whole=name == "EXAMPLES")


def _plain(roff: str) -> str:
    """Return a text of a man page without fonts and escapes, and with a number for what stands for one."""
    text = re.sub(r"\\fI([A-Z]+)\\fR", lambda found: _NUMBERS.get(found[1], found[1]), roff)
    for escape, character in ((r"\-", "-"), (r"\%", ""), (r"\(aq", "'")):
        text = text.replace(escape, character)
    return re.sub(r"\\f[BIR]", "", text)


def of_line(line: str, is_whole: bool) -> Iterator[Shown]:
    """Yield the commands of a line of shell."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";|<>&")
    lexer.whitespace_split = True
    words: list[str] = []
    is_redirected = False
    for word in (*lexer, ";"):
        if word[0] in "<>":
            is_redirected = True
        elif word[0] in ";|&":
            if words[:1] == ["ibkeys"]:
                yield Shown(tuple(words[1:]), is_whole)
            words, is_redirected = [], False
        elif not is_redirected:
            words.append(word)


def named(shown: Shown) -> tuple[click.Command, list[str]]:
    """Return the command that is shown, and the words after its name."""
    found: click.Command = main
    rest = list(shown.words)
    with click.Context(main) as context:
        while isinstance(found, click.Group) and rest:
            _, inner, rest = found.resolve_command(context, rest)
            assert inner is not None
            found = inner
    return found, rest

"""The pages of docs: every command that they show exists, and takes the options and values that they give it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from ibkeys.cli import main
from tests.corpus import DATA

DOCS = DATA.parents[1] / "docs"
PAGES = sorted(page for page in DOCS.glob("**/*.md") if "reference" not in page.relative_to(DOCS).parts)
SHELL = re.compile(r"[|;<>#&]")


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each ``ibkeys COMMAND ...``: in blocks of shell, and in code within a sentence."""
    for block in re.findall(r"```(?:sh|console)\n(.*?)```", text, re.S):
        for line in re.findall(r"^ *(?:\$ )?(?:ibsim-run )?ibkeys (.*)$", block, re.M):
            yield words(line)
    for code in re.findall(r"`ibkeys ([a-z][^`\n]*)`", text):
        yield words(code)


def words(line: str) -> list[str]:
    """Return the words of a command, up to what the shell makes of the rest."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";|<>&")
    lexer.whitespace_split = True
    found = []
    for word in lexer:
        if SHELL.fullmatch(word[0]):
            break
        found.append(word)
    return found


def named(line: list[str]) -> tuple[click.Command, list[str]]:
    """Return the command that *line* names, and the words after it."""
    found: click.Command = main
    with click.Context(main) as ctx:
        while isinstance(found, click.Group) and line:
            inner = found.get_command(ctx, line[0])
            assert inner is not None, f"there is no command {line[0]!r}"
            found, line = inner, line[1:]
    return found, line


def test_there_are_pages() -> None:
    assert len(PAGES) > 15


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_each_command_of_a_page_is_one_that_is_understood(page: Path) -> None:
    """Its options are there, and their values are such. A sentence may name a command without what it needs."""
    for line in commands(page.read_text()):
        if line[0].startswith("-"):
            continue
        command, rest = named(line)
        try:
            command.make_context(line[0], rest, parent=click.Context(main, **main.context_settings))
        except (click.MissingParameter, click.exceptions.Exit):  # the latter: --help
            continue
        except click.UsageError as error:
            pytest.fail(f"ibkeys {' '.join(line)}: {error.format_message()}")

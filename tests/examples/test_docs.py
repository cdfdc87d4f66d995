"""The pages of docs: every command that they show exists, and takes the options and values that they give it."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from ibkeys.cli import main
from tests.examples.pages import DOCS, PAGES, commands, named


def test_there_are_pages() -> None:
    assert len(PAGES) > 15


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_each_command_of_a_page_is_one_that_is_understood(page: Path) -> None:
    """Its options are there, and their values are such. A sentence may name a command without what it needs."""
    for shown in commands(page):
        if shown.words[0].startswith("-"):
            continue
        command, rest = named(shown)
        try:
            command.make_context(shown.words[0], rest, parent=click.Context(main, **main.context_settings))
        except (click.MissingParameter, click.exceptions.Exit):  # the latter: --help
            continue
        except click.UsageError as error:
            pytest.fail(f"{shown}: {error.format_message()}")

"""The pages of a report that are neither audit nor matrix: the first page, the changes of a fabric, the operations of
the journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ibkeys.audit.formats.folder import FIRST
from ibkeys.audit.formats.page import render_page
from ibkeys.audit.formats.words import count

MOST: Final = 5000
"""Lines of a table that a page holds at most. Further ones are counted, and the page names the command that shows
them."""


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table of texts. ``more``: the command that shows all rows, if the table has more than `MOST`."""

    title: str
    columns: Sequence[str]
    lines: Sequence[Sequence[str]]
    more: str


@dataclass(frozen=True, slots=True)
class Text:
    """The texts at the top of every page: a title, the answer in a few words, sentences below it, and facts (name →
    value).

    ``tone``: ``good``, ``warn`` or ``bad``; "" for none.
    """

    title: str
    headline: str
    sentences: Sequence[str]
    facts: Mapping[str, str]
    tone: str = ""


def render_text(
    text: Text,
    tables: Sequence[ReportTable] = (),
    links: Sequence[tuple[str, str, str]] = (),
    *,
    version: str = "",
    stands_alone: bool = False,
) -> str:
    """Return a page. *tables*: shown below the text; *links*: file, title and contents of each further page.
    *stands_alone*: whether the page belongs to no report, so that it has no link to the first page of one.

    Raises UsageError if jinja2 is not installed.
    """
    return render_page(
        "tables.html.j2",
        page=text,
        tables=tables,
        links=links,
        first="" if stands_alone else FIRST,
        most=MOST,
        count=count,
        version=version,
    )

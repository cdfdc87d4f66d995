"""The reference pages of the documentation site, made from what they describe each time the site is built."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from docs.made import api, commands, fields, man, rules, schemas

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "reference"


def write() -> None:
    """Write every page into docs/reference, and remove those that are no longer made.

    A page that says the same is not written again, so that Sphinx builds only what changed.
    """
    pages = dict(_pages())
    for name, text in pages.items():
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text() != text:
            path.write_text(text)
    for path in FOLDER.glob("**/*.*"):
        if str(path.relative_to(FOLDER)) not in pages:
            path.unlink()


def _pages() -> Iterator[tuple[str, str]]:
    """Yield the path of each page below docs/reference, and its text."""
    yield from man.pages(ROOT / "man")
    yield from commands.pages()
    yield "documents.md", schemas.page(ROOT / "docs" / "published" / "schemas")
    yield "rules.md", rules.page()
    yield "fields.md", fields.page()
    yield "python.md", api.page()

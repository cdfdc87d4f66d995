"""What is made from what it describes each time the site is built: the reference pages of the site, and in the tree the
JSON Schema files, and in the man pages the lists of fields, commands, audit rules and symptoms, and the examples.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from docs.made import api, commands, documents, fields, man, rules, schemas, symptoms

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "reference"
MAN_PAGES = ROOT / "man"
SCHEMAS = ROOT / "docs" / "published" / "schemas"


def write() -> None:
    """Write the made files of the repository and all pages of docs/reference; remove pages that are no longer made."""
    for path, text in in_tree():
        _write(path, text)
    pages = dict(_pages())
    for name, text in pages.items():
        _write(FOLDER / name, text)
    for path in FOLDER.glob("**/*.*"):
        if str(path.relative_to(FOLDER)) not in pages:
            path.unlink()


def in_tree() -> Iterator[tuple[Path, str]]:
    """Yield each file of the tree that has something made, and what it should be."""
    yield from ((SCHEMAS / name, text) for name, text in documents.schemas())
    for page in sorted(MAN_PAGES.glob("*.[1-8]")):
        made = commands.with_commands(documents.with_fields(page.read_text()))
        yield page, symptoms.with_symptoms(rules.with_rules(made))


def _write(path: Path, text: str) -> None:
    """Write a file, unless it says the same already: so Sphinx builds only what changed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or path.read_text() != text:
        path.write_text(text)


def _pages() -> Iterator[tuple[str, str]]:
    """Yield the path of each page below docs/reference, and its text."""
    yield from man.pages(MAN_PAGES)
    yield "documents.md", schemas.page(SCHEMAS)
    yield "rules.md", rules.page()
    yield "symptoms.md", symptoms.page()
    yield "fields.md", fields.page()
    yield "python.md", api.page()

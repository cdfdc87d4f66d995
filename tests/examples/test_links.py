"""Links of README and docs: each leads to a file of the repository, so it works where that is browsed."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from docs.made.links import for_the_site
from tests.examples.pages import DOCS, PAGES, ROOT

TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", ROOT / "contrib" / "README.md", *PAGES]
PICTURES = DOCS / "pictures"


def targets(page: Path) -> Iterator[str]:
    """Yield where each link and picture of a page leads, without those to other hosts."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text)):
        if not target.startswith(("https:", "mailto:")):
            yield target


def anchors(page: Path) -> set[str]:
    """Return the names of a page's headings, as the sites that show repositories make them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_link_leads_to_a_file_of_the_repository(page: Path) -> None:
    for target in targets(page):
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target
    assert "{doc}" not in page.read_text()


@pytest.mark.parametrize(
    ("link", "in_the_site"),
    [
        ("[ibkeys-why(1)](../../man/ibkeys-why.1)", "[ibkeys-why(1)](/reference/man/ibkeys-why.1.md)"),
        ("[MK005](../../man/ibkeys-audit.1)", "[MK005](#mk005)"),
        ("[Library](../../ibkeys/__init__.py)", "[Library](/reference/python.md)"),
        ("[Limits](../limits.md#size)", "[Limits](../limits.md#size)"),
        ("[a host](https://example.org/)", "[a host](https://example.org/)"),
        ("[units](../../contrib/README.md)", "units"),
        ("![a picture](../pictures/report.png)", "![a picture](../pictures/report.png)"),
    ],
)
def test_a_link_to_a_file_leads_to_the_page_of_the_site(link: str, in_the_site: str) -> None:
    assert for_the_site("howto/who", f"See {link}.") == f"See {in_the_site}."


def test_a_diagram_becomes_a_part_of_its_page() -> None:
    inside = "```{raw} html\n:file: ../diagrams/lease.svg\n```"
    assert for_the_site("howto/who", "Seen:\n\n![a lease](../diagrams/lease.svg)\n") == f"Seen:\n\n{inside}\n"


def test_each_page_can_be_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    left = [ROOT / "README.md"]
    while left:
        page = left.pop()
        reached.add(page)
        links = {Path(posixpath.normpath(page.parent / target.partition("#")[0])) for target in targets(page)}
        left += [link for link in links - reached if link.suffix == ".md"]
    assert set(PAGES) - reached <= {DOCS / "howto" / "index.md", DOCS / "explanation" / "index.md"}  # the side bar only


def test_the_gallery_has_every_picture_and_each_is_small() -> None:
    pictures = set(PICTURES.iterdir())
    assert {DOCS / target for target in targets(DOCS / "gallery.md")} == pictures
    assert all(picture.stat().st_size <= 150_000 for picture in pictures)


def test_each_diagram_is_shown_and_well_formed() -> None:
    diagrams = set((DOCS / "diagrams").glob("*.svg"))
    shown = {Path(posixpath.normpath(page.parent / target)) for page in PAGES for target in targets(page)}
    assert diagrams
    assert diagrams <= shown
    for diagram in diagrams:
        assert ElementTree.parse(diagram).getroot().tag == "{http://www.w3.org/2000/svg}svg"

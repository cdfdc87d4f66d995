"""The man pages as pages of the site: mandoc makes HTML of each, and its sections become sections of the page."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ibkeys.cli import COMMANDS, GROUPS

_SECTION: Final = re.compile(
    r'<section class="Sh">\s*<h1 class="Sh" id="(?P<id>[^"]+)">(?P<title>.*?)</h1>(?P<body>.*?)'
    r'(?=</section>\s*(?:<section class="Sh">|</div>))',
    re.S,
)
_TAG: Final = re.compile(r"<[^>]+>")
_TABLE: Final = re.compile(r'<table class="tbl">(.*?)</table>', re.S)
_SCROLLED: Final = r'<div class="table-wrapper container"><table class="tbl docutils">\1</table></div>'
"""A table as the theme has it: it scrolls where the window is narrower."""
_REFERENCE: Final = re.compile(r"<b>(ibkeys[\w.-]*)</b>\((\d)\)")


def pages(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of the page for each man page in *folder*, and of the list of them.

    Raises CalledProcessError if mandoc refuses one, and ValueError if one names a page that there is not.
    """
    files = sorted(folder.glob("ibkeys*.[1-8]"), key=lambda file: (file.suffix, file.name))
    names = {file.name for file in files}
    for file in files:
        yield f"man/{file.name}.md", _page(file, names)
    yield "man/index.md", _list(files)


def _list(files: list[Path]) -> str:
    """Return the list of the commands, in the order of the program's help, and of the other pages."""
    text = "# Commands and man pages\n\nA man page says what its command promises.\n\n"
    for title, group in GROUPS.items():
        text += f"## {title}\n\n"
        text += "".join(f"- [{name}](ibkeys-{name}.1.md): {entry.summary}\n" for name, entry in group.items()) + "\n"
    listed = {f"ibkeys-{name}.1" for name in COMMANDS}
    text += "## Other pages\n\n"
    return text + "".join(
        f"- [{file.stem}({file.suffix[1:]})]({file.name}.md): {_purpose(file)}\n"
        for file in files
        if file.name not in listed
    )


def _purpose(file: Path) -> str:
    """Return what the section NAME says after the name."""
    return file.read_text().split("\n.SH NAME\n")[1].split("\n")[0].split(" \\- ", 1)[1].replace("\\-", "-")


def _page(file: Path, names: set[str]) -> str:
    command = ["mandoc", "-T", "html", "-O", "fragment", str(file)]
    html = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    name, section = file.name.rsplit(".", 1)
    text = f"---\norphan: true\n---\n\n# {name}({section})\n\n"
    for found in _SECTION.finditer(html):
        title = " ".join(_TAG.sub("", found["title"]).split())
        body = _with_links(found["body"], file.name, names).replace("h2", "h3")
        body = _TABLE.sub(_SCROLLED, body)
        text += f"## {title.capitalize()}\n\n````{{raw}} html\n{body.strip()}\n````\n\n"
    return text


def _with_links(html: str, file: str, names: set[str]) -> str:
    """Make links of the man pages that *html* names in bold."""

    def link(found: re.Match[str]) -> str:
        named = f"{found[1]}.{found[2]}"
        if named not in names:
            raise ValueError(f"man/{file} refers to {found[1]}({found[2]}), and there is no man/{named}")
        return f'<a href="{named}.html"><b>{found[1]}</b>({found[2]})</a>'

    return _REFERENCE.sub(link, html)

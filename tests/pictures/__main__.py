"""``make pictures``, ``python -m tests.pictures FOLDER``: what the pages look like, of made-up fabrics, as PNG."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.pictures.chromium import Page, browser
from tests.pictures.site import SIZES, write_report

MOST: Final = 150_000
"""Bytes of a picture that is kept in the repository."""

Take = Callable[[Page, Path], bytes]


def main() -> int:
    """Take every picture. Returns 0; raises ValueError where one is too large to be kept."""
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ibkeys-pictures-") as made, browser() as chromium:
        for size, net in SIZES.items():
            (Path(made) / size).mkdir()
            os.chdir(Path(made) / size)  # so that the pages name no path of this machine
            write_report(net(), Path())
        for name, (place, take) in PICTURES.items():
            picture = take(chromium.page(), Path(made) / place)
            if len(picture) > MOST:
                raise ValueError(f"{name}: {len(picture)} bytes are more than {MOST}")
            (folder / name).write_bytes(picture)
            print(f"{name}: {len(picture)} bytes")
        os.chdir(folder)
    return 0


def _whole(page: Page, file: Path) -> bytes:
    page.show(file.as_uri(), 1040, 680)
    return page.picture()


def _searched(page: Page, file: Path) -> bytes:
    """Take the matrix with the answer to who can talk to gpu-a03."""
    page.show(file.as_uri(), 1000, 1080)
    page.run("document.querySelector('#search input').focus()")
    page.type("gpu-a03", enter=True)
    page.run("document.activeElement.blur()")
    page.run("scrollTo(0, 0)")
    return page.picture()


def _telephone(page: Page, file: Path) -> bytes:
    page.show(file.as_uri(), 390, 1100, "dark")
    page.run("document.querySelector('#by-level').click()")
    return page.picture()


def _partition(page: Page, file: Path) -> bytes:
    """Take the matrix of 3,008 hosts with a row that was clicked on."""
    page.show(file.as_uri(), 1000, 1000)
    page.run("document.querySelector('#rows tbody tr:nth-child(5) td').click()")
    page.run("scrollTo(0, 0)")
    return page.picture()


def _findings(page: Page, file: Path) -> bytes:
    page.show(file.as_uri(), 1000, 900, "dark")
    page.run("document.querySelector('#findings').scrollIntoView()")
    return page.picture()


def _paper(page: Page, file: Path) -> bytes:
    """Take the first sheet as it is printed: A4 without its margins."""
    page.show(file.as_uri(), 718, 1040)
    page.media("print", "light")
    return page.picture()


PICTURES: Final[dict[str, tuple[str, Take]]] = {
    "report.png": ("small/report/index.html", _whole),
    "matrix-who.png": ("small/report/matrix.html", _searched),
    "matrix-3008-hosts.png": ("large/report/matrix.html", _partition),
    "map-partition.png": ("small/report/map-partition.svg", _whole),
    "telephone-dark.png": ("small/report/matrix.html", _telephone),
    "audit-3008-hosts-dark.png": ("large/report/audit.html", _findings),
    "what-changed.png": ("small/report/diff.html", _whole),
    "paper.png": ("large/report/matrix.html", _paper),
}
"""Name → the page of a report, and how it is looked at."""


if __name__ == "__main__":
    raise SystemExit(main())

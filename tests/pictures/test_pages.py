"""The pages of a report in a browser: nothing overlaps or hangs over, clicks and search answer, no name does anything.

They need Chromium, so `make soak` runs them, and `make pictures` keeps what they look at.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from ibkeys.sim.subnet import Subnet
from tests.cli.conftest import run
from tests.pictures.chromium import Browser, Page, Scheme, browser
from tests.pictures.site import SIZES, snapshots, write_report

pytestmark = pytest.mark.soak

HTML = ("index", "audit", "matrix", "diff", "journal")
MAPS = ("map-partition", "map-level", "map-finding")
HANGING = """[...document.querySelectorAll("body *")].filter((each) => {
  const box = each.getBoundingClientRect();
  return box.width && box.right > innerWidth + 1 && !each.closest(".scroll, pre");
}).map((each) => each.outerHTML.slice(0, 100))"""
LABELS = """(within) => [...document.querySelectorAll(within)].map((svg) =>
  [...svg.querySelectorAll("text")].filter((each) => getComputedStyle(each).display !== "none").map((each) => {
    const box = each.getBoundingClientRect();
    return [box.left, box.top, box.right, box.bottom, each.textContent];
  }))"""
HOSTILE = [
    b"</script><img src=x onerror=hurt=1>",
    b"</title><script>hurt=1</script>",
    b"\"'><svg onload=hurt=1>",
    "\u202egpj.exe\u2066 mlx5_0".encode(),
    "宽".encode() * 21,
    b"\x1b[2J\x00\xff\xfe",
]
"""What nodes may call themselves; a NodeDescription has 64 bytes."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as running:
        yield running


@pytest.fixture(scope="module", params=SIZES)
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    return write_report(SIZES[request.param](), folder)


def shown(chromium: Browser, file: Path, width: int = 1280, scheme: Scheme = "light") -> Page:
    assert file.exists()
    page = chromium.page()
    page.show(file.as_uri(), width, 800, scheme)
    return page


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_fits_the_window_and_asks_for_nothing(
    chromium: Browser, report: Path, width: int, scheme: Scheme
) -> None:
    for name in HTML:
        page = shown(chromium, report / f"{name}.html", width, scheme)
        assert page.run(HANGING) == []
        assert page.run("document.documentElement.scrollWidth") <= width
        assert page.troubles == []
    for name in MAPS:
        assert shown(chromium, report / f"{name}.svg", width, scheme).troubles == []


def meet(labels: list[list[Any]]) -> list[tuple[str, str]]:
    """Return the labels that overlap by more than the empty space that a font has above its letters."""
    return [
        (one[4], other[4])
        for one, other in combinations(labels, 2)
        if min(one[2], other[2]) - max(one[0], other[0]) > 3 and min(one[3], other[3]) - max(one[1], other[1]) > 3
    ]


def test_no_label_meets_another_in_the_fonts_that_are_there(chromium: Browser, report: Path) -> None:
    page = shown(chromium, report / "matrix.html")
    pictures = page.run(f"({LABELS})('#matrix .labels:not(.again) svg, #matrix .band svg')")
    assert sum(map(len, pictures)) > 10
    assert [meet(labels) for labels in pictures if meet(labels)] == []
    for name in MAPS:
        (labels,) = shown(chromium, report / f"{name}.svg").run(f"({LABELS})('svg')")
        assert len(labels) > 20
        near = sorted(labels, key=lambda each: each[1])
        assert [meet(near[at : at + 60]) for at in range(0, len(near), 30) if meet(near[at : at + 60])] == []


PLACE = """(kind, at) => {
  const lines = [...document.querySelectorAll(`#matrix .labels:not(.again) svg [data-row]`)];
  const heads = [...document.querySelectorAll(`#matrix .band svg [data-column]`)];
  const row = lines.find((each) => each.dataset.row == at).getBoundingClientRect();
  const head = heads.find((each) => each.dataset.column == at).getBoundingClientRect();
  scrollTo(0, 0);
  return {row: [row.left + 10, row.top + 6], column: [head.left + 6, head.bottom - 10],
    cell: [head.left + 6, row.top + 6]}[kind];
}"""


@pytest.mark.parametrize(
    ("kind", "heading", "says"),
    [
        ("column", "Column 2: ", ["Who its ports can talk to, and why", "can talk", "ibkeys why 0x"]),
        ("row", "Partition 0x0100", ["Column", "full"]),
        ("cell", "Column 2: ", ["Partition 0x0100", "can talk"]),
    ],
)
def test_a_click_shows_members_and_why(
    chromium: Browser, report: Path, kind: str, heading: str, says: list[str]
) -> None:
    page = shown(chromium, report / "matrix.html")
    page.click(*page.run(f"({PLACE})('{kind}', 1)"))
    panel = page.run("document.querySelector('#chosen:not([hidden])').textContent")
    assert panel.removeprefix("close").startswith(heading)
    assert all(words in panel for words in says)
    pale = page.run("[...document.querySelectorAll('.maps .box')].map((each) => each.classList.contains('off'))")
    assert set(pale) == ({False} if kind == "column" else {False, True})


def test_the_search_finds_a_host_and_enter_shows_whom_it_can_talk_to(chromium: Browser, report: Path) -> None:
    page = shown(chromium, report / "matrix.html")
    name = "gpu-a03" if report.parent.name.startswith("small") else "node01234"
    page.run("document.querySelector('#search input').focus()")
    page.type(name)
    said = page.run("document.querySelector('#search output').value")
    assert said.startswith("1 of ")
    page.type("", enter=True)
    assert name in page.run("document.querySelector('#chosen:not([hidden])').textContent")


IN_FRAME = """(() => {
  const frame = document.querySelector("#matrix").getBoundingClientRect();
  const labels = document.querySelector("#matrix .labels").getBoundingClientRect().width;
  const mark = document.querySelector("#matrix .band .mark").getBoundingClientRect();
  return mark.width < 100 ? mark.left >= frame.left + labels - 1 && mark.right <= frame.right + 1
    : mark.top >= frame.top - 1 && mark.bottom <= frame.bottom + 1;
})()"""


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("what", ["column", "row"])
def test_the_search_scrolls_to_its_answer(chromium: Browser, report: Path, width: int, what: str) -> None:
    page = shown(chromium, report / "matrix.html", width)
    last = page.run(
        "[document.querySelector('#columns tbody tr:last-child').dataset.guid,"
        " document.querySelector('#rows tbody tr:nth-last-child(2) td').textContent.split(' ').at(-1)]"
    )
    words = last[what == "row"]
    page.run("document.querySelector('#search input').focus()")
    before = page.run("scrollY")
    page.type(words)
    assert page.run(IN_FRAME), words
    assert page.run("scrollY") == before, "what is typed into stays in sight"
    page.type("", enter=True)
    top = page.run("document.querySelector('#chosen').getBoundingClientRect().top")
    assert -1 <= top < 800


def test_a_card_leads_to_the_findings_of_its_severity(chromium: Browser, report: Path) -> None:
    page = shown(chromium, report / "audit.html")
    page.run("document.querySelector('#filter select').value = 'low'")
    page.run("document.querySelector('#filter').dispatchEvent(new Event('input'))")
    page.run("document.querySelector('.tiles a').click()")
    assert page.run("document.querySelector(location.hash).open")
    assert page.run("document.querySelector(location.hash).dataset.severity") == page.run(
        "document.querySelector('.tiles a .badge').textContent"
    )
    assert abs(page.run("document.querySelector(location.hash).getBoundingClientRect().top")) < 800


def test_the_map_is_coloured_as_is_chosen_and_says_what_it_means(chromium: Browser, report: Path) -> None:
    page = shown(chromium, report / "matrix.html")
    looks = []
    for each in ("partition", "level", "finding"):
        page.run(f"document.querySelector('#by-{each}').click()")
        fills = page.run("[...document.querySelectorAll('.maps .box')].map((box) => getComputedStyle(box).fill)")
        meaning = page.run(
            "[...document.querySelectorAll('.meaning')].filter((e) => e.checkVisibility()).map((e) => e.textContent)"
        )
        looks.append((tuple(fills), tuple(meaning)))
        assert len(meaning) == 1
    assert len(set(looks)) == 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_paper_is_white_has_every_table_and_no_controls(chromium: Browser, report: Path, scheme: Scheme) -> None:
    for name in HTML:
        page = shown(chromium, report / f"{name}.html", 718, scheme)
        page.media("print", scheme)
        assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        visible = page.run(
            "[...document.querySelectorAll('form, .chosen')].filter((each) => each.checkVisibility()).length"
        )
        assert visible == 0
        assert page.run("[...document.querySelectorAll('.list, main > table')].every((each) => each.checkVisibility())")
        assert page.run(HANGING) == []
        assert page.pdf().startswith(b"%PDF")


def test_three_thousand_hosts_are_no_more_than_a_browser_is_quick_with(chromium: Browser, report: Path) -> None:
    for name in HTML:
        page = shown(chromium, report / f"{name}.html")
        assert page.run("document.querySelectorAll('*').length") < 10_000
        assert (report / f"{name}.html").stat().st_size < 1_000_000


def test_hostile_names_do_nothing(chromium: Browser, tmp_path: Path) -> None:
    net: Subnet = SIZES["small"]()
    elements = {}
    for names in ([b"plain"], HOSTILE):
        for number, node in enumerate(net.nodes):
            node.description_bytes = names[number % len(names)][:64] if number < 12 else node.description_bytes
        folder = tmp_path / str(len(names))
        folder.mkdir()
        snapshots(net, folder / "before.db", folder / "after.db")
        run("report", folder / "report", "--from", folder / "after.db", "--baseline", folder / "before.db")
        for file in sorted((folder / "report").iterdir()):
            page = shown(chromium, file)
            assert page.troubles == []
            assert page.run("typeof hurt") == "undefined"
            kinds = page.run("[...new Set([...document.querySelectorAll('*')].map((each) => each.localName))].sort()")
            assert elements.setdefault(file.name, set(kinds)) >= set(kinds) - {"details", "summary", "pre"}

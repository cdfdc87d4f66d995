"""Tables that fit: every cell is there, each under its title, and values stay whole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ibkeys.cli.screen.colour import plain
from ibkeys.cli.screen.lines import columns, forget_names, keep_whole
from ibkeys.cli.screen.tables import CellLine, table_layout

WORDS = st.lists(st.text("abcdef", min_size=1, max_size=12), min_size=1, max_size=12)
ROLES = st.sampled_from(["", "added", "high"])


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[list[tuple[CellLine, ...]]]]:
    width = draw(st.integers(1, 7))
    titles = [f"T{at}" for at in range(width)]
    shared = [draw(st.none() | WORDS) for _ in range(width)]
    rows = [
        [(CellLine(" ".join(draw(WORDS) if given is None else given), draw(ROLES)),) for given in shared]
        for _ in range(draw(st.integers(0, 6)))
    ]
    return titles, rows


def lines_of(titles: list[str], rows: list[list[tuple[CellLine, ...]]], width: int | None) -> list[str]:
    return list(table_layout(titles, rows, [False] * len(titles), None, width))


@given(table=tables(), width=st.integers(20, 90))
def test_every_line_fits_and_every_word_is_there(
    table: tuple[list[str], list[list[tuple[CellLine, ...]]]], width: int
) -> None:
    titles, rows = table
    lines = lines_of(titles, rows, width)
    assert all(columns(line) <= width for line in lines)
    said = plain(" ".join(lines)).replace(";", " ").split()
    once = set()
    if said[:5] == ["the", "same", "in", "every", "row:"]:
        once = {at for at in range(1, len(titles)) if len({row[at] for row in rows}) == 1}
    wanted = [word for row in rows for at, cell in enumerate(row) if at not in once for word in cell[0].text.split()]
    wanted += [word for at in once for word in rows[0][at][0].text.split()] + titles
    for word in {*wanted}:
        assert said.count(word) >= wanted.count(word), word


@given(table=tables())
def test_a_table_that_fits_is_as_it_is_elsewhere(table: tuple[list[str], list[list[tuple[CellLine, ...]]]]) -> None:
    titles, rows = table
    wide = lines_of(titles, rows, None)
    assert lines_of(titles, rows, max(map(columns, wide)) + 2) == wide


def line(*words: str) -> list[tuple[CellLine, ...]]:
    return [(CellLine(word),) for word in words]


def test_columns_that_never_differ_are_said_once() -> None:
    rows = [line("n1", "a b", "x" * 15, ""), line("n2", "a b", "y" * 15, "")]
    assert lines_of(["Node", "State", "Value", "Note"], rows, 24) == [
        "the same in every row:",
        "  State a b; Note -",
        "Node  Value",
        "n1    xxxxxxxxxxxxxxx",
        "n2    yyyyyyyyyyyyyyy",
    ]


def test_a_cell_of_several_words_is_folded_in_its_column() -> None:
    rows = [line("n1", "it was not applied or it was refused"), line("n2", "all is well")]
    assert lines_of(["Node", "Cause"], rows, 30) == [
        "Node  Cause",
        "n1    it was not applied or it",
        "      was refused",
        "n2    all is well",
    ]


def test_names_stay_whole_and_the_rest_goes_to_a_line_of_its_own() -> None:
    keep_whole(["rack one host"])
    try:
        rows = [line("rack one host", "0x0002c903000a1010", "0x8001"), line("b", "0x0002c903000a1020", "0x8002")]
        assert lines_of(["Node", "GUID", "P_Key"], rows, 34) == [
            "Node           GUID",
            "    P_Key",
            "rack one host  0x0002c903000a1010",
            "    0x8001",
            "b              0x0002c903000a1020",
            "    0x8002",
        ]
    finally:
        forget_names()


def test_colour_stands_within_the_column() -> None:
    rows = [[(CellLine("a", "added"),), (CellLine("1"),)]]
    assert list(table_layout(["Word", "N"], rows, [False, True], None, None)) == ["Word  N", "\x1b[32ma\x1b[0m     1"]

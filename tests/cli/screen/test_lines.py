"""Lines that fit: nothing is lost, and a name that fits is never broken."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ibkeys.cli.screen.colour import paint, plain
from ibkeys.cli.screen.lines import columns, fold_text, forget_names, keep_whole
from ibkeys.printable import clean

TEXTS = st.text(st.sampled_from("ab,-(0x1) \u65e5\u0301"), max_size=200)


@pytest.fixture(autouse=True)
def _no_names() -> Iterator[None]:
    yield
    forget_names()


def without_blanks(text: str) -> str:
    return "".join(text.split())


@given(text=TEXTS, width=st.integers(8, 60), hang=st.none() | st.integers(0, 80))
def test_every_line_fits_and_nothing_is_lost(text: str, width: int, hang: int | None) -> None:
    lines = fold_text(text, width, hang).split("\n")
    assert all(columns(line) <= width for line in lines)
    assert without_blanks("".join(lines)) == without_blanks(text)


@given(words=st.lists(st.text("abc", min_size=1, max_size=9), max_size=40), width=st.integers(20, 60))
def test_a_word_that_fits_is_not_broken(words: list[str], width: int) -> None:
    assert fold_text(" ".join(words), width).split() == words


@given(words=st.lists(TEXTS.map(str.strip), max_size=8), width=st.integers(20, 60))
@example(words=["", "0000", "0000000000", "(a", "0"], width=20)
@example(words=["at", "0000000000", "port", "1", "and"], width=20)
def test_colour_changes_no_line(words: list[str], width: int) -> None:
    painted = " ".join(paint(word, "added") for word in words)
    assert plain(fold_text(painted, width)) == fold_text(" ".join(words), width)


def test_what_fits_is_as_it_is() -> None:
    assert fold_text("  a   b ", 20) == "  a   b "


NAME = "MT25408 ConnectX Mellanox Technologies"


@pytest.mark.parametrize("before", range(0, 40, 3))
@pytest.mark.parametrize("shape", ["{}", "({})", "'{}'", "{}:", "{} port 3,"])
def test_the_name_of_a_node_stays_whole(before: int, shape: str) -> None:
    keep_whole([NAME, None, "plain"])
    text = "x" * before + " of " + shape.format(NAME) + " (ca 0x0002c903000a1010) and so on"
    lines = fold_text(text, 45).split("\n")
    assert any(NAME in line for line in lines)
    assert any("(ca 0x0002c903000a1010)" in line for line in lines)
    assert "port\n" not in fold_text(text, 45)


def test_a_name_that_is_longer_than_a_line_is_folded_between_its_words() -> None:
    keep_whole([NAME])
    assert fold_text(f"at {NAME}", 24) == "at MT25408 ConnectX\n  Mellanox Technologies"


def test_a_name_with_escapes_is_kept_as_it_is_shown() -> None:
    keep_whole(["a\x1b[31m b"])
    assert fold_text("x " * 15 + clean("a\x1b[31m b"), 38).split("\n")[-1] == r"  a\x1b[31m b"


def test_a_long_set_of_hosts_breaks_after_commas() -> None:
    assert fold_text("rack[1,3,5,7,9,11,13,15,17,19,21,23]", 24) == "rack[1,3,5,7,9,11,13,15,\n  17,19,21,23]"


def test_a_path_that_fits_a_line_is_not_broken_for_a_column() -> None:
    assert fold_text("  Directory:      /var/lib/a/long/path/here", 32) == "  Directory:\n    /var/lib/a/long/path/here"


def test_characters_of_two_columns_count_so() -> None:
    assert columns("\u65e5\u672c") == 4
    assert columns(paint("ab", "high")) == 2
    assert fold_text("\u65e5\u672c " * 3, 10) == "\u65e5\u672c\u0020\u65e5\u672c\n  \u65e5\u672c"


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        ("reset NODE    switch a node off and on", ["reset NODE    switch a node", "              off and on"]),
        ("  -> is it running at all? see its log", ["  -> is it running at all?", "    see its log"]),
        (" " * 18 + "a line that goes on here", [" " * 18 + "a line", " " * 14 + "that goes on", " " * 14 + "here"]),
    ],
)
def test_what_is_continued_stands_below_its_column(line: str, lines: list[str]) -> None:
    assert fold_text(line, 28).split("\n") == lines

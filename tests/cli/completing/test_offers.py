"""What is offered to a shell: nothing that it would run, split or expand."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis.strategies import characters, lists, sampled_from, text

from ibkeys.cli.completing.offers import MOST_OFFERED, is_plain, offer, offer_list

ODD = sampled_from("$`'\"\\;|&()<>*?[]{}~#!=:@%^ \t\n\r\0\x1b\x7f\u202e,.-+_a0é")


@given(lists(text(ODD | characters(), max_size=70), max_size=8))
def test_what_is_offered_is_one_word_for_a_shell(names: list[str]) -> None:
    for item in offer(names, ""):
        assert item.value in names
        assert item.value.isascii()
        assert item.value.isprintable()
        assert shlex.split(item.value.replace(" ", "\\ ")) == [item.value]


@pytest.mark.parametrize(
    "name",
    [
        *("$(reboot)", "`reboot`", "a;b", "a|b", "-rf", "--force", "a'b", 'a"b', "a\\b", "a*", "a?", "~root", "a\tb"),
        *("a\nb", "", " ", " a", "a ", "a  b", "a=b", "a:b", "a@b", "#a", "!a", "a\x1b[31mb", "ä", "a" * 65),
    ],
)
def test_odd_names_are_left_out(name: str) -> None:
    assert not is_plain(name)


@pytest.mark.parametrize(
    "name", ["node01 mlx5_0", "gpu-a03", "Infiniscale-IV Mellanox Technologies", "leaf.1", "a+b,c"]
)
def test_names_as_fabrics_have_them_are_offered(name: str) -> None:
    assert [item.value for item in offer([name], name[:2])] == [name]


def test_of_very_many_the_first_and_the_last_are_offered() -> None:
    """A shell adds what all offers begin with: an early cut would make it add too much."""
    names = [f"gpu{number:05}" for number in range(20_000)]
    values = [item.value for item in offer(names, "gpu")]
    assert len(values) == len(set(values)) == MOST_OFFERED
    assert (values[0], values[-1]) == (names[0], names[-1])


@pytest.mark.parametrize(
    ("incomplete", "expected"),
    [
        ("", ["AB1", "AB2", "CD1"]),
        ("c", ["CD1"]),
        ("CD1,", ["CD1,AB1", "CD1,AB2"]),
        ("cd1,ab", ["CD1,AB1", "CD1,AB2"]),
        ("$(x),A", []),
        ("x,", ["X,AB1", "X,AB2", "X,CD1"]),
    ],
)
def test_lists_with_commas(incomplete: str, expected: list[str]) -> None:
    words = dict.fromkeys(["AB1", "AB2", "CD1"], "text")
    assert [item.value for item in offer_list(words, incomplete)] == expected

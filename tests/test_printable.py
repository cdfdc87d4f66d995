"""Things in one sentence: the first few, how many more, and how to see these."""

from __future__ import annotations

import pytest

from ibkeys.cli import exits
from ibkeys.printable import Rest, named, set_rest

FIVE = ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        (Rest.COUNTED, "a, b, c and 2 more"),
        (Rest.HINTED, "a, b, c and 2 more (all of them: -v)"),
        (Rest.NAMED, "a, b, c, d, e"),
    ],
)
def test_what_has_no_room_is_counted_and_how_to_see_it_is_said(rest: Rest, said: str) -> None:
    set_rest(rest)
    assert named(FIVE) == said
    assert named(FIVE[:3]) == "a, b, c"
    assert named(FIVE, 5) == "a, b, c, d, e"


@pytest.mark.parametrize(
    ("verbose", "said"), [(False, "a, b, c and 2 more (all of them: -v)"), (True, "a, b, c, d, e")]
)
def test_v_names_all_in_one_run_and_says_nothing_of_the_next(verbose: bool, said: str) -> None:
    heard = []

    def command() -> int:
        exits.explain(verbose)
        heard.append(named(FIVE))
        return 0

    assert exits.run(command) == 0
    assert heard == [said]
    assert named(FIVE) == "a, b, c and 2 more"


def test_a_command_without_v_names_all() -> None:
    heard = []
    assert exits.run(lambda: heard.append(named(FIVE)) or 0) == 0
    assert heard == ["a, b, c, d, e"]

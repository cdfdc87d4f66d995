"""Faults of a rehearsal: which are chosen, what is lost meanwhile, and how it is said."""

from __future__ import annotations

from typing import Any

import pytest

from ibkeys.rehearse.fault_words import change_in_words, fault_in_words, loss_in_words, way_back_in_words
from ibkeys.rehearse.faults import choose_faults
from ibkeys.rehearse.timeline import Moment, seconds_with
from tests.rehearse.tried import HOME, OTHER, SWITCH, THIRD, fault, port


def document(*writes: dict[str, Any]) -> dict[str, Any]:
    return {"timeline": list(writes), "opensm": {"port": port(HOME)}}


WRITES = (port(HOME), port(SWITCH, "switch"), port(OTHER), port(THIRD))


def test_kinds_and_ways_back_take_turns() -> None:
    faults = choose_faults(document(*WRITES), 7, 0)
    assert [(each.kind, each.way_back) for each in faults] == [
        ("opensm-killed", "resume"),
        ("silent-node", "resume"),
        ("ibkeys-killed", "resume"),
        ("opensm-killed", "undo"),
        ("silent-node", "undo"),
        ("ibkeys-killed", "undo"),
        ("opensm-killed", "resume"),
    ]
    assert {each.at_set for each in choose_faults(document(*WRITES), 100, 0)} == {1, 2, 3, 4}


def test_equal_seeds_give_equal_faults() -> None:
    assert choose_faults(document(*WRITES), 20, 5) == choose_faults(document(*WRITES), 20, 5)
    assert choose_faults(document(*WRITES), 20, 5) != choose_faults(document(*WRITES), 20, 6)


def test_only_a_host_of_the_change_falls_silent_and_not_that_of_opensm() -> None:
    faults = choose_faults(document(*WRITES), 60, 1)
    assert {each.node for each in faults} == {None, 2, 3}
    without = choose_faults(document(port(HOME), port(SWITCH, "switch")), 9, 1)
    assert {each.kind for each in without} == {"opensm-killed", "ibkeys-killed"}


def test_a_change_that_writes_no_table_has_no_faults() -> None:
    assert choose_faults(document(), 6, 0) == []


def test_how_long_pairs_are_cut() -> None:
    key = (1, 1)
    course = [Moment(1.0, key, 2, 0), Moment(1.5, key, 0, 1), Moment(4.0, key, 1, 0)]
    assert seconds_with(course, "cut", 10.0) == 0.5 + 6.0
    assert seconds_with(course, "open", 10.0) == 2.5
    assert seconds_with([], "cut", 10.0) == 0


def test_a_fault_in_words() -> None:
    assert fault_in_words(fault()) == "silent node 'node 2' at Set 3"
    assert change_in_words(fault()) == "exit status 3 after 2.5 s"
    assert way_back_in_words(fault()) == "`ibkeys undo 1`: exit status 0 after 1.0 s, all as before"
    assert loss_in_words(fault()) == "3 pairs cut, for 0.5 s: node 2 port 1 and node 3 port 1 and 2 more"


def left(index: int, before: str | None, after: str | None) -> dict[str, Any]:
    return {**port(OTHER), "kind": "pkey", "index": index, "before": before, "after": after}


def test_p_keys_that_only_moved_are_said_to_have_moved() -> None:
    moved = [left(1, "0x8001", None), left(3, None, "0x8001")]
    assert way_back_in_words(fault(left=moved)).endswith("2 values not as before: P_Keys at other indexes")
    lost = [left(1, "0x8001", None), left(3, None, "0x8002")]
    assert way_back_in_words(fault(left=lost)).endswith("2 values not as before")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"way_back": None, "back_exit_code": None}, "nothing left to do: all as planned"),
        (
            {"left": [left(1, "0x8001", None)], "way_back": "ibkeys resume 1"},
            "`ibkeys resume 1`: exit status 0 after 1.0 s, 1 value not as planned",
        ),
    ],
)
def test_a_way_back_in_words(changes: dict[str, Any], text: str) -> None:
    assert way_back_in_words(fault(**changes)) == text


def test_no_loss_in_words() -> None:
    assert loss_in_words(fault(most_cut=0)) == "no pair cut or open"
    assert loss_in_words(fault(most_cut=0, most_open=1, seconds_open=2.0)) == (
        "1 pair open that should not be, for 2.0 s"
    )
    assert fault_in_words(fault(kind="opensm-killed", node=None, set=None)) == (
        "OpenSM killed not reached, fewer Sets came"
    )

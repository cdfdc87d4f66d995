"""Which names are near one that is not there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis.strategies import lists, text

from ibkeys.similar_names import did_you_mean, did_you_mean_one_of, near_names, near_nodes

GPUS = [f"gpu-a{number:02}" for number in range(1, 41)]


@pytest.mark.parametrize(
    ("word", "known", "said"),
    [
        ("gpu-a3", GPUS, "; did you mean gpu-a03?"),
        ("GPU-A03", GPUS, "; did you mean gpu-a03?"),
        ("PK01", ["MK001", "PK001", "PK010", "PK011"], "; did you mean PK001?"),
        ("index0", ["index-0", "index-move", "stale"], "; did you mean index-0?"),
        ("sotrage", ["storage", "home"], "; did you mean storage?"),
        ("zzz", GPUS, ""),
        ("a", [], ""),
    ],
)
def test_what_was_meant(word: str, known: list[str], said: str) -> None:
    assert did_you_mean(word, known) == said


def test_a_node_is_found_by_its_host_with_the_device_or_without() -> None:
    descriptions = [f"{host} mlx5_{device}" for host in GPUS for device in range(2)]
    both = ["gpu-a03 mlx5_0", "gpu-a03 mlx5_1"]
    assert near_nodes("gpua03", descriptions) == near_nodes("gpu-a3", descriptions) == both
    assert near_nodes("gpu-a3 mlx5_1", descriptions) == both[1:]
    assert did_you_mean_one_of(both) == "; did you mean 'gpu-a03 mlx5_0' or 'gpu-a03 mlx5_1'?"


def test_what_is_much_less_near_is_not_named() -> None:
    assert near_names("pkey-shw", ["pkey-show", "mkey-show", "pkey-set"]) == ["pkey-show"]


def test_no_control_character_of_a_name_gets_through() -> None:
    assert "\x1b" not in did_you_mean("node01", ["node01\x1b"]) + did_you_mean("node 01", ["node 01\x1b"])


@given(text(max_size=8), lists(text(max_size=8), max_size=12))
def test_only_names_that_there_are_each_once_and_few(word: str, known: list[str]) -> None:
    near = near_names(word, known)
    assert len(near) <= 3
    assert len(set(near)) == len(near)
    assert set(near) <= set(known)

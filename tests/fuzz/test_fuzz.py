"""A sample of each target in `make test`, more of it in `make soak`, all the time in `make fuzz`."""

from __future__ import annotations

import random

import pytest

from tests.fuzz.catalogue import TARGETS
from tests.fuzz.judge import Judge
from tests.fuzz.mutate import mutate
from tests.fuzz.seeds import MOST_BYTES, begin_with, kept
from tests.sample import SOAK

MORE_IN_SOAK = 50
COUNTED_EACH = 50
"""Of so many inputs the operations and the memory of one are counted."""


@pytest.mark.parametrize("name", TARGETS)
def test_a_sample_of_each_target_has_no_finding(name: str) -> None:
    target = TARGETS[name]
    dice = random.Random(f"{name} {SOAK}")
    begin = begin_with(target)
    whole = begin if SOAK else dice.sample(begin, min(len(begin), target.sample))
    with Judge(target, COUNTED_EACH) as judge:
        for data in whole:
            assert judge.finding(data) is None
        accepted = judge.inputs - judge.exceptional
        for _ in range(target.sample * (MORE_IN_SOAK if SOAK else 1)):
            data = mutate(dice.choice(begin), dice, target.words, begin)[: target.largest]
            assert judge.finding(data) is None
        assert accepted, "every input was refused: the target does not reach what it is for"


@pytest.mark.parametrize("name", TARGETS)
def test_the_committed_inputs_are_few(name: str) -> None:
    inputs = kept(TARGETS[name])
    assert sum(map(len, inputs)) <= MOST_BYTES
    assert len(set(inputs)) == len(inputs)
    assert all(len(each) <= TARGETS[name].largest for each in inputs)

"""Who differs and why: every way in which four words can differ, each with its cause."""

from __future__ import annotations

import itertools
from typing import get_args

import pytest

from ibkeys.agreement.causes import (
    COLUMNS,
    IN_WORDS,
    TABLE,
    Cause,
    FourViews,
    Gap,
    ReadByTheSm,
    ValueFacts,
    ValueVerdict,
    judge,
)

READ: tuple[ReadByTheSm, ...] = get_args(ReadByTheSm)
EVERY_WORDS = [FourViews(*each) for each in itertools.product((None, 1, 2, 3, 4), repeat=4)]
"""With four values and none: each pattern that four words can have, and many of them several times."""
EVERY_FACTS = [ValueFacts(*each) for each in itertools.product(READ, (True, False), (True, False))]


def words(pattern: str) -> FourViews:
    return FourViews(*(None if letter == "?" else letter for letter in pattern))


def test_the_table_has_a_row_for_every_pattern_and_no_other() -> None:
    assert {each.pattern for each in EVERY_WORDS} == set(TABLE)
    assert len(TABLE) == 52  # partitions of a set of at most four words: 15 + 4*5 + 6*2 + 4 + 1


@pytest.mark.parametrize("pattern", TABLE)
def test_every_row_is_missed_when_it_is_missing(monkeypatch: pytest.MonkeyPatch, pattern: str) -> None:
    monkeypatch.setattr("ibkeys.agreement.causes.TABLE", {each: row for each, row in TABLE.items() if each != pattern})
    with pytest.raises(KeyError, match=pattern.replace("?", r"\?")):
        judge(words(pattern), ValueFacts("read"))


def test_every_cause_and_every_gap_is_reached() -> None:
    reached = {cause for each in EVERY_WORDS for facts in EVERY_FACTS for cause in judge(each, facts).causes}
    assert reached == set(get_args(Cause)) == set(IN_WORDS)
    assert {gap for row in TABLE.values() for gap in row} == set(get_args(Gap))


@pytest.mark.parametrize("pattern", TABLE)
def test_every_verdict_fits_its_words(pattern: str) -> None:
    """What can be said without the table: a difference is one, unknown is never agreement, whoever differs is named."""
    said = words(pattern)
    known = [word for word in said if word is not None]
    for facts in EVERY_FACTS:
        verdict = judge(said, facts)
        if len(set(known)) > 1:
            assert verdict.state == "differs"
            assert verdict.differing_sources
            assert verdict.causes
        elif said.node is None or len(known) < 2:
            assert verdict.state == "unknown"
            assert verdict.causes
        else:
            assert verdict == ValueVerdict("agree", (), ())
        assert ("other-policy" in verdict.causes) == (
            said.policy is not None and said.sm_file is not None and said.policy != said.sm_file
        )
        assert all(
            said.policy is None or column != "policy" or said.sm_file is not None
            for column in verdict.differing_sources
        )
        if "changed" in verdict.causes:
            assert said.sa is not None
            assert said.node not in (None, said.sa)
            assert facts.is_active
        if "refused" in verdict.causes:
            assert facts.file == "read"
            assert None not in (said.sm_file, said.sa, said.node)
        if "not-read" in verdict.causes:
            assert facts.file == "not-read"
            assert {said.sa, said.node} - {None, said.sm_file}
        if "hidden" in verdict.causes:
            assert said.sa is None


@pytest.mark.parametrize(
    ("pattern", "facts", "causes", "differing"),
    [
        ("aaaa", ValueFacts("read"), [], []),
        ("aaab", ValueFacts("read"), ["changed"], ["node"]),
        ("aaba", ValueFacts("read"), ["changed"], ["sa"]),
        ("aabb", ValueFacts("not-read"), ["not-read"], ["sa", "node"]),
        ("aabb", ValueFacts("read"), ["refused"], ["sa", "node"]),
        ("aabb", ValueFacts("unknown"), ["not-applied"], ["sa", "node"]),
        ("aabb", ValueFacts("read", is_active=False), ["sweep-due"], ["sa", "node"]),
        ("aabb", ValueFacts("read", has_room=False), ["no-room"], ["sa", "node"]),
        ("aabb", ValueFacts("not-read", is_active=False, has_room=False), ["not-read"], ["sa", "node"]),
        ("aaab", ValueFacts("read", is_active=False), ["sweep-due"], ["node"]),
        ("abbb", ValueFacts("read"), ["other-policy"], ["policy"]),
        ("abaa", ValueFacts("not-read"), ["other-policy", "not-read"], ["policy", "sa", "node"]),
        ("abcd", ValueFacts("read"), ["other-policy", "changed", "refused"], ["policy", "sa", "node"]),
        ("aa?b", ValueFacts("read"), ["hidden"], ["node"]),
        ("aa?b", ValueFacts("not-read"), ["not-read"], ["node"]),
        ("a?bb", ValueFacts("unknown"), ["sm-file-unknown"], ["sa", "node"]),
        ("a??b", ValueFacts("unknown"), ["sm-file-unknown"], ["node"]),
        ("?ab?", ValueFacts("read"), ["node-silent"], ["sa"]),
        ("?aa?", ValueFacts("read"), ["node-silent"], []),
        ("???a", ValueFacts("read"), ["nothing-to-compare"], []),
    ],
)
def test_cases(pattern: str, facts: ValueFacts, causes: list[Cause], differing: list[str]) -> None:
    verdict = judge(words(pattern), facts)
    assert (list(verdict.causes), list(verdict.differing_sources)) == (causes, differing)


def test_words_are_compared_by_value() -> None:
    said = FourViews(frozenset({0x8010}), frozenset({0x8010}), frozenset(), frozenset({0x8010, 0x0010}))
    assert said.pattern == "aabc"
    assert said.differing_sources == ("sa", "node")
    assert dict(zip(COLUMNS, said, strict=True))["sa"] == frozenset()

"""Words that NVIDIA's OpenSM may know: not checked, and never called right or wrong."""

from __future__ import annotations

import pytest

from ibkeys.partitions.describe import to_json
from ibkeys.partitions.dialect import in_dialect
from ibkeys.partitions.lint import lint
from ibkeys.partitions.membership import EndPort, resolve
from ibkeys.partitions.reader import parse_policy

TEXT = """Default=0x7fff: ALL=limited, SELF=full;
red=0x10: ALL_VCAS=full, 0x0002c903000a1011=full;
blue=0x11: 0x0002c903000a1021=full;
"""


def test_upstream_refuses_the_word_and_for_nvidia_it_is_not_checked() -> None:
    policy = parse_policy(TEXT)
    assert not in_dialect(policy, "opensm").accepted
    judged = in_dialect(policy, "nvidia")
    assert judged.accepted
    (problem,) = [each for each in lint(judged) if each.code == "not-checked"]
    assert (problem.line, problem.column, problem.severity) == (2, 11, "warning")
    assert "'ALL_VCAS' is not a keyword of upstream OpenSM" in problem.message
    assert "not checked" in problem.message
    assert "refuse" not in problem.message.lower()
    assert to_json(judged, lint(judged))["accepted"] is None


def test_who_the_word_means_is_not_known_so_its_partition_is_open() -> None:
    judged = in_dialect(parse_policy(TEXT), "nvidia")
    assert judged.open_partitions == {0x10}
    found = resolve(judged, [EndPort(0x0002C903000A1021, "ca")], None)
    assert 0x11 in {each.base for each in found.memberships}
    assert 0x10 not in {each.base for each in found.memberships}


@pytest.mark.parametrize("word", ["0xg", "node01", "all_vcas", "ALL_VCAS:", "ALL VCAS"])
def test_other_mistakes_stay_mistakes(word: str) -> None:
    judged = in_dialect(parse_policy(f"red=0x10: {word}=full, ALL=full;\n"), "nvidia")
    assert not judged.accepted


def test_a_file_without_such_words_is_the_same() -> None:
    policy = parse_policy("red=0x10: ALL=full;\n")
    assert in_dialect(policy, "nvidia") is policy

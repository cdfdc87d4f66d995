"""The machinery of the fuzzing itself, on targets with planted defects."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.errors import FileFormatError
from tests.fuzz.account import Account
from tests.fuzz.catalogue import TARGETS
from tests.fuzz.driving import RunningOpensm, Slice, by_hypothesis, forget, inputs_run
from tests.fuzz.judge import Judge
from tests.fuzz.seeds import keep, kept
from tests.fuzz.target import Choices, Target


def target(run: object, **bounds: int) -> Target:
    return Target("planted", run, lambda: (b"abcd",), (b"X",), **bounds)  # type: ignore[arg-type]


def refuse(data: bytes) -> None:
    raise FileFormatError("no")


def test_success_and_an_error_of_the_tree_are_no_findings() -> None:
    for run, exceptional in ((len, 0), (refuse, 1)):
        with Judge(target(run)) as judge:
            assert judge.finding(b"x") is None
            assert (judge.inputs, judge.exceptional) == (1, exceptional)


def several_lines(data: bytes) -> None:
    raise FileFormatError("one\ntwo")


def many_lines(data: bytes) -> None:
    for _ in range(1000):
        pass


def large(data: bytes) -> None:
    bytearray(1 << 20)


@pytest.mark.parametrize(
    ("run", "bounds", "words"),
    [
        (lambda data: data[9], {}, "IndexError: index out of range"),
        (several_lines, {}, "a message of several lines"),
        (many_lines, {"operations": 500}, "more than 500 operations"),
        (large, {"memory": 1 << 19}, "1 MiB of memory"),
    ],
)
def test_what_is_a_finding(run: object, bounds: dict[str, int], words: str) -> None:
    with Judge(target(run, **bounds), count_each=1) as judge:
        found = judge.finding(b"x") or judge.finding(b"x")
    assert found is not None
    assert words in found.report


def test_bounds_that_are_kept_are_no_finding() -> None:
    with Judge(target(many_lines, operations=5000), count_each=1) as judge:
        assert judge.finding(b"x") is None


def planted(data: bytes) -> None:
    """Fails where a word of the grammar stands."""
    if b"X" in data:
        raise KeyError("planted")


def test_hypothesis_finds_what_is_planted_and_counts(tmp_path: Path) -> None:
    part = Slice(target(planted), 300, 60, 1, tmp_path)
    by_hypothesis(part)
    assert inputs_run(tmp_path) >= 100
    names = sorted(each.name for each in (tmp_path / "findings" / "planted").iterdir())
    assert names[0].startswith("KeyError-at-")
    assert b"X" in (tmp_path / "findings" / "planted" / names[0]).read_bytes()
    assert "KeyError: 'planted'" in (tmp_path / "findings" / "planted" / names[1]).read_text()
    assert len(names) <= 6


def test_each_input_counts_at_once_for_libfuzzer_ends_the_process_within(tmp_path: Path) -> None:
    assert inputs_run(tmp_path) == 0
    with RunningOpensm(Slice(target(len), 300, 60, 1, tmp_path)) as running:
        for number in range(1, 4):
            running.one(b"x")
            assert inputs_run(tmp_path) == number
    forget(tmp_path)
    assert inputs_run(tmp_path) == 0


def test_the_account_goes_on_and_each_target_has_its_share(tmp_path: Path) -> None:
    one, other = Target("one", len, tuple), Target("other", len, tuple, share=3)
    account = Account.read(tmp_path / "account.json")
    assert account.next_of([one, other]) is one
    account.add(one, 10, 2.0)
    account.add(other, 5, 5.0)
    again = Account.read(tmp_path / "account.json")
    assert (again.total, again.inputs) == (15, {"one": 10, "other": 5})
    assert again.next_of([one, other]) is other
    again.add(other, 5, 2.0)
    assert again.next_of([one, other]) is one


def test_only_inputs_that_reach_something_of_their_own_are_kept(tmp_path: Path) -> None:
    name = "opensm-command-line"
    inputs = [b"opensm\0-g\0000x1", b"opensm\0-g\0000x2", b"opensm\0--guid=0x1\0-x", b"opensm\0-g\0zz\0--no-such"]
    target = TARGETS[name]
    count = keep(target, inputs, tmp_path)
    assert len(kept(target, tmp_path)) == count < len(inputs)
    assert keep(target, kept(target, tmp_path), tmp_path) == count


def test_choices_end_in_zeros() -> None:
    choices = Choices(b"\1\2\3")
    assert (choices.number(2), bool(choices), choices.take(5), bool(choices), choices.number()) == (
        258,
        True,
        b"\3",
        False,
        0,
    )

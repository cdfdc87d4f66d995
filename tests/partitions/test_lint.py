"""Lints, a policy in words, and policies written back."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.errors import NoRoom
from ibkeys.partitions.describe import in_words, to_json
from ibkeys.partitions.export import pin, pin_random, to_conf
from ibkeys.partitions.lint import lint
from ibkeys.partitions.model import Policy
from ibkeys.partitions.reader import MAX_LINE, parse_policy, read_policy
from tests import corpus

POLICIES = corpus.files("policies/*.conf")


def found(text: str) -> list[tuple[str, int, int, str]]:
    return [(each.severity, each.line, each.column, each.code) for each in lint(parse_policy(text))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Default : ALL=limited, SELF=full ;", []),
        ("X : ALL=full ;", [("warning", 1, 1, "automatic-pkey")]),
        ("Default : ALL=full ;", [("note", 1, 11, "no-isolation")]),
        ("Default : SELF=full, ALL=limited ;", [("warning", 1, 22, "sm-limited")]),
        ("Default : ALL=limited ;", [("warning", 1, 11, "sm-limited")]),
        ("Default : ALL=limited, SELF ;", [("warning", 1, 24, "sm-limited")]),
        ("Default : ALL_CAS=limited ;", [("warning", 1, 11, "sm-limited")]),
        ("X=5 : 0x1=full, 0x1=full ;", [("warning", 1, 17, "guid-twice")]),
        ("X=5 : 0x1=full,\n 0x2=full, 0x1=limited ;", [("warning", 2, 12, "guid-twice")]),
        ("X=5 : 0x1=full, ALL=limited, 0x2=full ;", [("warning", 1, 7, "overridden")]),
        ("X=5 : ALL=limited, 0x2=full ;", []),
        ("X=5 : ALL ;", [("warning", 1, 1, "limited-only")]),
        ("X=5 : 0x1=full ;", [("note", 1, 1, "one-member")]),
        ("X=5 : ;", [("note", 1, 1, "no-member")]),
        ("X=5 : ALL=both ;", [("note", 1, 7, "both")]),
        ("X=5, mtu=5 : ALL=full ;", [("note", 1, 1, "no-group")]),
        ("X=5, ipoib, scope=5 : ALL=full ;", [("note", 1, 1, "no-group")]),
        ("X=5 : ALL=full ; X=5 : 0x1 ;", [("note", 1, 18, "continued")]),
        ("X=5 : ALL=full ;\nX=6 : ALL=full ;", [("warning", 2, 1, "same-name")]),
        (
            "A=5, indx0 : 0x1=full, 0x2=full ;\nB=6, indx0 : 0x3=full, 0x1=full ;",
            [("warning", 2, 24, "indx0-twice")],
        ),
    ],
)
def test_lints(text: str, expected: list[tuple[str, int, int, str]]) -> None:
    assert found(text) == expected


def test_the_order_trap_is_said_in_capitals() -> None:
    (problem,) = lint(parse_policy("Default : SELF=full, ALL=limited ;"))
    assert "LIMITED MEMBERS CANNOT REACH THE SA" in problem.message


@pytest.mark.parametrize("path", POLICIES, ids=corpus.label)
def test_every_policy_of_the_corpus_can_be_linted_and_described(path: Path) -> None:
    policy = read_policy(path)
    problems = lint(policy)
    assert list(problems) == sorted(problems)
    assert {problem.severity == "error" for problem in problems} <= {True, False}
    assert any(problem.severity == "error" for problem in problems) == (not policy.accepted)
    assert all("\n" not in line for line in in_words(policy))
    assert len(to_json(policy, problems)["partitions"]) == len(policy.partitions)


def test_a_policy_in_words() -> None:
    policy = parse_policy(
        "Default : ALL, SELF=full ;\n"
        "Fast=5, ipoib, mtu=5, rate=7, sl=3, indx0 : mgid=ff12::1,scope=5\n"
        " 0x11=full, 0x12=full, 0x13=full, 0x14=full, SELF=both ;\nAuto : NONE ;"
    )
    assert list(in_words(policy)) == [
        "Default: partition 0x7fff",
        "  limited: all end ports, full: the subnet manager's port (OpenSM begins with this)",
        "  limited: all end ports",
        "  full: the subnet manager's port",
        "Fast: partition 0x0005, at index 0 of its members",
        "  full: 4 ports (0x0000000000000011, 0x0000000000000012, 0x0000000000000013 and 1 more; all of them: -f json)",
        "  full and limited: the subnet manager's port",
        "  IPoIB: broadcast group ff12:401b:8005::ffff:ffff, MTU 4096 bytes, rate 40 Gb/s, Q_Key 0x00000b1b, "
        "SL 3 (with QoS)",
        "  group ff15::1, MTU 4096 bytes, rate 40 Gb/s, Q_Key 0x00000000, SL 3 (with QoS), site-local",
        "Auto: partition 0x0001 (picked by OpenSM)",
        "  no port: OpenSM drops it",
    ]
    assert list(in_words(parse_policy("X=5 : ALL ;")))[-2:] == [
        "Default: partition 0x7fff, which the file does not define",
        "  limited: all end ports, full: the subnet manager's port (OpenSM adds this)",
    ]


# --- written back ----------------------------------------------------------------------------------------------------


def canonical(policy: Policy) -> Policy:
    """What is left of a policy in a copy: groups that OpenSM leaves out are not in it."""
    return replace(
        policy,
        path="",
        definitions=tuple(
            replace(each, groups=tuple(group for group in each.groups if group.refused is None))
            for each in policy.definitions
        ),
    )


def check_copy(policy: Policy) -> None:
    text = to_conf(policy)
    copy = parse_policy(text)
    assert copy.accepted, (text, copy.errors)
    assert canonical(copy) == canonical(policy)
    assert all(len(line) <= MAX_LINE for line in text.splitlines())
    assert to_conf(copy) == text


@pytest.mark.parametrize("path", POLICIES, ids=corpus.label)
def test_a_policy_written_back_reads_the_same(path: Path) -> None:
    policy = read_policy(path)
    if policy.accepted:
        check_copy(policy)


def test_a_line_that_is_too_long_is_wrapped_in_the_copy() -> None:
    policy = parse_policy("X=5 : " + ", ".join(f"0x{guid:016x}=full" for guid in range(1, 400)) + " ;")
    assert [error.code for error in policy.errors] == ["long-line"]
    copy = parse_policy(to_conf(policy))
    assert copy.accepted
    assert copy.definitions == policy.definitions


NAMES = st.one_of(st.sampled_from(["", "Default", "a", "b", "7x"]), st.text("ab_ .'\"é-", min_size=1, max_size=40))
NUMBERS = st.sampled_from(["0", "1", "0x5", "0x8005", "010", "0x7fff", "32767", "0x10005", "-2"])
MEMBERS = st.sampled_from(["ALL", "AL", "ALL_CAS", "ALL_S", "ALL_ROUTERS", "SELF", "NONE", "", "0x11", "0x0012", "19"])
WORDS = st.sampled_from(["", "=full", "=limited", "=both", "=", "=f", "=FULL", "=b"])
FLAGS = st.sampled_from(
    [
        *("ipoib", "indx0", "defmember=full", "defmember=both", "defm=x", "mtu=5", "mtu=x", "rate=7", "rate"),
        *("sl=3", "sl=99", "scope=5", "scope=8", "scope=0", "Q_Key=0x1234", "TClass=300", "FlowLabel=0x12345"),
    ]
)
GROUPS = st.sampled_from(
    [
        *("ff12:401b::16", "ff12:601b::1,sl=1", "ff12::99,Q_Key=7,TClass=3", "ff12:401b:8005::7", "fe80::1"),
        *("ff15::1,scope=2,FlowLabel=9", "ff12:401b::9,mtu=1", "ff12:401b:ffff::ffff:ffff"),
    ]
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    parts = []
    for _ in range(draw(st.integers(1, 5))):
        head = draw(NAMES)
        if draw(st.booleans()) or head[:1].isdigit():
            head += f"={draw(NUMBERS)}"
        flags = "".join(f", {flag}" for flag in draw(st.lists(FLAGS, max_size=4)))
        groups = "".join(f"\n\tmgid={group}" for group in draw(st.lists(GROUPS, max_size=2)))
        # The last item is on the line of the semicolon.
        items = [*(member + draw(WORDS) for member in draw(st.lists(MEMBERS, max_size=6))), "NONE"]
        separator = draw(st.sampled_from([", ", "\n\t", " ,\n"]))
        parts.append(f"{head}{flags} :{groups}\n\t{separator.join(items)} ;")
    return draw(st.sampled_from(["\n", " # x ; y\n"])).join(parts)


@given(texts())
def test_any_policy_written_back_reads_the_same(text: str) -> None:
    policy = parse_policy(text)
    assert policy.accepted, policy.errors
    check_copy(policy)
    check_copy(pin(policy))


@given(texts(), st.integers(0, 1000))
def test_pinned_policies_depend_on_no_order(text: str, seed: int) -> None:
    policy = parse_policy(text)
    for pinned in (pin(policy), pin_random(policy, random.Random(seed))):
        assert not any(partition.automatic for partition in pinned.partitions)
        assert len(pinned.partitions) == len(policy.partitions)
        backwards = parse_policy(to_conf(replace(pinned, definitions=pinned.definitions[::-1])))
        assert {partition.base for partition in backwards.partitions} == {each.base for each in pinned.partitions}
    assert [each.base for each in pin(policy).definitions] == [each.base for each in policy.definitions]


def test_random_p_keys_are_free_and_groups_go_with_them() -> None:
    policy = parse_policy("A=0x10 : ALL ; B : mgid=ff12:401b::16\n ALL ; B : SELF ; C : ALL ;")
    pinned = pin_random(policy, random.Random(1))
    a, b, c = (partition.base for partition in pinned.partitions)
    assert a == 0x10
    assert len({a, b, c, 0, 0x7FFF}) == 5
    assert (b, c) != (1, 2)
    assert pinned.definitions[1].groups[0].mgid >> 80 & 0x7FFF == b == pinned.definitions[2].base
    assert parse_policy(to_conf(pinned)).accepted


def test_without_enough_free_p_keys_none_is_picked() -> None:
    text = "".join(f"a{n} : ALL ;\n" for n in range(1, 0x7FFF))
    full = parse_policy(text)
    assert full.accepted
    assert [error.code for error in parse_policy(text + "more : ALL ;").errors] == ["no-free-pkey"]
    # With collisions there are more automatic partitions than numbers in no other use.
    with pytest.raises(NoRoom, match="are free"):
        pin_random(replace(full, definitions=(*full.definitions, replace(full.definitions[0], base=0x7FFF + 1))))

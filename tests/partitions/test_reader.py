"""The reader of partitions.conf: what real OpenSM accepts and refuses, and each mistake with line and column."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.errors import FileFormatError
from ibkeys.partitions.describe import groups_json, in_words
from ibkeys.partitions.model import MemberRule, Policy, broadcast_mgid
from ibkeys.partitions.reader import MAX_LINE, parse_policy, read_policy
from ibkeys.partitions.words import c_number, mtu_in_words, rate_in_words
from tests import corpus
from tests.fuzz.targets.policies import check_sound
from tests.partitions.recordings import load, recordings

POLICIES = corpus.files("policies/*.conf")
VECTORS = [vector for file in corpus.files("vectors/opensm_partitions.json") for vector in corpus.load(file)["vectors"]]


@pytest.mark.parametrize("file", recordings())
def test_a_policy_is_accepted_exactly_when_opensm_accepted_it(file: Path) -> None:
    recording = load(file)
    for step in recording.steps:
        if step.policy is not None and not has_no_definition(step.policy):
            assert step.policy.accepted == recording.accepted, step.policy.errors


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
def test_vectors_are_accepted_exactly_when_opensm_accepted_them(vector: dict[str, object]) -> None:
    text = vector["partitions_conf"]
    if text is not None:
        policy = parse_policy(str(text))
        assert policy.accepted == (not vector["parse_error"] and not has_no_definition(policy)), policy.errors


def has_no_definition(policy: Policy) -> bool:
    """OpenSM reports no error for an empty file, but makes everybody full as after one."""
    return [error.code for error in policy.errors] == ["empty"]


@pytest.mark.parametrize("file", corpus.files("policies/expected/*.mcgroups.json"), ids=corpus.label)
def test_groups_are_those_that_opensm_made(file: Path) -> None:
    document = corpus.load(file)
    policy = read_policy(file.parents[1] / document["meta"]["policy"])
    groups = {}
    for partition in policy.partitions if policy.accepted else ():
        for definition in partition.definitions:
            if definition.ipoib:
                groups.setdefault(broadcast_mgid(partition.base), (definition.flags, 0x0B1B))
        for group in partition.groups:
            if group.refused is None:
                groups.update(dict.fromkeys(group.mgids(), (group.flags, 0)))
    if not policy.accepted:  # as without a file: IPoIB for everybody
        groups = {broadcast_mgid(0x7FFF): (parse_policy("a=1:;").definitions[0].flags, 0x0B1B)}
    made = {gid(group["mgid"]): group for group in document["groups"]}
    unrealisable = {mgid for mgid, (flags, _) in groups.items() if flags.mtu > 5 or flags.rate > 24}
    assert made.keys() <= groups.keys()
    assert groups.keys() - made.keys() <= unrealisable | memberless(policy)
    for mgid, group in made.items():
        flags, default_q_key = groups[mgid]
        assert (flags.mtu, flags.rate, flags.q_key or default_q_key, flags.t_class, flags.flow_label) == (
            group["mtu"],
            group["rate"],
            int(group["qkey"], 16),
            int(group["tclass"], 16),
            int(group["flow_label"], 16),
        )


def gid(text: str) -> int:
    return int(ipaddress.IPv6Address(text))


def memberless(policy: Policy) -> set[int]:
    """A partition without a member on the fabric goes, and its groups with it: `NONE`, and GUIDs that nobody has."""
    return {
        broadcast_mgid(partition.base)
        for partition in policy.partitions
        if all(rule.who == "GUID" for rule in partition.rules)
    }


LONG = "X=0x5 : ALL=full ;" + " " * MAX_LINE


@pytest.mark.parametrize(
    ("text", "line", "column", "code", "words"),
    [
        ("", 1, 1, "empty", "no definition"),
        ("# nothing\n\n   \n", 1, 1, "empty", "no definition"),
        ("X=0x5 ALL=full ;\n", 1, 1, "no-colon", "':'"),
        ("a=1:ALL;\n  X=0x5\n : ALL ;\n", 2, 3, "no-colon", "on the line"),
        ("X=5x : ALL ;", 1, 3, "bad-pkey", "'5x'"),
        ("X= : ALL ;", 1, 4, "bad-pkey", "after the '='"),
        ("5x : ALL ;", 1, 1, "bad-pkey", "'5x'"),
        ("X=5 : ALL, 0xzz=full ;", 1, 12, "bad-guid", "'0xzz'"),
        ("X=5 :\n ALL,\n\t0 ;", 3, 2, "bad-guid", "'0'"),
        ("X=5 : all=full ;", 1, 7, "bad-guid", "knows it as ALL"),
        ("X=5 : ALL_VCAS ;", 1, 7, "bad-guid", "this version"),
        ("X=5 : 0x1 0x2 ;", 1, 7, "bad-guid", "comma missing"),
        ("X=5 : 0002:c903:000a:1011 ;", 1, 7, "bad-guid", "0x0002c903000a1011"),
        ("X=5 : ALL\nY=6 : ALL ;", 2, 1, "bad-guid", "';' missing"),
        ("X=5 : ALL ;;", 1, 12, "lone-semicolon", "past the end"),
        ("X=5 : ALL\n ;\n", 2, 2, "lone-semicolon", "past the end"),
        (";", 1, 1, "lone-semicolon", "past the end"),
        (LONG, 1, MAX_LINE + 1, "long-line", "wrap"),
        ("X=5 : ALL ;\0", 1, 12, "nul-byte", "NUL"),
        ("X=5 : mgid ;", 1, 7, "bad-mgid", "crashes"),
        ("X=5 : mgid=ff12::1 ;", 1, 19, "mgid-semicolon", "after a port"),
        ("X=5 : mgid=fe80::1,sl=1 ;", 1, 19, "mgid-semicolon", "after a port"),
        ("\r\nX=5 : ALL ;\r\n", 1, 1, "no-colon", "':'"),
    ],
)
def test_what_opensm_refuses_is_an_error_with_line_and_column(
    text: str, line: int, column: int, code: str, words: str
) -> None:
    policy = parse_policy(text, "p.conf")
    first = policy.errors[0]
    assert not policy.accepted
    assert (first.line, first.column, first.code) == (line, column, code)
    assert words in first.message
    with pytest.raises(FileFormatError, match="EVERY PORT A FULL MEMBER") as caught:
        policy.require_accepted()
    assert (caught.value.path, caught.value.line, caught.value.column) == ("p.conf", line, column)


@pytest.mark.parametrize(
    ("text", "column", "code", "words"),
    [
        ("X=5, colour=red : ALL ;", 6, "unknown-flag", "'colour'"),
        ("X=5, IPoIB : ALL ;", 6, "unknown-flag", "knows it as ipoib"),
        ("X=5, indx : ALL ;", 6, "unknown-flag", "knows it as indx0"),
        ("X=5, ip : ALL ;", 6, "abbreviated", "ipoib"),
        ("X=5, defmember=fool : ALL ;", 16, "bad-value", "full, limited or both"),
        ("X=5, defmember : ALL ;", 6, "bad-value", "full, limited or both"),
        ("X=5, mtu=9 : ALL ;", 10, "bad-value", "4096"),
        ("X=5, mtu : ALL ;", 6, "bad-value", "no value"),
        ("X=5, rate=40g : ALL ;", 11, "bad-value", "40"),
        ("X=5, rate=23 : ALL ;", 11, "bad-value", "does not know rate=23 (800 Gb/s)"),
        ("X=5, sl=16 : ALL ;", 9, "bad-value", "0 to 15"),
        ("X=5, scope=0 : ALL ;", 12, "bad-value", "1 to 15"),
        ("X=5, mtu=04 : ALL ;", 10, "octal", "octal"),
        ("X=010 : ALL ;", 3, "octal", "0x8"),
        ("X=5 : 0123=full ;", 7, "octal", "0x0000000000000053"),
        ("X=0x18010 : ALL ;", 3, "wide-pkey", "0x0010"),
        ("X=-2 : ALL ;", 3, "wide-pkey", "0x7ffe"),
        ("X=0 : ALL ;", 3, "zero-pkey", "0x0001"),
        ("X=0x8012 : ALL ;", 3, "full-bit", "0x0012"),
        ("X=5 : ALL=FULL ;", 11, "unknown-membership", "knows it as full"),
        ("X=5 : 0x1=full 0x2=full ;", 11, "unknown-membership", "comma missing"),
        ("X=5 : 0x1= ;", 12, "no-membership", "full"),
        ("X=5 : SEL ;", 7, "abbreviated", "SELF"),
        ("X=5 : =full ;", 7, "no-port", "no port"),
        ("X=5 : ALL", 1, "not-closed", "';'"),
        ("X=5 : ALL ; Y=5 : ALL ;", 13, "two-names", "'X'"),
        ("X : ALL ; Y=1 : ALL ;", 11, "collision", "'X'"),
        ("a234567890123456789012345678901x=5 : ALL ;", 1, "long-name", "31"),
        ("X=5 : mgid=ff12::1,ALL=full\n ALL ;", 20, "mgid-line", "no port"),
        ("X=5 : mgid=ff12::1 # mtu=5\n ALL ;", 19, "comment-flags", "comment"),
        ("X=5 : mgid=fe80::1\n ALL ;", 12, "group-refused", "multicast"),
        ("X=5 : mgid=zz\n ALL ;", 12, "group-refused", "not a GID"),
        ("X=5 : mgid=ff12::1%ib0\n ALL ;", 12, "group-refused", "not a GID"),
        ("X=5 : mgid=ff12:401b:8006::1\n ALL ;", 12, "group-refused", "0x8006"),
    ],
)
def test_what_opensm_reads_otherwise_than_meant_is_a_warning(text: str, column: int, code: str, words: str) -> None:
    policy = parse_policy(text)
    assert policy.accepted
    found = [warning for warning in policy.warnings if warning.code == code]
    assert found, policy.warnings
    assert (found[0].line, found[0].column) == (1, column)
    assert words in found[0].message


def rules(text: str) -> list[tuple[str, str]]:
    return [(str(rule), rule.membership) for rule in parse_policy(text).definitions[0].rules]


def test_members_and_memberships_are_matched_as_far_as_they_are_written() -> None:
    assert rules("X=5, defm=f : A, AL=l, ALL_C=b, ALL_S=, ALL_R=no, S, N, NONE, 0x11=fu ;") == [
        ("ALL", "full"),
        ("ALL", "limited"),
        ("ALL_CAS", "both"),
        ("ALL_SWITCHES", "full"),
        ("ALL_ROUTERS", "limited"),
        ("SELF", "full"),
        ("0x0000000000000011", "full"),
    ]


def test_flags_are_read_wherever_they_stand_and_the_first_known_word_counts() -> None:
    header = parse_policy("X=5, m=5, r=7, s=5, sc=2, Q=0x1, T=3, sl=4, F=0x10, i, indx0 : ALL ;").definitions[0]
    flags = header.flags
    assert (flags.mtu, flags.rate, flags.scopes, flags.q_key, flags.t_class) == (5, 7, {5, 2}, 1, 3)
    assert (flags.sl, flags.flow_label, header.ipoib, header.indx0) == (4, 16, True, True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One : ALL ; Two=2 : ALL ; Three : ALL ;", [("One", 1), ("Two", 2), ("Three", 3)]),
        ("One : ALL ; One : SELF ;", [("One", 1)]),
        ("=0x40 : ALL ; 0x41 : ALL ; : ALL ;", [("0040", 0x40), ("0041", 0x41), ("0001", 1)]),
        ("Default : ALL ;", [("Default", 0x7FFF)]),
        ("management=0x7fff : ALL ;", [("Default", 0x7FFF)]),
        ("A=0x30 : ALL ; B=0x30 : ALL ;", [("A", 0x30)]),
        ("A=0x0201 : ALL ; A=0x0102 : ALL ; A : SELF ;", [("A", 0x0201), ("A", 0x0102)]),
        ("K=0x8012 : ALL ; L=0x10013 : ALL ;", [("K", 0x12), ("L", 0x13)]),
    ],
)
def test_names_and_numbers_of_partitions(text: str, expected: list[tuple[str, int]]) -> None:
    assert [(partition.name, partition.base) for partition in parse_policy(text).partitions] == expected


def test_a_name_without_a_number_means_the_first_of_that_name_in_opensms_table() -> None:
    policy = parse_policy("A=0x0102 : ALL ; A=0x0201 : ALL ; A : SELF ;")
    assert policy.definitions[2].base == 0x0201  # 0x0102 with its bytes swapped


def test_only_numbers_that_the_file_does_not_give_are_automatic() -> None:
    policy = parse_policy("Default : ALL ; A : ALL ; A : SELF ; B=7 : ALL ;")
    assert [partition.automatic for partition in policy.partitions] == [False, True, False]


def test_a_list_goes_on_until_the_semicolon_and_comments_hide_everything() -> None:
    policy = parse_policy("One=0x30 :\n 0x11=full # , 0x12 ;\n\n 0x21 ; # X=5 : ALL ;\nTwo=0x31 : ;\n")
    assert policy.accepted
    assert policy.definitions[0].rules == (MemberRule("GUID", 0x11, "full"), MemberRule("GUID", 0x21, "limited"))
    assert [(rule.line, rule.column) for rule in policy.definitions[0].rules] == [(2, 2), (4, 2)]
    assert policy.definitions[1].rules == ()


def test_reading_goes_on_after_a_mistake() -> None:
    policy = parse_policy("A=x :\n ALL ;\nB=1 : 0x0, ALL ;\nC=2 SELF ;\nD=3 : ALL ;\n")
    assert [(error.line, error.code) for error in policy.errors] == [(1, "bad-pkey"), (3, "bad-guid"), (4, "no-colon")]
    assert [definition.name for definition in policy.definitions] == ["B", "D"]


@pytest.mark.parametrize("length", [MAX_LINE - 1, MAX_LINE])
def test_a_line_of_4094_bytes_is_not_too_long(length: int) -> None:
    assert parse_policy("X=5 : ALL ;".ljust(length) + "\nY=6 : ALL ;\n").accepted


def test_where_it_cannot_be_told_what_opensm_does_that_is_said() -> None:
    assert parse_policy("X=5 : ALL ;;").verdict.startswith("OPENSM MAY REFUSE THIS FILE AND MAKE EVERY PORT")
    assert parse_policy("X=5 : 0xzz ;;").verdict.startswith("OPENSM WOULD REFUSE THIS FILE AND MAKE EVERY PORT")


def test_a_long_line_is_an_error_even_in_a_comment() -> None:
    assert not parse_policy("X=5 : ALL ; #" + "x" * MAX_LINE).accepted


def test_a_group_inherits_the_flags_of_its_partition_but_for_the_traffic_class() -> None:
    policy = parse_policy("X=5, mtu=5, rate=7, sl=2, TClass=9, scope=5 :\n mgid=ff12:401b::16,FlowLabel=3\n ALL ;")
    (group,) = policy.definitions[0].groups
    assert group.mgids() == [0xFF15_401B_8005_0000_0000_0000_0000_0016]
    flags = group.flags
    assert (flags.mtu, flags.rate, flags.sl, flags.t_class, flags.flow_label, flags.q_key) == (5, 7, 2, 0, 3, 0x0B1B)


@pytest.mark.parametrize(
    ("text", "value", "rest"),
    [
        ("0x1f,", 31, ","),
        ("010", 8, ""),
        ("09", 0, "9"),
        ("0x", 0, "x"),
        ("12ab", 12, "ab"),
        ("-1", (1 << 64) - 1, ""),
        ("+7", 7, ""),
        ("99999999999999999999999", (1 << 64) - 1, ""),
        ("0x0002c902000262841", 0x2C902000262841, ""),
        ("", 0, ""),
        ("x", 0, "x"),
    ],
)
def test_numbers_are_those_of_strtoull(text: str, value: int, rest: str) -> None:
    number = c_number(text)
    assert (number.value, number.rest) == (value, rest)


def test_codes_in_words() -> None:
    assert (mtu_in_words(5), rate_in_words(7), rate_in_words(2)) == ("4096 bytes", "40 Gb/s", "2.5 Gb/s")
    assert (mtu_in_words(6), rate_in_words(1)) == ("no MTU code (6)", "no rate code (1)")


def test_codes_with_which_opensm_makes_a_broadcast_group() -> None:
    """As OpenSM 3.3.23 did with each of these in one file."""
    mtus, other_mtus = (1, 5, 65, 100, 127, 132, 196, 260, -1), (0, 6, 63, 128, 256, 300, "x")
    rates, other_rates = (2, 22, 65, 100), (0, 1, 25, 63, 128, "x")
    makes = [*(f"mtu={code}" for code in mtus), *(f"rate={code}" for code in rates)]
    makes_none = [*(f"mtu={code}" for code in other_mtus), *(f"rate={code}" for code in other_rates)]
    lines = [f"p{key}={key}, ipoib, {flag} : ALL=full ;" for key, flag in enumerate([*makes, *makes_none], start=1)]
    policy = parse_policy("\n".join(lines), "p.conf")
    made = [[*groups_json(partition)] != [] for partition in policy.partitions]
    assert made == [True] * len(makes) + [False] * len(makes_none)
    said = [line for line in in_words(policy) if "does not make" in line]
    assert len(said) == len(makes_none)
    assert said[0] == "  IPoIB: broadcast group ff12:401b:800e::ffff:ffff, OpenSM does not make it: mtu=0 is not a code"


def test_a_file_that_is_not_there_or_a_folder_is_one_line(tmp_path: Path) -> None:
    for path, words in ((tmp_path / "none.conf", "No such file"), (tmp_path, "directory")):
        with pytest.raises(FileFormatError, match=words) as caught:
            read_policy(path)
        assert "\n" not in str(caught.value)


@given(st.text(alphabet=st.sampled_from("ALL=full,;:# \n\t0x5mgidSEF1")))
def test_any_text_is_read_or_refused(text: str) -> None:
    check_sound(parse_policy(text))


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    check_sound(parse_policy(data))

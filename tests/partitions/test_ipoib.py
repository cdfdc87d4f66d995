"""A policy's groups against those of an SA: every group that a real OpenSM was seen to make, and what may be wrong."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.errors import FileFormatError
from ibkeys.mad.records import MCMemberRecord
from ibkeys.partitions.ipoib import GroupFinding, compare_groups, count_states, populated_partitions
from ibkeys.partitions.membership import resolve
from ibkeys.partitions.model import Policy, broadcast_mgid, with_scope
from ibkeys.partitions.reader import parse_policy, read_policy
from ibkeys.topology.model import Topology, Trouble
from tests import corpus
from tests.fabricsim import subnet, tool
from tests.partitions import recordings

BLUE = "Blue=0x12, ipoib : ALL=full ;\n"
NOT_MADE = {"ipoib-flags": {broadcast_mgid(0x0303): "missing"}}
"""Groups that OpenSM was seen to refuse: mtu=9."""


@dataclass(frozen=True)
class Recorded:
    """The groups that OpenSM made of a policy."""

    policy: Policy
    populated: set[int]
    groups: list[MCMemberRecord]


def files() -> list[Any]:
    found = {file.name: file for file in reversed(corpus.files("policies/expected/*.mcgroups.json"))}
    return [pytest.param(file, id=file.name.split(".")[0]) for _, file in sorted(found.items())]


def load(file: Path) -> Recorded:
    document = corpus.load(file)
    run = recordings.load(file.with_name(file.name.replace(".mcgroups", "")))
    policy = read_policy(file.parents[1] / document["meta"]["policy"])
    ports = recordings.end_ports(recordings.subnet(run.fabric))
    members = resolve(policy, ports, run.sm_port_guid, run.allow_both, emulate_fallback=True).memberships
    return Recorded(policy, {each.base for each in members}, [record(**group) for group in document["groups"]])


def record(
    mgid: str,
    pkey: str = "0x8012",
    qkey: str = "0xb1b",
    mtu: int = 4,
    rate: int = 3,
    sl: int = 0,
    flow_label: str = "0",
    tclass: str = "0",
    **_: object,
) -> MCMemberRecord:
    return MCMemberRecord.new(
        mgid=int(ipaddress.IPv6Address(mgid)),
        p_key=int(pkey, 16),
        q_key=int(qkey, 16),
        mtu=mtu,
        rate=rate,
        sl=sl,
        flow_label=int(flow_label, 16),
        t_class=int(tclass, 16),
    )


def compare(text: str, *groups: MCMemberRecord, **known: Any) -> list[GroupFinding]:
    return compare_groups(parse_policy(text), groups, **known)


def only(findings: list[GroupFinding]) -> GroupFinding:
    (finding,) = findings
    return finding


@pytest.mark.parametrize("file", files())
def test_what_opensm_made_of_a_policy_is_as_the_policy_says(file: Path) -> None:
    recorded = load(file)
    if not recorded.policy.accepted:
        with pytest.raises(FileFormatError, match="nothing was read from it"):
            compare_groups(recorded.policy, recorded.groups)
        return
    findings = compare_groups(recorded.policy, recorded.groups, populated=recorded.populated)
    odd = {each.mgid: each.state for each in findings if each.state not in ("as-planned", "no-member")}
    assert odd == NOT_MADE.get(file.name.split("--")[1].split(".")[0], {})
    assert {each.mgid for each in findings if each.found} == {group.mgid for group in recorded.groups}


@pytest.mark.parametrize("file", files())
def test_groups_of_a_policy_that_marks_no_partition_are_reported(file: Path) -> None:
    """The broadcast groups; others are made by hosts every day."""
    recorded = load(file)
    findings = compare_groups(parse_policy("Default : ALL=limited, SELF=full ;"), recorded.groups)
    assert {each.state for each in findings} <= {"unexpected"}
    broadcast = {group.mgid for group in recorded.groups if group.mgid & 0xFFFF_FFFF == 0xFFFF_FFFF}
    assert {each.mgid for each in findings} == broadcast


def test_a_default_partition_with_a_group_that_nobody_asked_for_may_be_a_refused_file() -> None:
    finding = only(compare("Default : ALL=limited ;", record("ff12:401b:ffff::ffff:ffff", pkey="0xffff")))
    assert (finding.state, finding.name, finding.base) == ("unexpected", "Default", 0x7FFF)
    assert "when it has no policy file, or refused the one it has" in finding.message
    absent = only(compare("Blue=0x12 : ALL ;", record("ff12:401b:ffff::ffff:ffff", pkey="0xffff")))
    assert (absent.state, absent.name) == ("unexpected", "Default")


@pytest.mark.parametrize(
    ("flags", "values", "differences", "words"),
    [
        ("mtu=5", {}, ("mtu",), "MTU 2048 bytes, the policy says 4096 bytes"),
        ("rate=7", {"rate": 3}, ("rate",), "rate 10 Gb/s, the policy says 40 Gb/s"),
        ("", {"rate": 63}, ("rate",), "rate no rate code (63), the policy says 10 Gb/s"),
        ("sl=3", {}, ("sl",), "SL 0, the policy says 3 (OpenSM uses sl= only with QoS on)"),
        ("sl=3", {"sl": 2}, ("sl",), "SL 2, the policy says 3"),
        ("Q_Key=0x80000b1b", {}, ("q_key",), "Q_Key 0x00000b1b, the policy says 0x80000b1b"),
        ("", {"pkey": "0x0012"}, ("pkey",), "P_Key 0x0012, the policy says 0x8012 (a group's P_Key has the full bit)"),
        ("", {"pkey": "0x8013"}, ("pkey",), "P_Key 0x8013, the policy says 0x8012"),
        ("TClass=0x20", {}, ("t_class",), "TClass 0x00, the policy says 0x20"),
        ("FlowLabel=5", {"mtu": 5}, ("mtu", "flow_label"), "FlowLabel 0x00000, the policy says 0x00005"),
        ("mtu=4, rate=3, Q_Key=0xb1b", {}, (), "as the policy says"),
        ("mtu=junk", {}, ("mtu",), "MTU 2048 bytes, the policy says no MTU code (0)"),
    ],
)
def test_values_are_compared_and_said_in_words(
    flags: str, values: dict[str, Any], differences: tuple[str, ...], words: str
) -> None:
    finding = only(compare(f"Blue=0x12, ipoib, {flags} : ALL=full ;", record("ff12:401b:8012::ffff:ffff", **values)))
    assert finding.differences == differences
    assert finding.state == ("differs" if differences else "as-planned")
    assert finding.message.endswith(words)


def test_a_group_that_is_not_there_is_missing_only_where_the_asker_would_see_it() -> None:
    assert only(compare(BLUE)).state == "missing"
    assert only(compare(BLUE, own_p_keys=[0xFFFF, 0x0012])).state == "missing", "a limited member is shown it too"
    hidden = only(compare(BLUE, own_p_keys=[0xFFFF]))
    assert hidden.state == "unknown"
    assert "no P_Key of partition 0x0012" in hidden.message
    assert only(compare_groups(parse_policy(BLUE), None)).state == "unknown"


def test_a_partition_without_a_member_has_no_group_and_lacks_none() -> None:
    assert only(compare(BLUE, populated={0x7FFF})).state == "no-member"
    assert (
        only(compare(BLUE, populated={0x7FFF, 0x12})).message == "the SA does not know it: the partition has no IPoIB"
    )
    assert "is not known" in only(compare(BLUE, populated=None)).message
    there = only(compare(BLUE, record("ff12:401b:8012::ffff:ffff"), populated=set()))
    assert there.state == "as-planned"


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        ("mtu=9", "mtu=9 is not an MTU code"),
        ("rate=63", "rate=63 is not a rate code"),
        ("rate=24", "does not know rate=24"),
    ],
)
def test_values_that_no_group_can_have_are_the_reason(flags: str, word: str) -> None:
    assert word in only(compare(f"Blue=0x12, ipoib, {flags} : ALL=full ;")).message


def test_several_groups_of_one_partition() -> None:
    text = "Blue=0x12, ipoib :\n mgid=ff12:401b::16\n mgid=ff12::99, mtu=5, scope=2, scope=5\n ALL ;\n"
    groups = [record("ff12:401b:8012::ffff:ffff"), record("ff12::99", mtu=5, qkey="0")]
    assert [(each.mgid_text, each.is_broadcast, each.state) for each in compare(text, *groups)] == [
        ("ff12:401b:8012::ffff:ffff", True, "as-planned"),
        ("ff12:401b:8012::16", False, "missing"),
        ("ff12::99", False, "as-planned"),
        ("ff15::99", False, "missing"),
    ]


def test_of_two_definitions_of_one_partition_the_first_makes_the_group() -> None:
    text = "Blue=0x12 : ALL ;\nBlue=0x12, ipoib, mtu=5 : ALL ;\nBlue=0x12, ipoib, mtu=1 : ALL ;\n"
    assert only(compare(text, record("ff12:401b:8012::ffff:ffff", mtu=5))).state == "as-planned"


def test_a_broadcast_group_that_an_mgid_line_makes_is_the_policys() -> None:
    text = "Blue=0x12 :\n mgid=ff12:401b::ffff:ffff\n ALL ;\n"
    assert only(compare(text, record("ff12:401b:8012::ffff:ffff"))).state == "as-planned"
    assert only(compare(text)).state == "missing"


def test_scopes_of_the_broadcast_group() -> None:
    """OpenSM 3.3.23 heeds no scope= there; an SM that does is not accused."""
    wide = with_scope(broadcast_mgid(0x12), 5).to_bytes(16)
    link, site = record("ff12:401b:8012::ffff:ffff"), record(str(ipaddress.IPv6Address(wide)))
    with_both = compare("Blue=0x12, ipoib, scope=2, scope=5 : ALL ;", link, site)
    assert [each.state for each in with_both] == ["as-planned", "as-planned"]
    assert only(compare("Blue=0x12, ipoib, scope=2, scope=5 : ALL ;", link)).state == "as-planned"
    first, second = compare(BLUE, link, site)
    assert (first.state, second.state) == ("as-planned", "unexpected")
    assert "site-local" in second.message


def test_a_broadcast_group_without_the_full_bit_is_no_ipoib_hosts() -> None:
    first, second = compare(BLUE, record("ff12:401b:8012::ffff:ffff"), record("ff12:401b:12::ffff:ffff"))
    assert (first.state, second.state, second.base) == ("as-planned", "unexpected", 0x12)
    assert "lack the full bit" in second.message


def test_one_record_for_each_member_is_one_group() -> None:
    group = record("ff12:401b:8012::ffff:ffff")
    members = [group.replace(port_gid=0xFE80 << 112 | guid, join_state=1) for guid in (1, 2)]
    findings = compare(BLUE, *members)
    assert count_states(findings)["as-planned"] == len(findings) == 1


FIELDS = ("pkey", "mtu", "rate", "sl", "q_key", "t_class", "flow_label")


@given(st.data())
def test_each_group_is_judged_by_itself(data: st.DataObject) -> None:
    """Any groups of a policy gone or changed, and any broadcast groups beside them."""
    bases = data.draw(st.lists(st.integers(1, 0x7FFE), min_size=1, max_size=6, unique=True))
    policy = parse_policy("".join(f"P{base}=0x{base:x}, ipoib, mtu=5, rate=7 : ALL ;\n" for base in bases))
    expected, groups = dict[int, tuple[str, tuple[str, ...]]](), list[MCMemberRecord]()
    for base in bases:
        mgid = broadcast_mgid(base)
        whole = MCMemberRecord.new(mgid=mgid, p_key=base | 0x8000, mtu=5, rate=7, q_key=0xB1B)
        fate = data.draw(st.sampled_from(["as-planned", "missing", "differs"]))
        changed = data.draw(st.sets(st.sampled_from(FIELDS), min_size=1)) if fate == "differs" else set()
        if fate != "missing":
            fields = ["p_key" if name == "pkey" else name for name in changed]
            groups.append(whole.replace(**{name: getattr(whole, name) ^ 1 for name in fields}))
        expected[mgid] = fate, tuple(name for name in FIELDS if name in changed)
    for base in data.draw(st.lists(st.integers(1, 0x7FFF).filter(lambda base: base not in bases), unique=True)):
        groups.append(MCMemberRecord.new(mgid=broadcast_mgid(base, data.draw(st.integers(1, 15))), mtu=4))
        expected[groups[-1].mgid] = "unexpected", ()
    findings = compare_groups(policy, data.draw(st.permutations(groups)))
    assert {each.mgid: (each.state, each.differences) for each in findings} == expected
    assert len(findings) == len(expected)
    assert sum(count_states(findings).values()) == len(findings)


def test_partitions_with_a_member_on_a_fabric() -> None:
    policy = parse_policy("A=1 : SELF=full ;\nB=2 : 0xdeadbeef=full ;\nC=3 : ALL_ROUTERS=full ;\nD=4 : ALL_CAS ;\n")
    found = tool(subnet("two-switch")).sweep()
    assert populated_partitions(policy, found) == {0x7FFF, 1, 4}
    assert populated_partitions(policy, Topology(nodes=[])) is None, "who SELF is is not known"
    found.troubles.append(Trouble(next(found.ports()), "no reply"))
    assert populated_partitions(policy, found) is None, "the member may be where nobody looked"

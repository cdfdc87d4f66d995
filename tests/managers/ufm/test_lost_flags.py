"""Flags of a policy that UFM would not have after the change: refused before anything is sent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.errors import UsageError
from ibkeys.managers.ufm.answers import UfmPartition, parse_partition
from ibkeys.managers.ufm.lost_flags import lost_flags, refuse_lost_flags
from ibkeys.managers.ufm.policy import policy_of
from ibkeys.partitions.model import Policy
from ibkeys.partitions.reader import parse_policy
from ibkeys.partitions.words import MTU_BYTES, RATE_GBPS

GUID = "0x0002c903000a1011"


def parsed(*lines: str) -> Policy:
    return parse_policy("\n".join(lines).encode() + b"\n", "new.conf")


def entry(ip_over_ib: bool = True, index0: bool = False, **qos: float) -> UfmPartition:
    members = [{"guid": GUID, "membership": "full", "index0": index0}]
    return parse_partition(
        0x21, {"partition": "lustre", "ip_over_ib": ip_over_ib, "guids": members, "qos_conf": qos or None}
    )


def lost(flags: str, stored: UfmPartition | None, *more: str) -> list[str]:
    policy = parsed(f"lustre=0x21{flags} : {more[0] if more else ''}{GUID}=full ;", *more[1:])
    assert policy.accepted
    return list(lost_flags(policy.partitions[0], stored))


@pytest.mark.parametrize(
    ("flags", "stored", "named"),
    [
        ("", None, []),
        (", ipoib, indx0, defmember=full", None, []),  # carried by the call that creates it, and by its members
        (", ipoib", entry(ip_over_ib=True), []),
        (", ipoib", entry(ip_over_ib=False), ["ipoib"]),
        ("", entry(ip_over_ib=True), []),  # stays as UFM has it
        (", indx0", entry(index0=True), []),
        (", indx0", entry(), ["indx0"]),
        (", mtu=5, rate=7, sl=3, Q_Key=0x22, scope=5", None, []),  # without a group they have no effect
        (", ipoib, mtu=5, rate=7, sl=3", None, ["mtu=5", "rate=7", "sl=3"]),
        (", ipoib, mtu=5, rate=7, sl=3", entry(), ["mtu=5", "rate=7", "sl=3"]),
        (", ipoib, mtu=5, rate=7, sl=3", entry(mtu_limit=4, rate_limit=40, service_level=3), []),
        (", ipoib, mtu=5, rate=7, sl=3", entry(mtu_limit=2, rate_limit=2.5, service_level=3), ["mtu=5", "rate=7"]),
        (", ipoib, mtu=4, rate=3, sl=0, Q_Key=0xb1b, scope=2", entry(), []),  # OpenSM's defaults
        (
            ", ipoib, Q_Key=0x22, scope=5, TClass=0x20, FlowLabel=0x7",
            entry(mtu_limit=4),
            ["Q_Key=0x22", "TClass=0x20", "FlowLabel=0x7", "scope=5"],
        ),
    ],
)
def test_each_flag(flags: str, stored: UfmPartition | None, named: list[str]) -> None:
    assert lost(flags, stored) == named


def test_groups_besides_the_broadcast_group() -> None:
    found = parsed("lustre=0x21 :", "  mgid=ff12::77,sl=1", f"  {GUID}=full ;")
    assert list(lost_flags(found.partitions[0], entry())) == ["mgid=ff12::77"]


def test_indx0_of_some_members_only() -> None:
    two = parsed(f"a=0x21, indx0 : {GUID}=full ;", "a=0x21 : 0x0002c903000a1021=full ;").partitions[0]
    assert list(lost_flags(two, None)) == ["indx0"], "a new partition has one index0 for all"
    assert list(lost_flags(two, entry(index0=True))) == [], "the port with indx0 has it"
    members = [{"guid": GUID, "membership": "full", "index0": True}]
    members.append({"guid": "0002c903000a1031", "membership": "full", "index0": False})
    assert list(lost_flags(two, parse_partition(0x21, {"guids": members}))) == []
    members[0]["index0"] = False
    assert list(lost_flags(two, parse_partition(0x21, {"guids": members}))) == ["indx0"]


def test_a_refusal_names_flags_and_partitions_and_asks_ufm_only_for_those_with_qos() -> None:
    policy = parsed(
        "Default=0x7fff, ipoib : ALL=full ;",
        f"lustre=0x21, ipoib, mtu=5 : {GUID}=full ;",
        f"tank=0x30, ipoib, Q_Key=0x22 : {GUID}=full ;",
        f"same=0x40, ipoib, mtu=5 : {GUID}=full ;",
    )
    listed = {base: UfmPartition(base, ip_over_ib=True) for base in (0x7FFF, 0x21, 0x30, 0x40)}
    asked: list[int] = []

    def read(base: int) -> UfmPartition:
        asked.append(base)
        return UfmPartition(base, ip_over_ib=True, qos={"mtu_limit": "4" if base == 0x40 else "2"})

    with pytest.raises(
        UsageError, match=r"mtu=5 of lustre \(0x21\), Q_Key=0x22 of tank \(0x30\): remove them"
    ) as raised:
        refuse_lost_flags(policy, listed, read)
    assert "same" not in str(raised.value)
    assert asked == [0x21, 0x40]


@given(st.sampled_from(sorted(MTU_BYTES)), st.sampled_from(sorted(RATE_GBPS)), st.integers(0, 15), st.booleans())
def test_what_ufm_has_is_never_refused(mtu: int, rate: int, sl: int, index0: bool) -> None:
    stored = entry(index0=index0, mtu_limit=MTU_BYTES[mtu] / 1024, rate_limit=float(RATE_GBPS[rate]), service_level=sl)
    assert lost(f", ipoib, mtu={mtu}, rate={rate}, sl={sl}", stored) == []
    from_ufm = policy_of("https://ufm.example", [stored])
    refuse_lost_flags(from_ufm, {0x21: stored}, lambda base: stored)


@pytest.mark.parametrize("answer", ["", "4096 or so", "nan", "null"])
def test_an_answer_without_a_number_is_no_proof(answer: str) -> None:
    assert lost(", ipoib, mtu=5", UfmPartition(0x21, ip_over_ib=True, qos={"mtu_limit": answer})) == ["mtu=5"]

"""compare --ipoib on simulated subnets: output, exit codes, and what it asks."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import ibkeys
from ibkeys.cli.options import Where
from ibkeys.cli.partitions import ipoib
from ibkeys.fabric.live import LiveFabric
from ibkeys.partitions.model import broadcast_mgid
from ibkeys.sim.agents.sa_records import MulticastGroup
from ibkeys.sim.subnet import Subnet
from tests.cli.conftest import TWO_SWITCH, run
from tests.fabricsim import subnet

SM = "sm=node01 mlx4_0"
OPENED: list[LiveFabric] = []


@pytest.fixture
def net(monkeypatch: pytest.MonkeyPatch) -> Subnet:
    """The subnet that commands talk to, from its SM's node; the SA has OpenSM's group of the default partition."""
    OPENED.clear()
    net = subnet("two-switch")
    net.set_sm(net.nodes[0])

    @contextmanager
    def opened(where: Where) -> Iterator[LiveFabric]:
        with ibkeys.open(net, timing=ibkeys.Timing((where.timeout or 1000) / 1000)) as fabric:
            OPENED.append(fabric)
            yield fabric

    monkeypatch.setattr(ipoib, "open_fabric", opened)
    return net


def groups_of(net: Subnet) -> list[MulticastGroup]:
    return net.sa_of(net.nodes[0]).groups


def group(base: int, **values: int) -> MulticastGroup:
    return MulticastGroup(broadcast_mgid(base), 0xC000 + base, p_key=base | 0x8000, **values)  # type: ignore[arg-type]


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "partitions.conf"
    path.write_text("Default=0x7fff, ipoib : ALL=full ;\nBlue=0x12, ipoib, mtu=5, rate=7 : ALL_CAS=full ;\n")
    return path


def test_groups_as_the_policy_says(net: Subnet, policy: Path) -> None:
    net.nodes[0].end_ports[0].p_keys = [0xFFFF, 0x0012]
    groups_of(net).append(group(0x12, mtu=5, rate=7))
    result = run("compare", "--ipoib", "--policy", policy)
    assert (result.code, result.err) == (0, "")
    assert result.out == (
        "Partition  Name     MGID                       MTU         Rate     SL  Q_Key       SA\n"
        "0x7fff     Default  ff12:401b:ffff::ffff:ffff  2048 bytes  10 Gb/s   0  0x00000b1b  as the policy says\n"
        "0x0012     Blue     ff12:401b:8012::ffff:ffff  4096 bytes  40 Gb/s   0  0x00000b1b  as the policy says\n"
        "2 groups: 2 as the policy says\n"
    )


def test_what_is_wrong_stands_first_and_exits_1(net: Subnet, policy: Path) -> None:
    net.nodes[0].end_ports[0].p_keys = [0xFFFF, 0x8012, 0x8013]
    groups_of(net)[:] = [group(0x12, q_key=0x80010000, rate=7, mtu=5), group(0x13)]
    result = run("compare", "--ipoib", "--policy", policy)
    assert (result.code, result.err) == (1, "")
    assert result.out.splitlines()[:4] == [
        "MISSING: ff12:401b:ffff::ffff:ffff (Default, partition 0x7fff): the SA does not know it: the partition has no "
        "IPoIB",
        "DIFFERS: ff12:401b:8012::ffff:ffff (Blue, partition 0x0012): Q_Key 0x80010000, the policy says 0x00000b1b",
        "UNEXPECTED: ff12:401b:8013::ffff:ffff (partition 0x0013): the policy has no such partition; a host, or an "
        "earlier policy, made the group",
        "",
    ]
    assert result.out.endswith("3 groups: 1 differs, 1 missing, 1 unexpected\n")


@pytest.mark.parametrize("format", ["table", "json", "csv"])
def test_a_port_outside_the_partition_cannot_tell(net: Subnet, policy: Path, format: str) -> None:
    groups_of(net).append(group(0x12, mtu=5, rate=7))
    result = run("compare", "--ipoib", "--policy", policy, "-f", format)
    assert result.code == 3
    assert result.error == "the result is partial: the SA does not show this port every group"
    assert "MISSING" not in result.out
    assert "no P_Key of partition 0x0012" in result.out


@pytest.mark.parametrize("format", ["table", "json", "csv"])
def test_a_silent_sa_is_no_missing_group(policy: Path, format: str) -> None:
    result = run("compare", "--ipoib", "--policy", policy, "--backend", TWO_SWITCH, "-t", "1", "-f", format)
    assert result.code == 3
    assert "no reply after 3 attempts" in result.error
    assert "ff12:401b:8012::ffff:ffff" in result.out, "what the policy says is known all the same"
    assert "MISSING" not in result.out
    if format == "json":
        assert result.json["summary"]["unknown"] == 2
        assert "no reply" in result.json["error"]


def test_a_refusal_is_no_missing_group(net: Subnet, policy: Path) -> None:
    net.carrier.sa_data_limit = 8
    result = run("compare", "--ipoib", "--policy", policy)
    assert result.code == 3
    assert "status 0x0100 (no resources)" in result.error
    assert "2 groups: 2 not known" in result.out


def test_the_fabric_is_swept_only_where_a_group_is_not_there(net: Subnet, policy: Path) -> None:
    policy.write_text("Default, ipoib : ALL=full ;\n")
    assert run("compare", "--ipoib", "--policy", policy).code == 0
    policy.write_text("Default, ipoib : ALL=full ;\nGone=0x12, ipoib : 0xdeadbeef=full ;\n")
    result = run("compare", "--ipoib", "--policy", policy)
    assert (result.code, result.err) == (0, "")
    assert "no member, so no group: ff12:401b:8012::ffff:ffff" in result.out
    alone, swept = (fabric.client.statistics.sent for fabric in OPENED)
    assert alone == 0, "no SMP"
    assert swept > len(net.nodes)


def test_csv_has_a_line_for_each_group_and_json_the_same_values(net: Subnet, policy: Path) -> None:
    net.nodes[0].end_ports[0].p_keys = [0xFFFF, 0x8012]
    rows = list(csv.DictReader(io.StringIO(run("compare", "--ipoib", "--policy", policy, "-f", "csv").out)))
    assert [(row["mgid"], row["state"], row["planned_mtu"], row["found_mtu"]) for row in rows] == [
        ("ff12:401b:ffff::ffff:ffff", "as-planned", "4", "4"),
        ("ff12:401b:8012::ffff:ffff", "missing", "5", ""),
    ]
    result = run("compare", "--ipoib", "--policy", policy, "-f", "json")
    assert result.code == 1
    document = result.json
    assert list(document) == ["schema", "policy", "groups", "summary", "joins", "asked_from", "error"]
    assert document["schema"] == "ibkeys.compare-ipoib/1"
    assert document["error"] is None
    default, blue = document["groups"]
    assert (
        default["found"]
        == default["planned"]
        == {
            "pkey": "0xffff",
            "mtu": 4,
            "rate": 3,
            "sl": 0,
            "q_key": "0x00000b1b",
            "t_class": "0x00",
            "flow_label": "0x00000",
        }
    )
    assert (blue["partition"], blue["name"], blue["broadcast"], blue["found"]) == ("0x0012", "Blue", True, None)


def test_a_policy_that_opensm_refuses_is_refused_before_anything_is_asked(policy: Path) -> None:
    policy.write_text("X=5 : 0xzz ;\n")
    result = run("compare", "--ipoib", "--policy", policy, "--backend", "umad")
    assert result.code == 2
    assert "MAKE EVERY PORT A FULL MEMBER" in result.error


def test_without_any_group_that_is_said(net: Subnet, policy: Path) -> None:
    groups_of(net).clear()
    policy.write_text("Default : ALL=full ;\n")
    result = run("compare", "--ipoib", "--policy", policy)
    assert result.code == 0
    assert (
        result.out == f"{policy} marks no partition ipoib and defines no group, and the SA shows no broadcast group\n"
    )


def test_without_any_group_and_without_an_answer_nothing_is_claimed(policy: Path) -> None:
    policy.write_text("Default : ALL=full ;\n")
    result = run("compare", "--ipoib", "--policy", policy, "--backend", TWO_SWITCH, "-t", "1")
    assert result.code == 3
    assert result.out == f"{policy} marks no partition ipoib and defines no group, and the SA gave no answer\n"


def test_partitions_whose_groups_this_port_is_not_shown_are_named(net: Subnet, policy: Path) -> None:
    policy.write_text("Default, ipoib : ALL=full ;\nA=5 : ALL_CAS=full ;\nB=6 : ALL_CAS=full ;\n")
    groups_of(net).append(group(5))
    result = run("compare", "--ipoib", "--policy", policy)
    assert result.code == 0
    assert result.err == (
        "ibkeys: note: it is not known whether partitions 0x0005, 0x0006 have a broadcast group that should not exist: "
        "OpenSM shows it only to a port with a P_Key of its partition\n"
    )
    net.nodes[0].end_ports[0].p_keys = [0xFFFF, 0x0005, 0x8006]
    result = run("compare", "--ipoib", "--policy", policy)
    assert (result.code, result.err) == (1, "")
    assert result.out.startswith(
        "UNEXPECTED: ff12:401b:8005::ffff:ffff (A, partition 0x0005): the policy does not mark"
    )
    assert run("compare", "--ipoib", "--policy", policy, "-f", "json").json["asked_from"] == [
        "0x0005",
        "0x0006",
        "0x7fff",
    ]


def test_members_says_who_is_kept_out(net: Subnet, policy: Path) -> None:
    policy.write_text(
        "Default=0x7fff, ipoib : ALL=full ;\nBlue=0x12, ipoib, mtu=5 : ALL_CAS=full ;\nRed=0x13 : ALL ;\n"
    )
    net.nodes[0].end_ports[0].p_keys = [0xFFFF, 0x8012, 0x8013]
    groups_of(net).append(group(0x12, mtu=5, rate=3))
    result = run("compare", "--ipoib", "--policy", policy, "--members")
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines()[-3:] == [
        "0x7fff Default: all of 6 members can join its group",
        "0x0012 Blue: drivers cannot join: none of 1 member can join its group ('node01 mlx4_0' "
        "0x0002c903000a1010 port "
        "1: MTU 2048 bytes, 4096 bytes wanted)",
        "0x0013 Red: no broadcast group, so no interface runs; but a member can have the SA make one. A group that "
        "none of them can join prevents this: ipoib, mtu=5 in the policy",
    ]
    joins = run("compare", "--ipoib", "--policy", policy, "--members", "-f", "json").json["joins"]
    assert [(each["partition"], each["ipoib"], each["members"], each["keeps_out"]) for each in joins] == [
        ("0x7fff", True, 6, False),
        ("0x0012", True, 1, True),
        ("0x0013", False, 1, False),
    ]
    assert (joins[1]["refused"][0]["node_desc"], joins[1]["refused"][0]["certain"]) == ("node01 mlx4_0", True)


def test_members_without_an_answer_of_the_sa_claims_nothing(policy: Path) -> None:
    result = run(
        "compare", "--ipoib", "--policy", policy, "--members", "--backend", TWO_SWITCH, "-t", "1", "-f", "json"
    )
    assert (result.code, result.json["joins"]) == (3, None)


def test_on_a_backend_by_name(policy: Path) -> None:
    policy.write_text("Default : ALL=full ;\n")
    result = run("compare", "--ipoib", "--policy", policy, "--backend", f"{TWO_SWITCH},{SM}")
    assert result.code == 1
    assert result.out.startswith("UNEXPECTED: ff12:401b:ffff::ffff:ffff (Default, partition 0x7fff): ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--ipoib",), "--ipoib needs the policy: --policy FILE, opensm or ufm:URL"),
        (("--members",), "--members goes with --ipoib"),
        (("--ipoib", "--policy", "a.conf", "--wait", 5), "--ipoib and --wait exclude each other"),
        (
            ("--ipoib", "--policy", "a.conf", "--fold", "--sm-host", "sm2"),
            "--ipoib and --fold, --sm-host exclude each other",
        ),
        (("--ipoib", "--policy", "a.conf", "--hosts"), "--ipoib compares groups, not ports"),
    ],
)
def test_what_means_nothing_together_is_refused(words: tuple[object, ...], said: str) -> None:
    result = run("compare", *words)
    assert (result.code, result.out) == (2, "")
    assert result.error.startswith(said)


def test_a_snapshot_has_no_groups(policy: Path) -> None:
    result = run("compare", "--ipoib", "--policy", policy, "--from", "monday.db")
    assert (result.code, "a snapshot has no multicast groups" in result.error) == (2, True)

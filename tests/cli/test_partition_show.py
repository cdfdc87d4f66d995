"""partition-show: what a policy means for a fabric, partition by partition."""

from __future__ import annotations

import csv
import io
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.conftest import TWO_SWITCH, Result, run
from tests.cli.saved import save
from tests.cli.scenes import Scene, Way
from tests.fabricsim import subnet

TEXT = """\
tank, ipoib, indx0 : 0x2c903000a1021=full, 0x2c903000a1031 ;
gpu=0x30, ipoib, mtu=5, rate=16 :
  mgid=ff12::77
  ALL_CAS=limited, 0x2c903000a1041=full, 0xabc ;
none=0x44 : 0xabc ;
"""


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "partitions.conf"
    path.write_text(TEXT)
    return path


def show(policy: Path, *args: object) -> Result:
    return run("partition-show", "--policy", policy, "--backend", TWO_SWITCH, *args)


def test_each_partition_is_described_with_its_members_by_name(policy: Path) -> None:
    result = show(policy)
    assert (result.code, result.err) == (0, "")
    switches = "Infiniscale-IV Mellanox Technologies port 0, MF0;switch-a:IS5023/U1 port 0"
    assert result.out == (
        "tank: partition 0x0001 (picked by OpenSM), at index 0 of its members\n"
        "  IPoIB: broadcast group ff12:401b:8001::ffff:ffff, MTU 2048 bytes, rate 10 Gb/s, Q_Key 0x00000b1b\n"
        "  full, 1: node02 mlx4_0\n"
        "  limited, 1: node03 mlx4_0\n"
        "gpu: partition 0x0030\n"
        "  IPoIB: broadcast group ff12:401b:8030::ffff:ffff, MTU 4096 bytes, rate 100 Gb/s, Q_Key 0x00000b1b\n"
        "  group ff12::77, MTU 4096 bytes, rate 100 Gb/s, Q_Key 0x00000000\n"
        "  full, 1: node04 mlx4_0\n"
        "  limited, 5: node[01-03,05-06] mlx4_0\n"
        "  no port of this fabric: 0x0000000000000abc\n"
        "none: partition 0x0044\n"
        "  no port of this fabric: 0x0000000000000abc\n"
        "  no member on this fabric: OpenSM drops it\n"
        "Default: partition 0x7fff\n"
        "  full, 1: node01 mlx4_0\n"
        f"  limited, 7: node[02-06] mlx4_0, {switches}\n"
    )


@pytest.mark.parametrize(
    ("partition", "first"),
    [
        ("gpu", "gpu: partition 0x0030"),
        ("0x8030", "gpu: partition 0x0030"),
        ("gpu=0x30", "gpu: partition 0x0030"),
        ("Default", "Default: partition 0x7fff"),
        ("0xffff", "Default: partition 0x7fff"),
    ],
)
def test_one_partition_is_shown(policy: Path, partition: str, first: str) -> None:
    lines = show(policy, partition).out.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == [first]


def test_json_and_csv_have_each_member(policy: Path) -> None:
    [gpu] = show(policy, "gpu", "-f", "json").json["partitions"]
    assert (gpu["partition"], gpu["name"], gpu["automatic"], gpu["ipoib"]) == ("0x0030", "gpu", False, True)
    assert [group["mgid"] for group in gpu["groups"]] == ["ff12:401b:8030::ffff:ffff", "ff12::77"]
    assert {each["node_desc"]: each["membership"] for each in gpu["members"]} == {
        f"node0{number} mlx4_0": "full" if number == 4 else "limited" for number in range(1, 7)
    }
    assert gpu["absent"] == ["0x0000000000000abc"]
    rows = list(csv.DictReader(io.StringIO(show(policy, "-f", "csv").out)))
    assert len(rows) == 2 + 6 + 8
    assert [row["node_desc"] for row in rows if row["name"] == "tank"] == ["node02 mlx4_0", "node03 mlx4_0"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("lustre",), "there is no partition lustre; there are tank=0x0001, gpu=0x0030, none=0x0044"),
        (("gp",), "did you mean gpu?"),
        (("gpu=0x31",), "has the number 0x0030 there"),
        (("gpu=",), "is not a partition"),
    ],
)
def test_a_partition_that_is_not_there_is_an_error(policy: Path, args: tuple[str, ...], said: str) -> None:
    result = show(policy, *args)
    assert (result.code, result.out) == (2, "")
    assert said in result.error


def test_a_policy_that_opensm_would_refuse_is_not_shown(policy: Path) -> None:
    policy.write_text("gpu=0x30 : nonsense ;\n")
    assert "FULL MEMBER" in show(policy).error
    assert "name the policy file" in run("partition-show", "--backend", TWO_SWITCH).error


def test_a_fabric_that_is_not_fully_read_and_has_no_sm_is_said(policy: Path, tmp_path: Path) -> None:
    net = subnet("two-switch")
    net.silence("node05 mlx4_0")
    result = run("partition-show", "gpu", "--policy", policy, "--from", save(net, tmp_path / "a.db"))
    assert result.code == 3
    assert "limited, 4: node[01-03,06] mlx4_0" in result.out


def test_the_policy_in_force_is_that_of_the_master(tmp_path: Path) -> None:
    with ExitStack() as stack:
        scene = Scene(Way("plan", opensm=""), tmp_path, stack)
        for words in ("partition-show io", "partition-show io --policy opensm"):
            assert scene.type(f"{words} -v") == 0
            assert f"the policy is {scene.world.opensms[0].policy}" in scene.err
            assert scene.out.startswith("io: partition 0x0001\n  limited, 8: node[01-06] mlx4_0, ")

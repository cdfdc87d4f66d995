"""replace on a policy file: the words that name an adapter, what is written, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.corpus import DATA

POLICY = (
    "# of the cluster\n"
    "Default=0x7fff, ipoib : ALL=limited, SELF=full ;\n"
    "tank, ipoib : 0x2c903000a1021=full, 0x2c903000a1031 ;  # by OpenSM\n"
    "gpu=0x30, ipoib, mtu=4 :\n"
    "    0x2c903000a1021,  # node02 mlx4_0\n"
    "    0x2c903000a1041=full ;\n"
)
EDITED = POLICY.replace("0x2c903000a1021", "0x2c903000a6021")


@pytest.fixture
def policy(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of a policy, after a snapshot of Monday, and after the adapter of node02 was replaced."""
    path, net = tmp_path / "partitions.conf", tmp_path / "replaced.net"
    path.write_text(POLICY)
    assert cli("snapshot", tmp_path / "monday.db").code == 0
    net.write_text((DATA / "fabrics" / "two-switch.net").read_text().replace("c903000a102", "c903000a602"))
    monkeypatch.setenv("IBKEYS_BACKEND", f"sim:{net}")
    return path


@pytest.mark.parametrize("words", ["", "node02", "node02 node02", "0x2c903000a1020 0x2c903000a6021"])
def test_the_items_of_the_former_adapter_name_the_new_one(cli: Cli, policy: Path, words: str) -> None:
    result = cli("replace", *words.split(), "--baseline", policy.parent / "monday.db", "--policy", policy)
    assert result.code == 0, result.err
    assert policy.read_text() == EDITED
    assert "replaced: node02 mlx4_0 (0x0002c903000a1020) -> node02 mlx4_0 (0x0002c903000a6020)" in result.err
    assert "added to tank (0x0001), full: node02 mlx4_0\n" in result.out
    assert "removed from gpu (0x0030): 0x0002c903000a1021\n" in result.out


def test_two_port_guids_need_no_snapshot(cli: Cli, policy: Path) -> None:
    result = cli("replace", "0x2c903000a1021", "node02", "--policy", policy, "--dry-run")
    assert result.code == 1
    assert policy.read_text() == POLICY
    assert cli("replace", "0x2c903000a1021", "0x2c903000a6021", "--policy", policy).code == 0
    assert policy.read_text() == EDITED


def test_nothing_is_taken_over_twice(cli: Cli, policy: Path) -> None:
    words = ("replace", "--baseline", policy.parent / "monday.db", "--policy", policy)
    assert cli(*words).code == 0
    result = cli(*words)
    assert result.code == 0
    assert result.out == "nothing to change\n"
    assert policy.read_text() == EDITED


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (
            "node01 node02 --baseline MONDAY",
            4,
            "was not replaced, for 'node01 mlx4_0' 0x0002c903000a1010 port 1 answers",
        ),
        ("node02 node03 --baseline MONDAY", 4, "names 0x0002c903000a1031 (node03 mlx4_0) already"),
        ("node02 node05 --baseline MONDAY", 4, "refused by interlock replaced-adapter: "),
        ("node02 node02", 2, "'node02' is not a GUID, and a name is looked up only in an earlier snapshot"),
        ("0x2c903000a1021", 2, "name NEW, too, or an earlier snapshot"),
        ("", 2, "name OLD and NEW, or an earlier snapshot (--baseline) that shows what was replaced"),
        ("node03 --baseline MONDAY", 2, "no new node with its name is at the place of node03 mlx4_0"),
        ("node02 node99 --baseline MONDAY", 2, "'node99': nothing that was read has this name"),
    ],
)
def test_what_is_not_replaced_leaves_the_file(cli: Cli, policy: Path, words: str, code: int, message: str) -> None:
    monday = str(policy.parent / "monday.db")
    result = cli("replace", *words.replace("MONDAY", monday).split(), "--policy", policy)
    assert (result.code, result.out) == (code, "")
    assert message in result.err
    assert policy.read_text() == POLICY


def test_something_unusual_is_overridden_by_its_name(cli: Cli, policy: Path) -> None:
    words = ("replace", "node02", "node05", "--baseline", policy.parent / "monday.db", "--policy", policy)
    result = cli(*words, "--dry-run")
    assert result.code == 4
    assert "is at another place than 0x0002c903000a1021 was: behind" in result.err
    assert "is not new: it was 'node05 mlx4_0'" in result.err
    assert cli(*words, "--override", "replaced-adapter").code == 0
    assert policy.read_text() == POLICY.replace("0x2c903000a1021", "0x2c903000a1051")


def test_a_pair_of_two_members_is_left_out_and_named(cli: Cli, policy: Path) -> None:
    policy.write_text(POLICY + "both=0x44 : 0x2c903000a6021=full ;\n")
    result = cli("replace", "--baseline", policy.parent / "monday.db", "--policy", policy)
    assert (result.code, result.out) == (0, "nothing to change\n")
    assert "left out: node02 mlx4_0 (0x0002c903000a1020) -> " in result.err

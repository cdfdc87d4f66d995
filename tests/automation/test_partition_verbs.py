"""`Fabric.partitions` does what partition-add and its siblings do: the same operation, tables and files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import ibkeys
from ibkeys.errors import AddressError, IbkeysError, Refused, UsageError
from tests.cli.live_cluster import LIVE, POLICY, cluster
from tests.cli.scenes import Scene
from tests.recordings.world import STANDBY_HOST

VIA = ibkeys.ThroughOpenSM([STANDBY_HOST], wait=5)
MOVES = ibkeys.Consent(overrides=frozenset({"index-move"}))
Act = Callable[[ibkeys.Partitions], ibkeys.ChangeResult]

VERBS: dict[str, tuple[str, Act]] = {
    "a new partition": (
        "partition-add lustre=0x21 --full node05 --limited node0[2-4] --ipoib --mtu 2048 --sl 1",
        lambda it: it.add("lustre=0x21", full=["node05"], limited=["node0[2-4]"], ipoib=True, mtu=2048, sl=1, via=VIA),
    ),
    "moved members": (
        "partition-add tank --out-of gpu node04",
        lambda it: it.add("tank", out_of="gpu", keeping=["node04"], via=VIA),
    ),
    "flags": (
        "partition-add gpu --mtu default --rate 20 --mgid ff12::77 --defmember full",
        lambda it: it.add("gpu", mtu="default", rate=20, mgid=["ff12::77"], defmember="full", via=VIA),
    ),
    "index 0": (
        "partition-add gpu --full node03 --indx0 --override index-0 --override index-move --allow-break",
        lambda it: it.add(
            "gpu",
            full=["node03"],
            indx0=True,
            allow_break=True,
            consent=ibkeys.Consent(overrides=frozenset({"index-0", "index-move"})),
            via=VIA,
        ),
    ),
    "removed members": ("partition-remove gpu node03", lambda it: it.remove("gpu", ["node03"], via=VIA)),
    "a deleted partition": ("partition-delete tank", lambda it: it.delete("tank", via=VIA)),
    "another name": ("partition-rename tank scratch", lambda it: it.rename("tank", "scratch", via=VIA)),
}


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with cluster(tmp_path) as found:
        yield found


@contextmanager
def opened(scene: Scene) -> Iterator[ibkeys.Fabric]:
    stores = ibkeys.Stores(scene.folder / "keys.db", scene.folder / "journal.db")
    with ibkeys.open(stores=stores) as fabric:
        yield fabric


def left(scene: Scene) -> tuple[Any, ...]:
    """Return the tables, the files, and what the journal says of each operation, but for times and options."""
    tables = {
        (node.description, port.number): list(port.p_keys) for node in scene.world.net.nodes for port in node.ports
    }
    files = [each.policy.read_bytes() for each in scene.world.opensms]
    kept = [
        {**{name: each[name] for name in ("command", "state", "ports", "method", "undoes", "overrides")},
         "subject": (each["options"] or [""])[0] if each["undoes"] is None else None}
        for each in scene.operations()
    ]  # fmt: skip
    return tables, files, kept


@pytest.mark.parametrize("name", VERBS)
def test_the_same_is_left_by_the_command_and_by_the_script(name: str, tmp_path: Path) -> None:
    words, act = VERBS[name]
    with cluster(tmp_path / "command") as typed:
        before = left(typed)
        typed.must(f"{words} {LIVE}")
        by_command = left(typed)
        assert by_command != before
    with cluster(tmp_path / "script") as scripted:
        with opened(scripted) as fabric:
            result = act(fabric.partitions)
            assert (result.command, result.operation, result.changed) == (words.split()[0], 1, True)
            assert result.proven
            assert not result.failed
        assert left(scripted) == by_command
        with opened(scripted) as fabric:
            [operation] = fabric.operations()
            assert operation.undo(fabric, via=VIA, allow_break=True, consent=MOVES).proven
        assert left(scripted)[:2] == before[:2]


def test_spread_leaves_what_the_command_leaves(tmp_path: Path) -> None:
    kept = []
    for name in ("command", "script"):
        with cluster(tmp_path / name) as scene:
            standby = scene.world.opensms[1].policy
            standby.write_text(POLICY.replace("gpu", "old"))
            if name == "command":
                scene.must(f"partition-spread {LIVE}")
            else:
                with opened(scene) as fabric:
                    result = fabric.partitions.spread(via=VIA)
                    assert (result.operation, result.changed, result.proven, result.done) == (1, True, True, ())
                    assert f"{standby} on {STANDBY_HOST} differs from the master's policy" in result.notes
                    again = fabric.partitions.spread(via=VIA)
                    assert (again.operation, again.changed, again.proven) == (None, False, True)
            assert standby.read_text() == POLICY
            kept.append(left(scene))
    tables, files, operations = zip(*kept, strict=True)
    assert tables[0] == tables[1]
    assert files[0] == files[1]
    assert [each["command"] for each in operations[0]] == [each["command"] for each in operations[1]]


def test_a_flag_of_a_group_that_exists_is_in_the_result(scene: Scene) -> None:
    with opened(scene) as fabric:
        changed = fabric.partitions.add("gpu", mtu=1024, via=VIA)
        assert (changed.proven, changed.waiting) == (True, ("mtu of gpu",))
        assert any(note.startswith("mtu of gpu: OpenSM keeps a multicast group") for note in changed.notes)
        [operation] = fabric.operations()
        assert operation.undo(fabric, via=VIA).waiting == ("mtu of gpu",)
        assert fabric.partitions.add("gpu", full=["node05"], via=VIA).waiting == ()


def test_what_is_so_already_is_left_and_a_dry_run_writes_nothing(scene: Scene) -> None:
    before = left(scene)
    with opened(scene) as fabric:
        same = fabric.partitions.add("gpu", full=["node03"], via=VIA)
        assert (same.proven, same.changed, same.operation) == (True, False, None)
        dry = fabric.partitions.delete("tank", via=VIA, dry_run=True)
        assert (dry.proven, dry.changed, dry.objections, dry.problem) == (False, False, (), None)
        assert dry.left
    assert left(scene) == before


def test_show_has_the_members_and_what_the_command_says(scene: Scene) -> None:
    with opened(scene) as fabric:
        [shown] = fabric.partitions.show("gpu", via=VIA).partitions
        whole = fabric.partitions.show(via=VIA)
        draft = ibkeys.partitions.parse_policy("Default=0x7fff : ALL=full ;\nnew=0x44 : 0x2c903000a1099=full ;\n")
        [absent] = fabric.partitions.show("new", policy=draft).partitions
    assert [(each.port.node.description, each.membership) for each in shown.members] == [
        ("node03 mlx4_0", "full"),
        ("node04 mlx4_0", "full"),
    ]
    assert (absent.members, absent.absent) == ((), (0x2C903000A1099,))
    scene.must(f"partition-show -f json --sm-host {STANDBY_HOST}")
    said = json.loads(scene.out)["partitions"]
    assert [(f"0x{each.partition.base:04x}", each.partition.name) for each in whole.partitions] == [
        (each["partition"], each["name"]) for each in said
    ]
    assert [[f"0x{each.port.guid:016x}" for each in found.members] for found in whole.partitions] == [
        [each["port_guid"] for each in found["members"]] for found in said
    ]


REFUSED: dict[str, tuple[Act, type[IbkeysError], str]] = {
    "no member": (lambda it: it.add("gpu"), UsageError, "no port is given: name ports with full= or limited="),
    "a text": (lambda it: it.add("gpu", full="node05"), UsageError, r"full= is a list of texts: write \['node05'\]"),
    "no such port": (lambda it: it.add("gpu", full=["nope"], via=VIA), AddressError, "nope"),
    "no such partition": (lambda it: it.remove("gqu", ["node03"], via=VIA), UsageError, "did you mean gpu"),
    "a flag": (lambda it: it.add("gpu", mtu=4000), UsageError, "mtu=: '4000' is none of 256"),
    "another method": (lambda it: it.delete("gpu", via=ibkeys.Direct()), UsageError, r"give via=ThroughOpenSM\(\)"),
    "keeping": (
        lambda it: it.add("gpu", keeping=["node05"]),
        UsageError,
        "a port keeps its membership only with out_of=",
    ),
    "index 0": (lambda it: it.add("gpu", indx0=True, via=VIA), Refused, "index-0"),
    "a standby": (lambda it: it.rename("tank", "scratch"), Refused, "standby-differs"),
    "ipoib": (lambda it: it.add("new=0x44", full=["node05"], via=VIA), Refused, "ipoib=False says that it is meant"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_writes_nothing(name: str, scene: Scene) -> None:
    act, kind, words = REFUSED[name]
    before = left(scene)
    with opened(scene) as fabric, pytest.raises(kind, match=words):
        act(fabric.partitions)
    assert left(scene) == before


def test_removals_in_other_partitions_need_their_permission(scene: Scene) -> None:
    stranger = scene.world.net.port("node05 mlx4_0", 1)
    stranger.p_keys = [*stranger.p_keys[:3], 0x8055]
    consent = ibkeys.Consent(overrides=frozenset({"drift"}))
    with opened(scene) as fabric:
        with pytest.raises(Refused, match="allow_removals=True permits it"):
            fabric.partitions.add("gpu", full=["node02"], via=VIA, consent=consent)
        assert fabric.partitions.add("gpu", full=["node02"], via=VIA, consent=consent, allow_removals=True).changed


def test_a_consenting_function_is_asked_about_index_0(scene: Scene) -> None:
    asked: list[str] = []

    def consent(proposal: ibkeys.Proposal) -> ibkeys.Consent:
        asked.extend(each.interlock for each in proposal.objections)
        return ibkeys.Consent(overrides=frozenset(each.interlock for each in proposal.objections))

    with opened(scene) as fabric:
        assert fabric.partitions.add("gpu", indx0=True, via=VIA, consent=consent, allow_break=True).proven
    assert asked[0] == "index-0"

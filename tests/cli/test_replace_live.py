"""replace on the policy in force: the policy, other files and the key store change together, and go back together."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ibkeys.keys.mkey import MKey
from ibkeys.managers.files.opensm_file import OpensmFile
from ibkeys.store.keystore.keystore import KeyStore
from tests.cli.scenes import Scene, Way
from tests.fabricsim import replace_hca
from tests.recordings.recorder import Killed, Stop
from tests.recordings.world import STANDBY_HOST
from tests.sample import SOAK, in_soak

SM = f"--sm-host {STANDBY_HOST} --wait 5"
LIVE = f"--yes {SM}"
OLD, NEW, LEAF = 0x2C903000A1021, 0x2C903000A6021, 0x2C90200401000
POLICY = (
    "# of the cluster\n"
    "Default=0x7fff, ipoib : ALL=limited, SELF=full ;\n"
    "tank, ipoib : 0x2c903000a1021=full, 0x2c903000a1031 ;  # by OpenSM\n"
    "gpu=0x30, ipoib, mtu=4 :\n"
    "    0x2c903000a1021,  # node02 mlx4_0\n"
    "    0x2c903000a1041=full ;\n"
)
NAMES = '0x2c903000a1020 "second" # of rack 1\n0x2c903000a1030 "third"\n'
WAIVERS = '[[waiver]]\nrule = "PK001"\nports = ["0x2c903000a1021", "gate*"]\nreason = "x"\nexpires = 2099-01-01\n'


class Replaced(Scene):
    """A cluster where the adapter of node02 was replaced after monday.db; it has a name map and waivers."""

    def __init__(self, folder: Path, stack: ExitStack, policy: str = POLICY) -> None:
        super().__init__(Way("plan", opensm=""), folder, stack)
        for each in self.world.opensms:
            each.policy.write_text(policy)
        self.world.opensms[0].begin_again()
        self.names, self.waivers = folder / "names", folder / "waivers.toml"
        self.names.write_text(NAMES)
        self.waivers.write_text(WAIVERS)
        self.must("snapshot {dir}/monday.db")
        replace_hca(next(node for node in self.world.net.nodes if node.description == "node02 mlx4_0"))
        self.world.opensms[0].begin_again()
        self.files = f"--node-name-map {self.names} --waivers {self.waivers}"
        self.verb = f"replace node02 --baseline {{dir}}/monday.db {self.files}"

    def state(self) -> list[object]:
        """Return all that replace may change."""
        tables = {(node.guid, port.number): [*port.p_keys] for node in self.world.net.nodes for port in node.ports}
        files = [each.policy.read_bytes() for each in self.world.opensms]
        return [tables, files, self.names.read_text(), self.waivers.read_text()]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Replaced]:
    with ExitStack() as stack:
        yield Replaced(tmp_path, stack)


def edited(text: str) -> str:
    return text.replace("0x2c903000a102", "0x2c903000a602")


def p_keys(scene: Replaced, name: str = "node02 mlx4_0") -> set[int]:
    return {key for key in scene.world.net.port(name, 1).p_keys if key}


def test_everything_names_the_new_adapter_and_undo_brings_back_every_byte(scene: Replaced) -> None:
    before = scene.state()
    assert p_keys(scene) == {0x7FFF}
    assert scene.type(f"{scene.verb} {LIVE}") == 0, scene.err
    assert p_keys(scene) == {0x7FFF, 0x8001, 0x0030}
    after = scene.state()
    assert after[1:] == [[edited(POLICY).encode()] * 2, edited(NAMES), edited(WAIVERS)]
    assert '+0x2c903000a6020 "second" # of rack 1\n' in scene.out
    [operation] = scene.operations()
    assert (operation["command"], operation["state"], operation["options"][0]) == ("replace", "done", "node02")
    scene.must(f"undo 1 --override index-move {LIVE}")
    assert scene.state() == before
    scene.must(f"undo 2 --override index-move {LIVE}")
    assert scene.state() == after


def test_a_dry_run_shows_everything_and_writes_nothing(scene: Replaced) -> None:
    before = scene.state()
    assert scene.type(f"{scene.verb} --dry-run {SM}") == 1
    for each in ("-tank, ipoib : 0x2c903000a1021=full", '+0x2c903000a6020 "second"', '+ports = ["0x2c903000a6021"'):
        assert each in scene.out
    assert scene.type(f"{scene.verb} {SM}") == 4
    assert "nothing was changed: this command asks for confirmation" in scene.err
    assert scene.state() == before
    assert scene.operations() == []


@pytest.mark.parametrize("number", [in_soak(1), 2, in_soak(3), in_soak(4), 5])
@pytest.mark.parametrize("goes", ["resume --yes --wait 5", "undo 1 --override index-move --yes --wait 5"])
def test_what_was_cut_off_goes_on_or_back_as_one(
    scene: Replaced, number: int, goes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies before each of the four files, and before the signal."""
    before, put, puts = scene.state(), OpensmFile.put, itertools.count(1)

    def put_or_die(file: OpensmFile, *args: Any) -> Any:
        if next(puts) == number:
            raise Killed
        return put(file, *args)

    with monkeypatch.context() as patch:
        patch.setattr(OpensmFile, "put", put_or_die)
        scene.type(f"{scene.verb} {LIVE}", Stop("signal", 1, "killed") if number == 5 else None)
    assert [each["state"] for each in scene.operations()] == ["open"]
    assert (scene.state()[2] == NAMES) == (number == 1)
    scene.must(goes)
    whole = [[edited(POLICY).encode()] * 2, edited(NAMES), edited(WAIVERS)]
    assert scene.state()[1:] == (whole if goes.startswith("resume") else before[1:])
    assert p_keys(scene) == ({0x7FFF, 0x8001, 0x0030} if goes.startswith("resume") else {0x7FFF})


def test_without_a_confirmation_all_of_it_goes_back(scene: Replaced) -> None:
    before = scene.state()
    scene.type(f"{scene.verb} {LIVE} --confirm-within 5")
    assert scene.state() == before


def test_a_policy_that_names_nothing_leaves_the_files(tmp_path: Path) -> None:
    with ExitStack() as stack:
        scene = Replaced(tmp_path, stack, "Default=0x7fff : ALL=full ;\n")
        before = scene.state()
        assert scene.type(f"{scene.verb} {LIVE}") == 0, scene.err
        assert "does not name 0x0002c903000a1021, so nothing is taken over from there" in scene.err
        assert scene.state() == [*before[:2], edited(NAMES), edited(WAIVERS)]
        scene.must(f"undo 1 {LIVE}")
        assert scene.state() == before


def test_a_file_that_somebody_changed_is_left_and_so_is_everything(scene: Replaced) -> None:
    assert scene.type(f"{scene.verb} {LIVE}") == 0
    scene.names.write_text(edited(NAMES) + '0x5 "five"\n')
    after = scene.state()
    assert scene.type(f"undo 1 --override index-move {LIVE}") == 4
    assert "names: has been changed since that operation wrote it" in scene.err
    assert scene.state() == after


def places(scene: Replaced) -> list[object]:
    with KeyStore(scene.folder / "keys.db", create=False) as store:
        return [store.links(), store.link_rows(sorted(store.links())), store.settled()]


def test_the_key_store_knows_the_new_port_at_the_place_and_no_key_goes_over(scene: Replaced) -> None:
    with KeyStore(scene.folder / "keys.db") as store:
        store.put_imported(OLD, MKey(0x1234), node_guid=OLD - 1, port=1)
        store.put_links([(LEAF, 2, OLD, 1)], link_downed={(LEAF, 2): 7})
        keys = store.all_keys()
    before = places(scene)
    assert scene.type(f"{scene.verb} {LIVE}") == 0, scene.err
    assert "key store: behind 0x0002c90200401000 port 2 is 0x0002c903000a6021 in place of" in scene.err
    links, _, settled = places(scene)
    assert (links, settled) == ({(LEAF, 2): (NEW, 1), (NEW, 1): (LEAF, 2)}, {OLD})
    with KeyStore(scene.folder / "keys.db") as store:
        assert store.all_keys() == keys
    scene.must(f"undo 1 --override index-move {LIVE}")
    assert places(scene) == before


VERBS = [
    "partition-add lustre=0x21 --full node05 --limited node0[3-4] --ipoib",
    "partition-add gpu --full node05",
    "partition-remove gpu node04",
    "partition-delete tank",
    "partition-rename gpu cuda",
    "replace",
]


@settings(max_examples=30 if SOAK else 2, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(VERBS), min_size=1, max_size=4, unique=True).filter(lambda verbs: "replace" in verbs))
def test_any_verbs_and_their_undos_leave_the_bytes(verbs: list[str]) -> None:
    with TemporaryDirectory() as folder, ExitStack() as stack:
        scene = Replaced(Path(folder), stack)
        states, numbers = [], []
        for verb in verbs:
            words, before = scene.verb if verb == "replace" else verb, scene.state()
            if scene.type(f"{words} {LIVE}") == 0 and len(scene.operations()) > len(numbers):
                states.append(before)
                numbers.append(len(scene.operations()))
        for number, state in zip(reversed(numbers), reversed(states), strict=True):
            scene.must(f"undo {number} --override index-move {LIVE}")
            assert scene.state() == state


def test_json_has_the_document_of_an_apply(scene: Replaced) -> None:
    assert scene.type(f"{scene.verb} {LIVE} -f json") == 0
    assert json.loads(scene.out)["schema"] == "ibkeys.apply/1"

"""Journals, key stores and open runs that an earlier version left open, resume, go back and undo; on the wire too.

The scenes are in ``tests/data/stores/VERSION``, made by `tests.store.make_stores` with that version.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

from ibkeys.sim.nodes import SimPort
from ibkeys.sim.state.file import StateFile
from ibkeys.sim.subnet import Subnet
from ibkeys.store.journal import Journal
from tests.cli.conftest import Result, run
from tests.corpus import DATA
from tests.sample import in_soak
from tests.store.make_stores import PASSPHRASE, put_on_wire, wire_of

VERSIONS = sorted(path for path in (DATA / "stores").iterdir() if path.is_dir())
A, B = "0x0002c90200401000", "0x0002c90200401040"
Wire = dict[tuple[str, int], dict[str, Any]]


class Scene:
    """A copy of one folder's files, and the fabric that they belong to."""

    def __init__(self, folder: Path, work: Path) -> None:
        self.folder = folder
        self.state = work / "fabric"
        for name, suffix in (("journal.db", ".journal"), ("keys.db", ".keys")):
            if (folder / name).exists():
                copy = self.state.with_name(self.state.name + suffix)
                copy.touch(0o600)
                shutil.copyfile(folder / name, copy)
        document = json.loads((folder / "wire.json").read_text())
        self.net = DATA / "fabrics" / f"{document['net']}.net"
        subnet = Subnet.from_file(self.net)
        by_place = {place(port): port for port in ports(subnet)}
        for record in document["ports"]:
            put_on_wire(by_place[record["node_guid"], record["port"]], record)
        assert [wire_of(by_place[each["node_guid"], each["port"]]) for each in document["ports"]] == document["ports"]
        StateFile(self.state, subnet).close()
        self.secret = work / "passphrase"
        self.secret.touch(0o600)
        self.secret.write_text(PASSPHRASE)

    def __call__(self, *args: object) -> Result:
        sealed = [f"--keystore-passphrase=@{self.secret}"] if self.folder.name.endswith("encrypted") else []
        return run(*args, *sealed, "--backend", f"sim:{self.net},state={self.state}")

    def done(self, *args: object) -> Result:
        result = self(*args)
        assert result.code == 0, result.err
        return result

    def wire(self) -> Wire:
        subnet = Subnet.from_file(self.net)
        StateFile(self.state, subnet).close()
        return {place(port): wire_of(port) for port in ports(subnet)}

    def tables(self) -> dict[tuple[str, int], dict[str, str]]:
        """The P_Key tables other than that of power-up."""
        return {at: record["p_keys"] for at, record in self.wire().items() if record["p_keys"] != {"0": "0xffff"}}

    def enforcing(self) -> dict[tuple[str, int], list[int]]:
        return {at: record["enforcement"] for at, record in self.wire().items() if any(record["enforcement"])}

    def journal(self) -> list[tuple[int, str, str]]:
        operations = self("journal", "-f", "json").json["operations"]
        return [(each["id"], each["command"], each["state"]) for each in operations]


def ports(subnet: Subnet) -> list[SimPort]:
    return [port for node in subnet.nodes for port in node.all_ports if port.number == 0 or port.peer is not None]


def place(port: SimPort) -> tuple[str, int]:
    return f"0x{port.node.guid:016x}", port.number


@pytest.fixture(params=VERSIONS, ids=lambda path: path.name)
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [*os.environ]:
        if name.startswith("IBKEYS_") or name == "SIM_HOST":
            monkeypatch.delenv(name)
    found: Path = request.param
    return found


def host(number: int) -> tuple[str, int]:
    return f"0x0002c903000a10{number}0", 1


def leaf(number: int) -> tuple[str, int]:
    return (A, number) if number <= 3 else (B, number - 3)


PLANNED = {
    **{at: {"0": "0xffff", "1": "0x8010"} for number in (2, 3) for at in (host(number), leaf(number))},
    **{at: {"0": "0xffff", "1": "0x0010"} for at in (host(4), leaf(4))},
    **{at: {"0": "0xffff", "1": "0x8011"} for number in (5, 6) for at in (host(number), leaf(number))},
}
"""What the policy of `make_stores` makes of a fabric that has only default P_Keys."""
ENFORCED = {leaf(number): [1, 1] for number in range(1, 7)}
_PATCHED = [("pkey-add", "done"), ("enforce-set", "done")]
FORMER = {
    "70c34ae": [("pkey-set", "undone"), *_PATCHED],  # an undo was no operation of its own
    "3eed0cee": [("pkey-set", "undone"), ("undo", "done"), *_PATCHED],
}
"""What was done before the apply that was cut off, by version."""


def numbered(*operations: tuple[str, str]) -> list[tuple[int, str, str]]:
    return [(number, *each) for number, each in enumerate(operations, 1)]


# --- the journal -----------------------------------------------------------------------------------------------------


def test_a_journal_is_read_and_stays_as_it_is(version: Path, tmp_path: Path) -> None:
    scene = Scene(version / "apply-cut-off", tmp_path)
    journal = tmp_path / "fabric.journal"
    before = journal.read_bytes()
    assert scene.journal() == numbered(*FORMER[version.name], ("apply", "open"))
    assert "pkey[3]: - -> 0x8010" in scene.done("journal", 1).out
    if version.name == "70c34ae":
        told = scene.done("journal", "-f", "json").json["operations"][1]
        names = ("user", "host", "overrides", "options", "undoes", "starts")
        assert [told[name] for name in names] == [None] * 5 + [[]]
    assert scene("resume", "--dry-run").code == 1
    assert scene("undo", "--dry-run").code == 1
    assert journal.read_bytes() == before


def test_a_journal_that_may_not_be_written_is_read(version: Path) -> None:
    nobody = 65534
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "journal.db"
        shutil.copyfile(version / "apply-cut-off" / "journal.db", journal)
        journal.chmod(0o400)
        if os.geteuid() == 0:
            for path in (journal, journal.parent):
                os.chown(path, nobody, nobody)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                if os.geteuid() == 0:
                    os.setuid(nobody)
                assert not os.access(journal, os.W_OK)
                with Journal.read(journal) as read:
                    code = 0 if len(read.list_operations()) == len(FORMER[version.name]) + 1 else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_an_apply_that_was_killed_is_finished(version: Path, tmp_path: Path) -> None:
    scene = Scene(version / "apply-cut-off", tmp_path)
    scene.done("resume", "--yes")
    at_index_2 = {host(3): {"0": "0xffff", "2": "0x8010"}}  # 0x8020 was at index 1
    assert scene.tables() == PLANNED | at_index_2
    assert scene.enforcing() == ENFORCED
    assert scene.journal() == numbered(*FORMER[version.name], ("apply", "done"))


def test_an_apply_that_was_killed_is_undone_and_all_before_it(version: Path, tmp_path: Path) -> None:
    scene = Scene(version / "apply-cut-off", tmp_path)
    scene.done("undo", "--yes")
    assert scene.tables() == {host(3): {"0": "0xffff", "1": "0x8020"}}
    assert scene.enforcing() == {leaf(2): [1, 0]}
    former = FORMER[version.name]
    assert scene.journal() == numbered(*former, ("apply", "undone"), ("undo", "done"))
    scene.done("undo", len(former), "--yes")
    scene.done("undo", len(former) - 1, "--yes")
    assert (scene.tables(), scene.enforcing()) == ({}, {})
    states = [(command == "undo", state) for _, command, state in scene.journal()]
    assert sorted(states) == [(False, "undone")] * 4 + [(True, "done")] * len(former)


def test_an_apply_that_stopped_after_its_first_switches(version: Path, tmp_path: Path) -> None:
    scene = Scene(version / "apply-first", tmp_path)
    assert scene.journal() == [(1, "apply", "open")]
    scene.done("resume", "--yes")
    assert (scene.tables(), scene.enforcing()) == (PLANNED, ENFORCED)
    scene.done("undo", 1, "--yes")
    assert (scene.tables(), scene.enforcing()) == ({}, {})


@pytest.mark.parametrize("command", [["undo", 1], ["resume"]], ids=["undo", "resume"])
def test_an_undo_that_was_killed(version: Path, tmp_path: Path, command: list[object]) -> None:
    scene = Scene(version / "undo-cut-off", tmp_path)
    scene.done(*command, "--yes")
    if version.name == "70c34ae" and command == ["resume"]:  # that version noted nowhere that it was going back
        assert (scene.tables(), scene.enforcing()) == (PLANNED, ENFORCED)
        assert scene.journal()[0] == (1, "apply", "done")
    else:
        assert (scene.tables(), scene.enforcing()) == ({}, {})
        assert scene.journal()[0] == (1, "apply", "undone")


@pytest.mark.parametrize("file", ["apply-cut-off/plan.json", "undo-cut-off/next.json"])
def test_a_plan_without_a_digest_is_to_be_made_again(version: Path, tmp_path: Path, file: str) -> None:
    scene = Scene((version / file).parent, tmp_path)
    wire = scene.wire()
    result = scene("apply", version / file, "--allow-removals", "--yes")
    if version.name == "70c34ae":
        assert result.code == 2
        assert result.error.endswith("plan again")
    else:
        assert (result.code, "open-operation" in result.err) == (4, True)  # a plan with one is one
    assert scene.wire() == wire


# --- the key store ---------------------------------------------------------------------------------------------------


def end_ports(wire: Wire) -> Wire:
    return {at: record for at, record in wire.items() if record["m_key"] is not None}


def own_keys(scene: Scene) -> dict[str, str]:
    """The M_Key of each end port on the wire, by NodeGUID; every one of them is in the store."""
    found = {node: record["m_key"] for (node, _), record in end_ports(scene.wire()).items()}
    rows = scene.done("keystore", "list", "-K", "-f", "json").json["keys"]
    known = {(each["node_guid"], each["m_key"]) for each in rows}
    assert {(node, key) for node, key in found.items() if int(key, 16)} <= known
    return found


def levels(scene: Scene) -> set[tuple[int, int]]:
    return {(each["m_key_protect_bits"], each["m_key_lease_period"]) for each in end_ports(scene.wire()).values()}


def test_a_deployment_that_waits_after_its_first_ports(version: Path, tmp_path: Path) -> None:
    scene = Scene(version / "deploy-first", tmp_path)
    before = {node: key for node, key in own_keys(scene).items() if int(key, 16)}
    assert len(before) == 3
    scene.done("resume", "--yes")
    after = own_keys(scene)
    assert len({*after.values()}) == 8
    assert levels(scene) == {(2, 60)}
    assert before.items() <= after.items()


def test_a_deployment_that_waits_goes_back(version: Path, tmp_path: Path) -> None:
    scene = Scene(version / "deploy-first", tmp_path)
    scene.done("undo", "--yes")
    assert {*own_keys(scene).values()} == {f"0x{0:016x}"}
    assert levels(scene) == {(0, 0)}


@pytest.mark.parametrize("name", ["rotate-cut-off", "rotate-cut-off-encrypted"])
def test_a_rotation_that_was_killed_is_finished(version: Path, tmp_path: Path, name: str) -> None:
    scene = Scene(version / name, tmp_path)
    before = own_keys(scene)
    assert levels(scene) == {(2, 60), (3, 90)}
    scene.done("resume", "--yes")
    after = own_keys(scene)
    assert len({*before.values(), *after.values()}) > 8
    assert levels(scene) == {(3, 90)}
    scene.done("mkey-show", "--all")


@pytest.mark.parametrize("name", ["rotate-cut-off", in_soak("rotate-cut-off-encrypted")])
def test_a_rotation_that_was_killed_goes_back(version: Path, tmp_path: Path, name: str) -> None:
    scene = Scene(version / name, tmp_path)
    scene.done("undo", "--yes")
    assert levels(scene) == {(2, 60)}
    rows = scene.done("keystore", "list", "-K", "-f", "json").json["keys"]
    current = {each["node_guid"]: each["m_key"] for each in rows if each["state"] == "current"}
    assert own_keys(scene) == current


# --- what was finished -----------------------------------------------------------------------------------------------


def test_finished_operations_are_shown_and_need_nothing(version: Path, tmp_path: Path) -> None:
    scene = Scene(version / "finished", tmp_path)
    assert scene.journal() == numbered(("apply", "done"), ("mkey-deploy", "done"), ("mkey-rotate", "done"))
    assert scene("resume", "--yes").code != 0
    assert levels(scene) == {(3, 90)}
    scene.done("mkey-show", "--all")


def test_a_finished_rotation_is_undone_and_then_the_apply(version: Path, tmp_path: Path) -> None:
    scene = Scene(version / "finished", tmp_path)
    scene.done("undo", 3, "--yes")
    assert levels(scene) == {(2, 60)}
    rows = scene.done("keystore", "list", "-K", "-f", "json").json["keys"]
    assert own_keys(scene) == {each["node_guid"]: each["m_key"] for each in rows if each["state"] == "current"}
    scene.done("undo", 1, "--yes")
    assert (scene.tables(), scene.enforcing()) == ({}, {})
    assert scene.journal()[:3] == numbered(("apply", "undone"), ("mkey-deploy", "done"), ("mkey-rotate", "undone"))

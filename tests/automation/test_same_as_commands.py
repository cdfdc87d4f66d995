"""What a script does is what the command does: on two subnets alike the same is set, in the same order, and kept in the
journal; and what the command refuses is refused to the script by the same interlock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import ibkeys
from ibkeys.errors import IbkeysError
from ibkeys.store.journal import Journal
from tests.cli.conftest import run
from tests.corpus import DATA

NET = DATA / "fabrics" / "two-switch.net"
POLICY = "Default=0x7fff, ipoib : ALL=full ;\ntenant=0x10 : ALL=full ;\n"
KEY = 0x9C4E21D7B05A63F8
YES = ("--yes",)
Step = tuple[tuple[object, ...], Callable[[ibkeys.Fabric, Path], object]]


def numbered(fabric: ibkeys.Fabric, number: int) -> ibkeys.Operation:
    return next(each for each in fabric.operations() if each.id == number)


APPLY: Step = (
    ("apply", "plan.json", *YES),
    lambda fabric, folder: fabric.apply(folder / "plan.json"),
)
FIRST: Step = (
    ("apply", "plan.json", "--first", 1, *YES),
    lambda fabric, folder: fabric.apply(folder / "plan.json", first=1),
)
RESUME: Step = (("resume", *YES), lambda fabric, folder: fabric.operations(open_only=True)[0].resume(fabric))
UNDO: Step = (("undo", 1, *YES), lambda fabric, folder: numbered(fabric, 1).undo(fabric))
DEPLOY: Step = (
    ("mkey-deploy", "--same", "--new-m-key", "@key", "--protect", 1, "--lease", 60, *YES),
    lambda fabric, folder: fabric.deploy_m_keys(same=True, new_key=ibkeys.MKey(KEY), protect=1, lease=60),
)
HELD: Step = (
    ("mkey-rotate", "--same", "--new-m-key", "@next", "--first", 3, *YES),
    lambda fabric, folder: fabric.rotate_m_keys(same=True, new_key=ibkeys.MKey(KEY + 0x1234567), first=3),
)
REMOVE: Step = (("mkey-remove", "--leave-open", *YES), lambda fabric, folder: fabric.remove_m_keys(leave_open=True))
LAST: Step = (("undo", 2, *YES), lambda fabric, folder: numbered(fabric, 2).undo(fabric))
WAYS: dict[str, list[Step]] = {
    "apply and undo": [APPLY, UNDO],
    "apply in two parts, twice": [FIRST, RESUME, APPLY],
    "apply, undo, undo again": [APPLY, UNDO, UNDO],
    "keys in two parts": [DEPLOY, HELD, RESUME],
    "keys and back": [DEPLOY, HELD, LAST],
    "keys removed": [DEPLOY, REMOVE],
    "finished before it began": [RESUME],
    "undone before it began": [UNDO],
    "an open operation": [FIRST, APPLY],
    "an open run": [DEPLOY, HELD, HELD],
}


@dataclass
class Place:
    """A subnet of its own in a folder of its own, with its stores and a plan."""

    folder: Path
    options: str = ""

    def __post_init__(self) -> None:
        self.folder.mkdir()
        (self.folder / "policy").write_text(POLICY)
        for name, key in (("key", KEY), ("next", KEY + 0x1234567)):
            (self.folder / name).write_text(f"{key:#x}\n")
            (self.folder / name).chmod(0o600)
        with ibkeys.open(self.backend) as fabric:
            ibkeys.write_plan(fabric.plan(self.folder / "policy"), self.folder / "plan.json")

    @property
    def backend(self) -> str:
        return f"sim:{NET},state={self.folder / 'state'}{self.options}"

    def left(self) -> tuple[Any, ...]:
        """Return what the ports have, and what the journal keeps of each operation."""
        with ibkeys.open(self.backend) as fabric:
            found = fabric.sweep(p_keys=True)
        wire = [(port.identity(), port.p_keys, port.m_key, port.m_key_state) for port in found.ports()]
        with Journal.read(self.folder / "state.journal") as journal:
            kept = [
                (
                    *(each.command, each.state, each.stage, each.undoes, each.waiting),
                    [
                        (entry.image.node_guid, entry.image.port, entry.image.after)
                        for entry in journal.entries(each.id)
                    ],
                    [start.origin.overrides for start in each.starts],
                )
                for each in journal.list_operations()
            ]
        return wire, kept


def by_command(place: Place, words: tuple[object, ...], monkeypatch: pytest.MonkeyPatch) -> bool:
    """Run a command; return whether it was done, as far as it went."""
    monkeypatch.chdir(place.folder)
    return run(*words, "--backend", place.backend).code == 0


def by_script(place: Place, act: Callable[[ibkeys.Fabric, Path], object]) -> bool:
    try:
        with ibkeys.open(place.backend) as fabric:
            act(fabric, place.folder)
    except (IbkeysError, IndexError, StopIteration):
        return False
    return True


@pytest.mark.parametrize("way", WAYS)
def test_the_same_is_left(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = Place(tmp_path / "command"), Place(tmp_path / "script")
    for words, act in WAYS[way]:
        assert by_command(one, words, monkeypatch) == by_script(other, act), words
        assert one.left() == other.left(), words


@pytest.mark.parametrize(("step", "interlock"), [(APPLY, "active-sm"), (DEPLOY, "mkey-under-sm")])
def test_the_same_interlock_refuses(
    step: Step, interlock: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, act = step
    one, other = (Place(tmp_path / name, ",sm=node01 mlx4_0") for name in ("command", "script"))
    monkeypatch.chdir(one.folder)
    refused = run(*words, "--backend", one.backend)
    assert (refused.code, f"interlock {interlock}" in refused.err) == (4, True)
    with ibkeys.open(other.backend) as fabric, pytest.raises(ibkeys.errors.Refused) as error:
        act(fabric, other.folder)
    assert error.value.interlock == interlock
    assert one.left() == other.left()

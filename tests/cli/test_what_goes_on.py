"""The tables of ibkeys-journal(1): what each command does with an operation of each kind, however it was left."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.cli.scenes import OF_OPENSM, OF_OWN_SETS, STATES, WAYS, Scene
from tests.recordings.recorder import Stop
from tests.sample import one_in

PAGE = Path(__file__).parents[2] / "man" / "ibkeys-journal.1"
ENDS = {
    "finishes": "done",
    "does rest": "done",
    "keeps it": "done",
    "raises it": "done",
    "undoes": "undone",
    "gives up": "undone",
    "ends undo": "undone",
}
"""The state in the journal after what the man page says."""
LETTERS = {"ibkeys resume": "r", "ibkeys undo": "u", "ibkeys confirm": "c"}
Row = tuple[str, str, str, list[str]]
"""Kind, way, state, and the cells: of resume, undo, confirm, journal and doctor."""


def tables() -> Iterator[tuple[str, list[list[str]]]]:
    """Return the kind of each table of the man page, and its rows."""
    text = PAGE.read_text().replace("\\-", "-")
    section = text.partition(".SH WHAT GOES ON\n")[2].partition("\n.SH ")[0]
    for kind, table in re.findall(r"^\.SS .*?(\S+)\n\.TS\n(.*?)^\.TE", section, re.MULTILINE | re.DOTALL):
        yield kind.strip("()"), [row.split("@") for row in table.partition("_\n")[2].strip().splitlines()]


def is_made(kind: str, way: str, state: str) -> bool:
    """Whether an operation that is made in this way can be left so."""
    if way == "enforcement" and state == "overtaken":
        return False  # the two values of a bit are the former and the wanted one
    of_opensm = (*OF_OPENSM, "unconfirmed") if kind == "M_Keys" else OF_OPENSM
    return state not in (OF_OWN_SETS if way == "opensm" else of_opensm)


def rows() -> Iterator[Row]:
    """Return each row for each way."""
    for kind, table in tables():
        for state, *cells in table:
            yield from ((kind, way, state, cells) for way in WAYS[kind] if is_made(kind, way, state))


ROWS = [pytest.param(*row, id="-".join(row[:3])) for row in rows()]


def test_each_kind_and_each_state_is_in_the_tables() -> None:
    found = dict(tables())
    assert found.keys() == WAYS.keys()
    assert {state for table in found.values() for state, *_ in table} == STATES.keys()


class Folder:
    """Where scenes are made, each in a folder of its own."""

    def __init__(self, path: Path) -> None:
        self._path, self._number = path, count()

    @contextmanager
    def scene(self, kind: str, way: str, state: str = "") -> Iterator[Scene]:
        """Make a scene, and leave its operation in a state."""
        (folder := self._path / str(next(self._number))).mkdir(mode=0o700)
        with ExitStack() as stack:
            scene = Scene(WAYS[kind][way], folder, stack)
            if state:
                STATES[state](scene)
            yield scene


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def check(scene: Scene, command: str, cell: str) -> bool:
    """Type a command, and look whether it does what the page says; return whether it has changed the journal."""
    code, words = cell.split(" ", 1)
    before = scene.operations()
    assert scene.go(command) == int(code), scene.err
    after = scene.operations()
    [state] = [each["state"] for each in after if each["id"] == scene.operation] or [None]
    if words in ENDS:
        assert state == ENDS[words]
    elif words == "host gone":
        assert state == "open"
    else:
        assert after == before, "what does not go on or back leaves the record as it is"
        assert int(code) or words == "confirmed"
    return after != before


def named_by_journal(scene: Scene) -> str:
    """Return which commands `ibkeys journal` names for the operation or its undo, by their letters."""
    its_own = [each for each in scene.operations() if scene.operation in (each["id"], each["undoes"])]
    named = [each[name] for each in its_own for name in ("finish_with", "roll_back_with") if each[name]]
    return " ".join(sorted({LETTERS[each.rsplit(" ", 1)[0]] for each in named})) or "-"


def said_by_doctor(scene: Scene) -> set[str]:
    """Return how `ibkeys doctor` names the operation."""
    found = [each["ok"] for each in scene.checks() if each["name"] in ("operation", "M_Key run")]
    return {"problem", "*"} if False in found else {"note", "*"} if found else {"-"}


@pytest.mark.parametrize(("kind", "way", "state", "cells"), one_in(4, ROWS))
def test_they_do_what_the_page_says(folder: Folder, kind: str, way: str, state: str, cells: list[str]) -> None:
    resume, undo, confirm, journal, doctor = cells
    with folder.scene(kind, way, state) as scene:
        assert named_by_journal(scene) == journal
        assert doctor in said_by_doctor(scene)
        is_changed = check(scene, "confirm", confirm)
        if not is_changed:
            check(scene, "resume", resume)
    if is_changed:
        with folder.scene(kind, way, state) as scene:
            check(scene, "resume", resume)
    with folder.scene(kind, way, state) as scene:
        check(scene, "undo", undo)


@pytest.mark.soak
@pytest.mark.parametrize("how", ["killed", "interrupted"])
@pytest.mark.parametrize(("kind", "way", "state", "cells"), [row for row in ROWS if row.values[2] == "interrupted"])
def test_they_do_so_wherever_it_was_interrupted(
    folder: Folder, kind: str, way: str, state: str, cells: list[str], how: Any
) -> None:
    for what in ("signal", "sleep") if way == "opensm" else ("set",):
        for number in count(1):
            with folder.scene(kind, way) as scene:
                scene.interrupt(Stop(what, number, how))
                if not scene.came:
                    break
                is_open = any(each["id"] == scene.operation and each["state"] == "open" for each in scene.operations())
                if is_open:
                    check(scene, "resume", cells[0])
            with folder.scene(kind, way) as scene:
                scene.interrupt(Stop(what, number, how))
                if is_open:
                    check(scene, "undo", cells[1])

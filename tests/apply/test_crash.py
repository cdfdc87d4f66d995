"""A crash at any Set and any journal write: resume gives the planned state, undo the former one, byte for byte."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from ibkeys.apply.apply import plan_resume
from ibkeys.apply.undo import plan_undo
from ibkeys.sim.state.document import load_state
from ibkeys.store.journal import Journal
from ibkeys.store.paths import StorePaths
from tests.apply.crash_driver import OVERRIDES, prepared
from tests.apply.lab import Lab
from tests.fabricsim import tool, writer
from tests.sample import SOAK

ROOT = Path(__file__).parents[2]
DRIVER = Path(__file__).with_name("crash_driver.py")
STRIDE = 1 if SOAK else 11


def crash_points(kind: str, directory: Path) -> list[Path]:
    """Let the driver crash at every step, or every few; return the directories it left, that of a whole run last."""
    command = [sys.executable, str(DRIVER), kind, str(directory), str(STRIDE)]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
    last = int((directory / "end").read_text())
    return [directory / str(number) for number in range(0, last + 1, STRIDE)]


def former() -> dict[str, tuple[bytes, int]]:
    return prepared()[0].image()


def planned() -> dict[str, tuple[bytes, int]]:
    """What the plan says, set without SMPs."""
    lab, plan = prepared()
    by_key = {(port.node.guid, port.number): port for port in lab.ports}
    for table in plan.tables:
        port = by_key[table.port.key]
        port.p_keys = [table.after.get(index, 0) for index in range(port.p_key_capacity)]
    for change in plan.enforcement:
        port = by_key[change.port.key]
        port.inbound_enforcement, port.outbound_enforcement = change.after.inbound, change.after.outbound
    return lab.image()


def found(place: Path) -> Lab:
    lab = prepared()[0]
    load_state(lab.net, json.loads((place / "fabric").read_text()))
    return lab


def run(lab: Lab, journal: Path, make: Any) -> None:
    with tool(lab.net) as fabric:
        fabric.stores = StorePaths(None, journal)
        with writer(fabric, *OVERRIDES) as w:
            w.apply(make(w))


def states(journal: Path) -> list[str]:
    with Journal(journal, create=False) as stored:
        assert stored.database.query("PRAGMA integrity_check") == [("ok",)]
        return [record.state for record in stored.list_operations()]


def test_after_a_crash_of_apply_resume_finishes_and_undo_goes_back(tmp_path: Path) -> None:
    places = crash_points("apply", tmp_path)
    assert len(places) * STRIDE > 150
    before, after = former(), planned()
    seen = set()
    for place in places:
        seen.add(str(found(place).image()))
        journal = place / "journal.db"
        if not journal.exists() or not states(journal):
            assert found(place).image() == before
            continue
        copy = place / "copy.db"
        shutil.copy(journal, copy)
        if Path(f"{journal}-journal").exists():
            shutil.copy(f"{journal}-journal", f"{copy}-journal")
        lab = found(place)
        if states(journal) == ["open"]:
            run(lab, journal, plan_resume)
        assert lab.image() == after, place
        assert states(journal) == ["done"]
        lab = found(place)
        run(lab, copy, plan_undo)
        assert lab.image() == before, place
        assert states(copy) == ["undone", "done"]
    assert len(seen) > (20 if STRIDE == 1 else 8)


def test_after_a_crash_of_undo_undo_goes_back_and_resume_finishes(tmp_path: Path) -> None:
    places = crash_points("undo", tmp_path)
    assert len(places) * STRIDE > 150
    before, after = former(), planned()
    for place in places:
        journal, lab = place / "journal.db", found(place)
        operation, *undoing = states(journal)
        assert (operation, undoing) in [("done", []), ("done", ["open"]), ("undone", ["done"])]
        if undoing == ["open"]:
            copy = place / "copy.db"
            shutil.copy(journal, copy)
            again = found(place)
            run(again, copy, plan_resume)
            assert again.image() == after, place
            assert states(copy) == ["done", "undone"]
        if operation != "undone":
            run(lab, journal, plan_undo)
        assert lab.image() == before, place
        assert states(journal) == ["undone", "done"]

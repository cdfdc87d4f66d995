"""Run by test_crash.py: an apply, or its undo, that dies at its n-th step, for every n, each time in its own directory.

A step is each SQL statement of the journal, each Set before it is sent, and each Set when it has arrived. What
the fabric holds when the process dies is kept in the file ``fabric``; ``end`` says how many steps there are.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ibkeys.apply.apply import plan_apply
from ibkeys.apply.undo import plan_undo
from ibkeys.plan.model import PartitionPlan
from ibkeys.sim.state.document import dump_state
from ibkeys.store import sqlite
from ibkeys.store.paths import StorePaths
from ibkeys.umad.port import Outgoing
from tests.apply.lab import ALL, Lab, unsynced
from tests.dying import at_each_step, crash
from tests.fabricsim import set_p_key_capacity, tool, writer
from tests.plan.plans import entries
from tests.spy import is_set, spy

OVERRIDES = ("index-0", "index-move", "default-pkey", "enforce-blind")

steps_left = -1  # negative: not counting
lab = Lab()
place = Path()


def prepared() -> tuple[Lab, PartitionPlan]:
    """A fabric and a plan with all kinds of steps: additions, removals, a key that waits at another index, a table
    without room, enforcement on and off."""
    fresh = Lab()
    for number in (4, 5):
        set_p_key_capacity(fresh.host(number).node, 2)
    fresh.put({1: entries(0xFFFF, 0x8001), 2: entries(0xFFFF, 0x8001, 0x8002), 3: entries(0xFFFF, 0x8003)}, "io")
    fresh.put({4: entries(0xFFFF, 0x8001), 5: entries(0xFFFF, 0x8001), 6: entries(0xFFFF)})
    after = {
        1: entries(0xFFFF, 0x8001, 0x8004),
        2: entries(0x7FFF, 0, 0x8002) | {40: entries(0x8005)[0]},
        3: entries(0xFFFF, 0x8002, 0x8003),
        4: entries(0xFFFF, 0x8002),
        5: entries(0xFFFF, 0x8002),
        6: entries(0x7FFF, 0x8006),
    }
    return fresh, fresh.plan(after, {1: "i", 2: "io", 3: "", 4: "io", 6: "o"})


def step(*_: object) -> None:
    global steps_left
    if steps_left == 0:
        (place / "fabric").write_text(json.dumps(dump_state(lab.net)))
        crash()
    steps_left -= 1


def crashing_send(fabric: object) -> None:
    """Let each MAD leave alone, with a step before and after each Set."""
    spy(fabric, before=step_at_a_set, after=step_at_a_set)


def step_at_a_set(out: Outgoing) -> None:
    if is_set(out):
        step()


def work(kind: str, folder: Path, steps: int) -> None:
    """Apply the plan, or undo it, and die after *steps* steps."""
    global lab, place, steps_left
    place = folder
    lab, plan = prepared()
    with tool(lab.net) as fabric:
        fabric.stores = StorePaths(None, place / "journal.db")
        crashing_send(fabric)
        steps_left = steps if kind == "apply" else -1
        with writer(fabric, *OVERRIDES) as w:
            w.apply(plan_apply(w, plan, ALL))
        steps_left = steps
        if kind == "undo":
            with writer(fabric, *OVERRIDES) as w:
                w.apply(plan_undo(w))
    steps_left = -1
    (place / "fabric").write_text(json.dumps(dump_state(lab.net)))


def crash_everywhere(kind: str, directory: Path, stride: int) -> None:
    def traced(path: Path | None, *rest: bool) -> object:
        connection = unsynced(path, *rest)
        connection.set_trace_callback(step)
        return connection

    sqlite.connect = traced  # type: ignore[assignment]
    at_each_step(directory, lambda folder, number: work(kind, folder, number), stride)


if __name__ == "__main__":
    crash_everywhere(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))

"""The committed inputs of each target, a file for each in ``tests/data/fuzz``: few, and each reaches lines of its own.

One input on each line, as JSON text whose characters are the bytes: readable where the input is.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Any

from tests.corpus import DATA
from tests.fuzz.judge import IBKEYS, Judge
from tests.fuzz.target import Target

FOLDER = DATA / "fuzz"
MOST_BYTES = 12 << 10
"""Of the file of one target."""

Arc = tuple[str, int, int]
"""A step from one line of a file to another."""


def kept(target: Target, folder: Path = FOLDER) -> list[bytes]:
    """Return the committed inputs of a target, none where there is no file."""
    path = folder / f"{target.name}.jsonl"
    if not path.exists():
        return []
    return [json.loads(line).encode("latin-1") for line in path.read_text().splitlines()]


def begin_with(target: Target) -> list[bytes]:
    """Return the inputs that others are made from: those that show what is right, and the committed ones."""
    return list(dict.fromkeys([*target.seeds(), *kept(target)]))


def keep(target: Target, inputs: Iterable[bytes], folder: Path = FOLDER) -> int:
    """Keep of *inputs* the few that together reach all lines that they reach; return their number.

    Those that `Target.seeds` makes are not written. The largest gain for each byte comes first, up to `MOST_BYTES`.
    """
    seeds = list(target.seeds())
    reached: set[Arc] = set().union(*(arcs(target, each) for each in seeds))
    waiting = {each: arcs(target, each) - reached for each in dict.fromkeys(inputs) if each not in seeds}
    chosen: list[bytes] = []
    size = 0
    while waiting:
        best = max(waiting, key=lambda each: (len(waiting[each]) / (len(each) + 64), each))
        gain = waiting.pop(best)
        if not gain:
            break
        if size + len(_line(best)) <= MOST_BYTES:
            size += len(_line(best))
            chosen.append(best)
            waiting = {each: left - gain for each, left in waiting.items()}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{target.name}.jsonl").write_text("".join(map(_line, sorted(chosen))))
    return len(chosen)


def _line(data: bytes) -> str:
    """Return the line of an input."""
    return f"{json.dumps(data.decode('latin-1'))}\n"


def arcs(target: Target, data: bytes) -> set[Arc]:
    """Return the steps between lines of ibkeys that one input makes."""
    found: set[Arc] = set()
    last: dict[FrameType, int] = {}

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        name = frame.f_code.co_filename
        if not name.startswith(IBKEYS):
            return None
        found.add((name, last.get(frame, 0), frame.f_lineno))
        last[frame] = frame.f_lineno
        if event == "return":
            last.pop(frame, None)
        return trace

    former = sys.gettrace()
    with Judge(target) as judge:
        judge.finding(data)  # what is made once is not a part of it
        sys.settrace(trace)
        try:
            judge.finding(data)
        finally:
            sys.settrace(former)
    return found

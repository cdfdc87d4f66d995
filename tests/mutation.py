"""Counts the mutants that the tests notice: one place of the code is changed, and the tests that enter it run.

``make mutants`` does both parts. The first runs the tests once, and writes down which functions each of them enters.
The second draws mutants by seed, and for each runs at most 60 of the tests that enter the changed function: those that
enter the fewest functions. The files of the folder in which it runs are changed and put back: use a clone.
"""

from __future__ import annotations

import ast
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

import pytest

ROOMS: Final = (
    "apply",
    "automation",
    "change",
    "classkeys",
    "client",
    "harden",
    "managers",
    "mkeys",
    "smkeys",
    "store",
    "umad",
)
"""The packages that send or write."""
REACHED: Final = Path("build/reached")
TESTS: Final = 60
SLOW: Final = 3.0
"""A test that takes more seconds is not run."""
MOST: Final = 300
"""A mutant may loop for ever: its tests end after this many seconds, and it is noticed."""
OPPOSITES: Final[dict[type[ast.AST], type[Any]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_NOT_CHANGED: Final = ("annotation", "returns", "decorator_list", "exc", "args")
"""Fields of syntax without mutants: annotations, messages of errors, defaults of parameters."""


class Site(NamedTuple):
    """A place to change: lines and columns as in `ast`, the line of the function around it, and the new text."""

    file: str
    function: int
    begin: tuple[int, int]
    end: tuple[int, int]
    text: str


def changed(node: ast.AST) -> ast.AST | None:
    """Return *node* changed; None where nothing is to be changed."""
    match node:
        case ast.Compare(left, [op], [right]) if type(op) in OPPOSITES:
            return ast.Compare(left, [OPPOSITES[type(op)]()], [right])
        case ast.BoolOp(op, values):
            return ast.BoolOp(OPPOSITES[type(op)](), values)
        case ast.BinOp(left, op, right) if type(op) in OPPOSITES:
            return ast.BinOp(left, OPPOSITES[type(op)](), right)
        case ast.UnaryOp(ast.Not(), operand):
            return operand
        case ast.Constant(bool() as value):
            return ast.Constant(not value)
        case ast.Constant(int() as value):
            return ast.Constant(value + 1)
        case ast.Expr(ast.Call()):
            return ast.Pass()
        case ast.Return(ast.AST()):
            return ast.Return(ast.Constant(None))
    return None


def sites(file: Path) -> Iterator[Site]:
    """Yield the places in the functions of *file*."""

    def within(node: ast.AST, function: int) -> Iterator[Site]:
        for name, value in ast.iter_fields(node):
            if name in _NOT_CHANGED and not isinstance(node, ast.Call):
                continue
            for each in value if isinstance(value, list) else [value]:
                if not isinstance(each, ast.AST):
                    continue
                inside = function
                if isinstance(each, ast.FunctionDef):
                    inside = min([each.lineno, *(one.lineno for one in each.decorator_list)])
                new = changed(each) if function else None
                if new is not None:
                    text = ast.unparse(ast.fix_missing_locations(new))
                    begin, end = (each.lineno, each.col_offset), (each.end_lineno, each.end_col_offset)
                    yield Site(str(file), function, begin, end, f"({text})" if isinstance(new, ast.expr) else text)
                yield from within(each, inside)

    yield from within(ast.parse(file.read_text()), 0)


def applied(site: Site, source: str) -> str:
    """Return *source* with the change of *site*."""
    lines = source.encode().split(b"\n")
    (first, column), (last, end) = site.begin, site.end
    line = lines[first - 1][:column] + site.text.encode() + lines[last - 1][end:]
    return b"\n".join([*lines[: first - 1], line, *lines[last:]]).decode()


class Reach:
    """A plugin of pytest that writes down which functions of `ROOMS` each test that passes enters."""

    def __init__(self) -> None:
        self.entered: dict[int, CodeType] = {}
        self.seconds: Counter[str] = Counter()
        self.failed: set[str] = set()
        REACHED.mkdir(parents=True, exist_ok=True)

    def trace(self, frame: FrameType, event: str, arg: object) -> None:
        self.entered[id(frame.f_code)] = frame.f_code

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.entered.clear()
        threading.settrace(self.trace)
        sys.settrace(self.trace)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)
            if item.nodeid not in self.failed:
                row = json.dumps([item.nodeid, self.seconds[item.nodeid], sorted(self.places())])
                with (REACHED / f"{os.getpid()}.jsonl").open("a") as opened:
                    opened.write(f"{row}\n")

    def places(self) -> Iterator[str]:
        parts = tuple(f"/ibkeys/{room}/" for room in ROOMS)
        for code in list(self.entered.values()):
            if any(part in code.co_filename for part in parts):
                yield f"{os.path.relpath(code.co_filename)}:{code.co_firstlineno}"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration
        if report.failed:
            self.failed.add(report.nodeid)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Reach())


def reached() -> dict[str, list[str]]:
    """Return the tests of each function, by its file and line; those that enter the fewest functions first."""
    rows = [json.loads(line) for each in REACHED.glob("*.jsonl") for line in each.read_text().splitlines()]
    found = defaultdict(list)
    for test, seconds, places in sorted(rows, key=lambda row: len(row[2])):
        for place in places if seconds < SLOW else ():
            found[place].append(test)
    return found


def outcome(site: Site, tests: list[str]) -> str:
    """Run *tests*, which passed without it, with the change of *site*; return "survived" or "killed"."""
    file = Path(site.file)
    honest = file.read_text()
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests[:TESTS]]
    try:
        file.write_text(applied(site, honest))
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            return "killed" if process.wait(MOST) else "survived"
        except subprocess.TimeoutExpired:
            return "killed"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    finally:
        file.write_text(honest)


def count(seed: int, number: int) -> None:
    """Draw *number* mutants by *seed*, run the tests of each, and print a line for each, and the sums."""
    every = [site for room in ROOMS for file in sorted(Path("ibkeys", room).rglob("*.py")) for site in sites(file)]
    tests = reached()
    sums: Counter[str] = Counter()
    for site in random.Random(seed).sample(every, number):
        those = tests[f"{site.file}:{site.function}"]
        result = outcome(site, those) if those else "reached by no test"
        sums[result] += 1
        print(result, len(those), f"{site.file}:{site.begin[0]}", repr(site.text[:100]), sep="\t", flush=True)
    print(dict(sums), f"of {len(every)} places")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the changed file is put back
    count(*map(int, sys.argv[1:]))

"""The walker against ways that were worked out by hand; and that it leans on nothing of ibkeys."""

from __future__ import annotations

import ast
import inspect
from types import ModuleType

import pytest

from tests.routes import plain, shown, walker
from tests.routes.hand_worked import CASES
from tests.routes.hand_worked.case import A, Case, fabric, lines
from tests.routes.plain import Packet, Reading

BY_READING = [pytest.param(case, reading, id=f"{case.name}, {reading}") for case in CASES for reading in case.readings]


@pytest.mark.parametrize(("case", "reading"), BY_READING)
def test_the_walker_goes_the_way_worked_out_by_hand(case: Case, reading: Reading) -> None:
    assert shown.shown(walker.walk(fabric(case.changes), case.sent(), reading)) == lines(case.way), case.why


def test_the_cases_have_every_verdict() -> None:
    verdicts = {lines(case.way).splitlines()[-1].partition(";")[0] for case in CASES}
    assert verdicts == {
        "delivered",
        "delivered QP0",
        "stopped in",
        "stopped out",
        "stopped port 0",
        "stopped end port",
        "lost no entry",
        "lost above LinearFDBTop",
        "lost loop",
        "lost link down",
        "lost no such port",
        "lost LID of another port",
        "unknown router",
        "unknown RandomForwardingTable",
        "unknown adaptive routing",
        "unknown forwarding table not read",
        "unknown enforcement not read",
        "unknown P_Key table not read",
        "unknown P_Key index of the QP not known",
        "unknown own LID not at port 0",
        "unknown corrupted in and passed on",
        "unknown corrupted out and passed on",
        "unknown no unicast LID",
    }
    assert len({case.name for case in CASES}) == len(CASES) >= 25


def test_a_packet_has_a_lid_of_its_sender() -> None:
    with pytest.raises(ValueError, match="LID 2 is not one of"):
        walker.walk(fabric({}), Packet(A, 8, 0xFFFF, source_lid=2), "partition")


@pytest.mark.parametrize("module", [plain, walker], ids=["plain", "walker"])
def test_nothing_of_ibkeys_is_imported(module: ModuleType) -> None:
    tree = ast.parse(inspect.getsource(module))
    found: set[str | None] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
    assert found <= {"__future__", "collections.abc", "dataclasses", "typing", "tests.routes.plain"}

"""The table of operations through OpenSM that die, and of what somebody else does then: nothing of his is overwritten,
and each refusal names a command that leads on."""

from __future__ import annotations

import pytest

from tests.corpus import DATA
from tests.integration.keyed_opensm import keyed
from tests.integration.matrix_cell import Cell, cells
from tests.integration.matrix_kinds import KINDS
from tests.integration.matrix_site import POLLS
from tests.sample import sampled

SAMPLE = (
    "remove/before the first file/hand edit, unread/on",
    "rotate/before the first file/journal lost/on",
    "deploy/before the first signal/faulty policy, unread/on",
    "apply/before the first signal/manager returned/on",
    "undo/before the first signal/ports moved/on",
)


@pytest.mark.parametrize("name", sampled(cells(), SAMPLE))
def test_a_cell(name: str, preloaded: str) -> None:
    with keyed(DATA / "fabrics" / "two-switch.net", KINDS[name.partition("/")[0]].conf + POLLS) as opensm:
        cell = Cell(opensm, preloaded, name)
        if cell.kind.is_of_policy:
            opensm.running.give(cell.tenants.encode())
        cell.prove()

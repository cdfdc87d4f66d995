"""The proof that leaf ports follow part_enforce, and what is said if they do not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ibkeys.change.runner import ObservedPorts
from ibkeys.errors import NoReply
from ibkeys.harden import enforcement_run
from ibkeys.harden.enforcement_run import EnforcementPlan, LeafPortsProof
from ibkeys.topology.port_id import PortId

FOLLOWS, DIFFERS, SILENT = (PortId(guid, guid, f"leaf{guid}", "switch", 1, guid) for guid in (1, 2, 3))


def test_a_silent_leaf_port_does_not_count_as_enforcing(monkeypatch: pytest.MonkeyPatch) -> None:
    error = NoReply("no reply", attempts=3)
    monkeypatch.setattr(enforcement_run, "read_again", lambda writer, targets: {SILENT.key: error})
    leaves: Any = [
        SimpleNamespace(leaf=SimpleNamespace(id=each), end=None, difference=lambda text=text: text)
        for each, text in ((FOLLOWS, ""), (DIFFERS, "enforcement is off"), (SILENT, ""))
    ]
    steps: list[tuple[str, int, int]] = []
    writer: Any = None
    found = LeafPortsProof(writer, leaves, lambda *step: steps.append(step)).look()
    assert (found.wrong, found.silent) == ({DIFFERS: "enforcement is off"}, {SILENT: error})
    assert steps == [("leaf ports enforce", 1, 3)]


def test_the_error_says_that_opensm_was_waited_for_twice() -> None:
    plan: Any = SimpleNamespace(wait=60.0, silent=[])
    verdict = EnforcementPlan.judge(plan, ObservedPorts({DIFFERS: "enforcement is off"}))
    assert verdict.error is not None
    assert "did not follow part_enforce: OpenSM was signalled twice, and 60 s after each signal" in str(verdict.error)

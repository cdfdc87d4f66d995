"""Files are replaced in temporary folders, wherever those are."""

from __future__ import annotations

import pytest

from ibkeys.host.replacing import hindrances


@pytest.fixture(autouse=True)
def _outside_a_container(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no folder pass for the layer of a container: the tests may run in one."""
    monkeypatch.setattr(hindrances, "_kind_of_mount", lambda number: "ext4")

"""`sim serve` has two open files for each port that a program opens: more than most shells allow."""

from __future__ import annotations

import resource

import pytest

from ibkeys.cli.sim import serve
from ibkeys.sim.server.umad.connections import MOST_CONNECTIONS, MOST_STRANGERS


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((1024, 1 << 20), (4096, 1 << 20)),
        ((1024, 2000), (2000, 2000)),
        ((8192, 1 << 20), (8192, 1 << 20)),
        ((1024, resource.RLIM_INFINITY), (4096, resource.RLIM_INFINITY)),
    ],
)
def test_as_many_files_as_programs_need(
    monkeypatch: pytest.MonkeyPatch, before: tuple[int, int], after: tuple[int, int]
) -> None:
    written: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda what: before)
    monkeypatch.setattr(resource, "setrlimit", lambda what, limits: written.append(limits))
    serve.allow_descriptors()
    assert written == [after]
    assert 2 * MOST_CONNECTIONS + MOST_STRANGERS < 4096

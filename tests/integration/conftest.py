"""Fixtures for the tests on ibsim, OpenSM and infiniband-diags."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.integration.ibsim import Ibsim

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.integration)


@pytest.fixture
def ibsim() -> Iterator[Callable[..., Ibsim]]:
    """Start fabrics that live until the end of the test: ``ibsim(netfile, sim_host=...)``."""
    with ExitStack() as fabrics:

        def start(netfile: str | Path, **options: Any) -> Ibsim:
            return fabrics.enter_context(Ibsim(netfile, **options))

        yield start

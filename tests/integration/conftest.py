"""Fixtures for the tests on ibsim, OpenSM and infiniband-diags."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.corpus import DATA
from tests.integration.crashes import compiled_shim
from tests.integration.hosted import Hosted
from tests.integration.ibsim import Ibsim
from tests.integration.served import Served

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


@pytest.fixture(scope="session")
def preloaded(tmp_path_factory: pytest.TempPathFactory) -> str:
    """LD_PRELOAD of an ibkeys that dies at a point: see `crashes`."""
    return compiled_shim(tmp_path_factory.mktemp("shim"))


@pytest.fixture
def serve(stack: ExitStack) -> Callable[..., Served]:
    """Serve fabrics that live until the end of the test: ``serve(netfile, sim_host="node01")``."""
    return lambda netfile, **options: stack.enter_context(Served(netfile, **options))


@pytest.fixture
def served(stack: ExitStack) -> Hosted:
    """The fabric of two switches, served in this process; a module that wants another one has its own fixture."""
    return stack.enter_context(Hosted(DATA / "fabrics" / "two-switch.net"))

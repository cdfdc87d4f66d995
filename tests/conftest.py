"""What holds for all tests: Hypothesis profiles, signals as a program at a terminal has them, a cache folder of their
own, no site file, and a stack.

Hypothesis: the same examples at every run; few by default, many with IBKEYS_SOAK=1 (``make soak``), and ten times as
many where one costs next to nothing: below the rooms that talk to fabrics.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from ibkeys.printable import Rest, set_rest
from tests.sample import SOAK

_COMMON: dict[str, Any] = {
    "derandomize": True,
    "database": None,
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
}
settings.register_profile("default", max_examples=20, **_COMMON)
settings.register_profile("soak", max_examples=500, **_COMMON)
settings.register_profile("soak, cheap", max_examples=5000, **_COMMON)
_CHEAP = {"keys", "mad", "sim", "store"}
settings.load_profile("soak" if SOAK else "default")


def pytest_configure(config: pytest.Config) -> None:
    """Name a file that was asked for and does not exist: in several processes, pytest only says that no test ran."""
    asked = [config.invocation_params.dir / arg.partition("::")[0] for arg in config.args]
    absent = [str(path) for path in asked if not path.exists()]
    if absent:
        raise pytest.UsageError(f"file or directory not found: {', '.join(absent)}")


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Load the profile of a module's room before it is imported: a test takes the one that is loaded then."""
    if SOAK and isinstance(collector, pytest.Module):
        settings.load_profile("soak, cheap" if collector.path.parent.name in _CHEAP else "soak")


SLOW_FOLDERS = {"integration", "recordings", "matrix", "examples", "store"}
"""Folders of tests that take long one by one."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let each of the processes that share the tests begin with slow ones, so that quick ones are left at the end.

    xdist gives each process one piece of the list, all of the same size, and lets it take from others later.
    """
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if count == 1:
        return
    slow = [item for item in items if SLOW_FOLDERS & set(item.path.parts)]
    quick = iter([item for item in items if not SLOW_FOLDERS & set(item.path.parts)])
    size = len(items) // count
    dealt: list[pytest.Item] = []
    for piece in range(count):
        first = slow[len(slow) * piece // count : len(slow) * (piece + 1) // count]
        dealt += [*first, *islice(quick, max(0, size - len(first)))]
    items[:] = [*dealt, *quick]


# A shell lets what it runs in the background ignore SIGINT, and nohup SIGHUP; what tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Commands keep the names of nodes: not in the cache of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True, scope="session")
def _own_stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Commands without stores of their own do not use those of root on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ibkeys.store.paths.SYSTEM_DIRECTORY", tmp_path_factory.mktemp("state") / "ibkeys")
        yield


@pytest.fixture(autouse=True, scope="session")
def _no_site_file() -> Iterator[None]:
    """Commands on a real stack, also those of other processes, do not read the site file of this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IBKEYS_SITE", "none")
        yield


@pytest.fixture(autouse=True)
def _as_a_script() -> Iterator[None]:
    """What is called is told what a script gives, also after a test that read the options of a command."""
    yield
    set_rest(Rest.COUNTED)


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that every user may enter, on a way that every user may go: pytest's own is closed to others."""
    with TemporaryDirectory(dir="/tmp") as folder:
        path = Path(folder)
        path.chmod(0o755)
        yield path


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """What is to be ended with the test, the last one first."""
    with ExitStack() as opened:
        yield opened

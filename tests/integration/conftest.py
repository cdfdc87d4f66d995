"""Fixtures for the tests on ibsim, OpenSM and infiniband-diags."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.corpus import DATA
from tests.integration.crashes import compiled_shim
from tests.integration.hosted import Hosted
from tests.integration.ibsim import Ibsim, tool
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
def libraries(tmp_path_factory: pytest.TempPathFactory) -> str:
    """LD_PRELOAD with the kernel's RMPP sender around libumad2sim, compiled."""
    libumad2sim = re.search(r"^sim_so=(\S+)", Path(tool("ibsim-run")).read_text(), re.MULTILINE)
    assert libumad2sim, "ibsim-run does not say where libumad2sim is"
    compiler = shutil.which("cc")
    assert compiler is not None, "no C compiler: apt-get install gcc libc6-dev"
    folder = tmp_path_factory.mktemp("rmpp")
    for name, define in (("above", "ABOVE"), ("below", "BELOW")):
        command = [compiler, "-O1", "-Wall", "-Werror", f"-D{define}", "-shared", "-fPIC"]
        source = str(HERE / "rmpp_sender.c")
        subprocess.run([*command, "-o", f"{folder}/{name}.so", source, "-ldl", "-pthread"], check=True, timeout=60)
    return f"{folder}/above.so:{libumad2sim[1]}:{folder}/below.so"


@pytest.fixture
def preload(libraries: str) -> Callable[..., dict[str, str]]:
    """The environment of OpenSM and of who asks it; the arguments are settings of the RMPP sender."""
    return lambda **settings: {
        "LD_PRELOAD": libraries,
        **{f"RMPP_{name.upper()}": str(value) for name, value in settings.items()},
    }


@pytest.fixture(scope="session")
def preloaded(tmp_path_factory: pytest.TempPathFactory) -> str:
    """LD_PRELOAD of an ibkeys that dies at a point: see `crashes`."""
    return compiled_shim(tmp_path_factory.mktemp("shim"))


@pytest.fixture
def serve(stack: ExitStack) -> Callable[[Path], Served]:
    """Serve fabrics that live until the end of the test: ``serve(netfile)``."""
    return lambda netfile: stack.enter_context(Served(netfile))


@pytest.fixture
def served(stack: ExitStack) -> Hosted:
    """The fabric of two switches, served in this process; a module that wants another one has its own fixture."""
    return stack.enter_context(Hosted(DATA / "fabrics" / "two-switch.net"))

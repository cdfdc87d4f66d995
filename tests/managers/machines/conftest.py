"""What all tests of machines need: a journal, a policy file, the hosts, and no container around them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ibkeys.managers.machines.machine import Machine
from ibkeys.managers.machines.other_host import OtherHost
from ibkeys.store.journal import Journal
from tests.managers.machines.there import OLD, Here, There

SHELLS = [shell for shell in ("/bin/dash", "/bin/bash") if shutil.which(shell)]


@pytest.fixture
def journal() -> Iterator[Journal]:
    with Journal(None) as journal:
        yield journal


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A policy file with a mode of its own, in a folder of its own."""
    path = tmp_path / "etc" / "partitions.conf"
    path.parent.mkdir()
    path.write_bytes(OLD)
    path.chmod(0o640)
    return path


@pytest.fixture(params=SHELLS)
def there(request: pytest.FixtureRequest, tmp_path: Path) -> There:
    return There(tmp_path / "there", request.param)


@pytest.fixture
def host(there: There) -> Iterator[OtherHost]:
    """Another host."""
    with there.machine() as machine:
        yield machine


@pytest.fixture(params=["this host", *SHELLS])
def side(request: pytest.FixtureRequest, tmp_path: Path) -> Here | There:
    """This host, and another one by each shell: what both can do is tested at both."""
    folder = tmp_path / "side"
    return Here(folder) if request.param == "this host" else There(folder, request.param)


@pytest.fixture
def machine(side: Here | There) -> Iterator[Machine]:
    with side.machine() as machine:
        yield machine

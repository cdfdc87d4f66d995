"""How a missing Python package is installed, by how ibkeys was."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ibkeys import lazily


@pytest.mark.parametrize(
    ("home", "command"),
    [
        ("/usr/lib/python3/dist-packages", "apt-get install python3-httpx"),
        ("/usr/lib64/python3.12/site-packages", "dnf install python3-httpx"),
        ("/usr/lib/python3.14/site-packages", "dnf install python3-httpx"),
        ("/usr/local/lib/python3.12/site-packages", "/opt/venv/bin/python -m pip install 'httpx>=0.26'"),
        ("/home/admin/ibkeys", "/opt/venv/bin/python -m pip install 'httpx>=0.26'"),
    ],
)
def test_the_package_manager_that_brought_ibkeys_brings_it(
    home: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lazily, "__file__", f"{home}/ibkeys/lazily.py")
    monkeypatch.setattr(sys, "executable", "/opt/venv/bin/python")
    assert lazily.how_to_install("httpx", ">=0.26") == command
    assert lazily.is_of_distribution() == command.startswith(("apt-get", "dnf"))


def test_what_pipx_brought_gets_it_injected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ibkeys-next").mkdir()
    (tmp_path / "ibkeys-next" / "pipx_metadata.json").touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "ibkeys-next"))
    assert lazily.how_to_install("httpx") == "pipx inject ibkeys-next httpx"

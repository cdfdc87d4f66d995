"""What the tests of the key store's commands share. No line of them shows a key or a passphrase unasked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ibkeys.store.keystore.sealing import Cost
from tests.cli.conftest import KEY, OTHER_KEY, Cli, Result, Terminal

NODE02, NODE03, NODE04 = "0x0002c903000a1021", "0x0002c903000a1031", "0x0002c903000a1041"
WORDS, NEW_WORDS = "correct horse battery staple", "tr0ub4dor"


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibkeys.store.keystore.sealed.Cost", lambda *given: Cost(*(given or (4, 8, 1))))


@pytest.fixture
def said(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run commands whose output must not have any key or passphrase, whatever they do."""

    def run(*args: object, stdin: str | Terminal = "") -> Result:
        result = cli(*args, stdin=stdin)
        for secret in (f"{KEY:x}", str(KEY), f"{OTHER_KEY:x}", str(OTHER_KEY), WORDS, NEW_WORDS):
            assert secret not in result.out + result.err
        return result

    return run


@pytest.fixture
def private(tmp_path: Path) -> Callable[[str, str], str]:
    def write(name: str, text: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.touch(0o600)
        path.write_text(text)
        return str(path)

    return write


@pytest.fixture
def cache(tmp_path: Path, private: Callable[[str, str], str]) -> Path:
    """OpenSM's files."""
    private("cache/guid2mkey", f"{NODE02} {KEY:#018x}\n\n{NODE03} {OTHER_KEY:#018x}\n\n")
    private("cache/neighbors", f"{NODE02}:1 0x0002c90200401000:2\n\n0x0002c90200401000:2 {NODE02}:1\n\n")
    private("cache/guid2lid", f"{NODE02} 0x0002 0x0002\n\n")
    return tmp_path / "cache"


def store_path(tmp_path: Path) -> Path:
    return tmp_path / "fabric.keys"


def listed(cli: Cli, *args: object) -> Any:
    result = cli("keystore", "list", "-f", "json", *args)
    assert result.code == 0, result.err
    return result.json

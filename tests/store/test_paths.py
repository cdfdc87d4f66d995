"""Where the stores are."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.store import paths
from ibkeys.store.paths import StorePaths, cache_directory, default_directory, store_paths


def test_root_has_a_place_of_the_system() -> None:
    assert default_directory({"XDG_STATE_HOME": "/ignored", "HOME": "/root"}, root=True) == paths.SYSTEM_DIRECTORY


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"HOME": "/home/ada"}, "/home/ada/.local/state/ibkeys"),
        ({"HOME": "/home/ada", "XDG_STATE_HOME": "/var/ada"}, "/var/ada/ibkeys"),
        ({"HOME": "/home/ada", "XDG_STATE_HOME": ""}, "/home/ada/.local/state/ibkeys"),
        ({"HOME": "/home/ada", "XDG_STATE_HOME": "relative"}, "/home/ada/.local/state/ibkeys"),
    ],
)
def test_a_user_has_the_xdg_state_directory(environ: dict[str, str], expected: str) -> None:
    assert default_directory(environ, root=False) == Path(expected)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"HOME": "/home/ada"}, "/home/ada/.cache/ibkeys"),
        ({"HOME": "/home/ada", "XDG_CACHE_HOME": "/var/ada"}, "/var/ada/ibkeys"),
        ({"HOME": "/home/ada", "XDG_CACHE_HOME": "relative"}, "/home/ada/.cache/ibkeys"),
    ],
)
def test_everybody_has_the_xdg_cache_directory(environ: dict[str, str], expected: str) -> None:
    assert cache_directory(environ) == Path(expected)


def test_without_home_the_user_database_is_asked() -> None:
    assert default_directory({}, root=False).name == "ibkeys"


def test_real_subnet_uses_the_default_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "default_directory", lambda: Path("/d"))
    assert store_paths() == StorePaths(Path("/d/keys.db"), Path("/d/journal.db"), Path("/d/fingerprint.secret"))
    assert store_paths(keystore=Path("/k")) == StorePaths(
        Path("/k"), Path("/d/journal.db"), Path("/d/fingerprint.secret")
    )


def test_simulated_subnet_never_touches_the_default_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "default_directory", lambda: pytest.fail("asked for the user's own store"))
    assert store_paths(simulated=True) == StorePaths(None, None)
    beside = StorePaths(*(Path(f"/lab/one.state.{name}") for name in ("keys", "journal", "fingerprint")))
    assert store_paths(simulated=True, state=Path("/lab/one.state")) == beside
    assert store_paths(simulated=True, keystore=Path("/k")) == StorePaths(Path("/k"), None)

"""The key store or the journal is lost after M_Keys were changed through OpenSM: what comes next works."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.managers.key_files import import_opensm_config
from ibkeys.store.keystore.keystore import KeyStore
from tests.mkeys.opensm.madeup import Bench
from tests.mkeys.opensm.stopping import bench_in


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return bench_in(tmp_path, monkeypatch)


@pytest.mark.parametrize("lost", [["keys.db"], ["journal.db"], ["keys.db", "journal.db"]])
def test_after_an_import_keys_are_changed_and_removed(bench: Bench, lost: list[str]) -> None:
    """Entries of the journal named rows of the lost key store, so each command stopped: "no SM_Key 1"."""
    bench.deploy()
    bench.rotate()
    folder = bench.opensm.folder.parent
    for name in lost:
        (folder / name).unlink()
    with KeyStore(folder / "keys.db") as store:
        import_opensm_config(store, bench.opensm.conf)
    before = bench.opensm.key()
    bench.rotate()
    assert bench.opensm.key() != before
    assert bench.run_state() == "done"
    assert bench.quiet()
    bench.remove()
    assert bench.opensm.keys() == {(0, 0, 0)}
    assert bench.open_operations() == []

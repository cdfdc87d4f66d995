"""A run of M_Keys is one operation of the journal, from its first port to its end, and going back is the undo of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ibkeys.store.keys.keystore import KeyStore
from ibkeys.store.keys.runs import Runs
from tests.cli.conftest import Cli
from tests.cli.rolling import LEVEL_2, shown


def operations(cli: Cli) -> list[tuple[Any, ...]]:
    """Return (id, command, state, undoes, number of starts) of each operation."""
    found = cli("journal", "-f", "json").json["operations"]
    return [(each["id"], each["command"], each["state"], each["undoes"], len(each["starts"])) for each in found]


def test_a_run_that_goes_on_is_one_operation(cli: Cli) -> None:
    assert cli("mkey-deploy", "--per-port", *LEVEL_2, "--first", 2, "--yes").code == 0
    assert operations(cli) == [(1, "mkey-deploy", "open", None, 1)]
    assert cli("mkey-deploy", "--continue", "--yes").code == 0
    assert operations(cli) == [(1, "mkey-deploy", "done", None, 2)]
    assert shown(cli) == {("set", 2, 60)}
    assert cli("mkey-deploy", "--abort", "--yes").code == 0
    assert operations(cli) == [(1, "mkey-deploy", "undone", None, 2), (2, "undo", "done", 1, 1)]
    assert shown(cli) == {("zero", 0, 0)}


def test_a_run_whose_journal_was_lost_goes_on_in_a_new_one(cli: Cli, tmp_path: Path) -> None:
    cli("mkey-deploy", "--per-port", *LEVEL_2, "--first", 2, "--yes")
    (tmp_path / "fabric.journal").unlink()
    assert cli("mkey-deploy", "--continue", "--yes").code == 0
    assert operations(cli) == [(1, "mkey-deploy", "done", None, 1)]
    assert cli("mkey-deploy", "--abort", "--yes").code == 0
    assert operations(cli) == [(1, "mkey-deploy", "undone", None, 1), (2, "undo", "done", 1, 1)]
    assert shown(cli) == {("zero", 0, 0)}


def test_a_run_that_sends_nothing_leaves_no_operation(cli: Cli, tmp_path: Path) -> None:
    assert cli("mkey-deploy", "--per-port", *LEVEL_2, "--dry-run").code == 1
    assert not (tmp_path / "fabric.journal").exists()
    cli("mkey-deploy", "--per-port", *LEVEL_2, "--yes")
    before = operations(cli)
    cli("mkey-deploy", "--per-port", *LEVEL_2, "--yes")
    assert operations(cli) == before
    with KeyStore(tmp_path / "fabric.keys") as store:
        last = Runs(store).last()
    assert last is not None
    assert last.operation is not None
    assert last.operation.id == 1

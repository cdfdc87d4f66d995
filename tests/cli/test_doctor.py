"""doctor: what it looks at, and its exit code."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ibkeys.store.journal import Journal
from ibkeys.store.journal.runs import Runs
from ibkeys.umad.probe import ProbeResult
from tests.cli.conftest import TWO_SWITCH, Cli, run
from tests.owners import closed


def test_simulated_subnet_without_a_problem(cli: Cli) -> None:
    result = cli("doctor")
    assert (result.code, result.err) == (0, "")
    assert result.out.endswith("no problem found\n")


def test_json(cli: Cli) -> None:
    document = cli("doctor", "-f", "json").json
    assert list(document) == ["schema", "checks", "problems", "settings", "report"]
    assert (document["schema"], document["problems"]) == ("ibkeys.doctor/2", 0)
    assert [check["name"] for check in document["checks"]] == [
        "backend",
        "local port",
        "subnet manager",
        "key store",
        "journal",
    ]
    assert all(list(check) == ["name", "ok", "detail", "advice"] for check in document["checks"])


def test_master_sm_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IBKEYS_BACKEND", f"{TWO_SWITCH},sm=node04 mlx4_0")
    assert "LID 4, GUID 0x0002c903000a1041, master" in cli("doctor").out


def test_key_files_that_others_may_read_are_a_problem(cli: Cli, shared: Path) -> None:
    file = shared / "guid2mkey"
    file.write_text("0x0002c903000a1021 0x00000000000000aa\n\n")
    file.chmod(0o644)
    result = cli("doctor", "--security-keys", shared)
    assert result.code == 1
    assert "chmod 600" in result.out
    assert "1 problem" in result.out
    assert "\x1b[1mPROBLEM\x1b[0m  guid2mkey" in cli("doctor", "--security-keys", shared, "--color", "always").out
    file.chmod(0o600)
    assert cli("doctor", "--security-keys", shared).code == 0


def test_key_store_that_others_may_read_is_a_problem(cli: Cli, tmp_path: Path, key_file: Path) -> None:
    cli("mkey-set", 2, "--new-m-key", f"@{key_file}", "--protect", 0, "--yes")
    (tmp_path / "fabric.keys").chmod(0o640)
    result = cli("doctor", "-f", "csv")
    assert result.code == 1
    assert "fabric.keys" in result.out


def test_a_key_store_that_the_user_may_not_write_is_a_problem(
    cli: Cli, tmp_path: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("mkey-set", 2, "--new-m-key", f"@{key_file}", "--protect", 0, "--yes")
    assert cli("doctor").code == 0
    store = tmp_path / "fabric.keys"
    may = os.access  # root may write all files, so that a mode of 0400 shows nothing here
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != store and may(path, mode))
    result = cli("doctor")
    assert result.code == 1
    assert f"but this user may not write {store}" in result.out


def test_a_key_store_that_the_user_may_not_create_is_a_problem(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, may = tmp_path / "closed", os.access
    folder.mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != folder and may(path, mode))
    result = cli("doctor", "--keystore", folder / "deep" / "my.keys")
    assert result.code == 1
    said = "does not exist yet: a changing command creates it, but this user may not write"
    assert f"{folder}/deep/my.keys: {said} {folder}" in result.out


@pytest.mark.parametrize("option", ["--keystore", "--journal"])
def test_a_store_in_a_folder_that_this_user_may_not_search_is_a_problem(option: str, tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    words = ("doctor", "-f", "json", "--backend", TWO_SWITCH, option, folder / "my.db")
    assert run(*words).code == 0
    with closed(folder):
        result = run(*words)
    [problem] = [check for check in result.json["checks"] if check["ok"] is False]
    assert result.code == 1
    assert f"{folder}/my.db: the " in problem["detail"]
    assert "cannot be opened or made here: Permission denied" in problem["detail"]


@pytest.mark.parametrize("words", [("pkey-show", 1), ("keystore", "list"), ("audit",)])
def test_a_key_store_that_this_user_may_not_look_for_is_named(words: tuple[object, ...], tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    where = ("--keystore", folder / "my.db", "--backend", TWO_SWITCH)
    run(*words, *where)
    with closed(folder):
        result = run(*words, *where)
    assert result.code == 3
    assert f"{folder}/my.db: the key store cannot be opened or made here: Permission denied" in result.err


def test_a_store_that_cannot_be_used_is_not_a_problem_of_the_port(cli: Cli, tmp_path: Path, key_file: Path) -> None:
    cli("mkey-set", "-D", "0,1,3", "--new-m-key", f"@{key_file}", "--protect", 0, "--lease", "60", "--yes")
    [store] = list(tmp_path.rglob("*.keys"))
    store.chmod(0o644)
    result = cli("doctor", "-f", "json")
    wrong = {check["name"]: check["detail"] for check in result.json["checks"] if check["ok"] is not True}
    assert (result.code, result.json["problems"]) == (1, 1)
    assert set(wrong) == {"local port", "store"}
    assert "chmod 600" in wrong["store"]
    assert wrong["local port"] == "not checked: a file that is needed cannot be used"


def test_a_run_that_is_not_finished_is_named_with_the_way_on(cli: Cli, tmp_path: Path) -> None:
    """After its first ports a run waits: a note. With a Set of which nobody knows what became of it: a problem."""
    cli("mkey-deploy", "--per-port", "--protect", "1", "--lease", "60", "--first", "1", "--yes")
    result = cli("doctor")
    assert result.code == 0
    assert "1 port done, 0 failed, 0 may have their new key or not, 7 wait" in result.out
    assert "-> ibkeys resume 1 finishes it, ibkeys undo 1 rolls it back" in result.out
    assert "fabric.journal: 1 operation" in result.out
    assert "1 operations" not in result.out
    with Journal(tmp_path / "fabric.journal") as journal:
        runs = Runs(journal)
        run = runs.last()
        assert run is not None
        runs.mark(run.id, 2, "sent")
    result = cli("doctor", "-f", "json")
    [check] = [check for check in result.json["checks"] if check["name"] == "M_Key run"]
    assert (result.code, check["ok"]) == (1, False)
    assert "1 may have their new key or not, 6 wait" in check["detail"]
    cli("undo", "--yes")
    assert "M_Key run" not in cli("doctor").out


def test_real_stack_that_is_not_there(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = [ProbeResult("libibumad", False, "not built", "apt-get install libibumad-dev")]
    monkeypatch.setattr("ibkeys.umad.probe.probe", lambda: missing)
    monkeypatch.setattr("ibkeys.umad.libibumad.open_port", _no_device)
    monkeypatch.setattr("ibkeys.store.paths.SYSTEM_DIRECTORY", Path("/nonexistent"))
    result = cli("doctor", "--backend", "umad")
    assert (result.code, result.err) == (1, "")
    lines = result.out.splitlines()
    assert lines[0].split() == ["PROBLEM", "libibumad", "not", "built"]
    assert lines[1].split("-> ")[1] == "apt-get install libibumad-dev"
    assert "no device here" in result.out


def _no_device(*_: object) -> None:
    from ibkeys.errors import NoDevice

    raise NoDevice("no device here")

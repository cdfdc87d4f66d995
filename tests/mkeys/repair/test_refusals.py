"""sm-repair refused: nothing is written. No port was asked, except where the sweep is what meets an SM."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from ibkeys.errors import Refused, UsageError
from ibkeys.managers.opensm.process import OpensmProcess
from ibkeys.store.opensm import KeyFiles, write_key_files
from tests.mkeys.repair.lab import C, Lab, small
from tests.protectedsim import listen


def is_refused(lab: Lab, interlock: str, *processes: OpensmProcess) -> str:
    before = [(path.name, path.read_bytes()) for path in lab.cache.iterdir()]
    wire = listen(lab.net)
    with pytest.raises(Refused) as refused:
        lab.repair(*processes)
    assert refused.value.interlock == interlock
    assert not wire.heard
    assert not wire.keyless
    assert [(path.name, path.read_bytes()) for path in lab.cache.iterdir()] == before
    return f"{refused.value} {refused.value.more}"


def test_refused_while_an_opensm_uses_the_cache(lab: Lab) -> None:
    assert "process 4711" in is_refused(lab, "running-opensm", OpensmProcess(4711, lab.cache, True, None))


def test_an_opensm_with_another_cache_is_no_matter_of_these_files(lab: Lab) -> None:
    assert not lab.repair(OpensmProcess(4711, lab.folder, True, None)).kept


def test_refused_where_the_file_has_keys_that_the_store_has_not(lab: Lab) -> None:
    write_key_files(lab.cache, KeyFiles({lab.own.guid: C}), ["guid2mkey"])
    assert "keystore import" in is_refused(lab, "unknown-keys")


def test_a_torn_file_is_renamed_after_its_import(lab: Lab) -> None:
    """The import leaves the file as it is, so that alone it would not help."""
    path = lab.cache / "guid2mkey"
    path.write_bytes(path.read_bytes() + bytes(40))
    assert f"first, then rename {path}, or name another directory" in is_refused(lab, "unknown-keys")
    path.rename(lab.cache / "guid2mkey.torn")
    assert not lab.repair().kept


def test_refused_for_the_folder_of_another_user(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    another = SimpleNamespace(geteuid=lambda: lab.cache.stat().st_uid + 1)  # for this question alone
    monkeypatch.setattr("ibkeys.mkeys.repair.repair.os", another)
    said = is_refused(lab, "foreign-folder")
    assert "belongs to another user" in said
    assert f"`chown -R {lab.cache.stat().st_uid} FOLDER`" in said


def test_refused_for_a_folder_that_everybody_may_write_to(lab: Lab) -> None:
    """As /tmp, which would get mode 0700."""
    lab.cache.mkdir(exist_ok=True)
    lab.cache.chmod(0o1777)
    assert "everybody may write" in is_refused(lab, "foreign-folder")
    assert lab.cache.stat().st_mode & 0o7777 == 0o1777


def test_refused_while_the_sa_of_a_master_answers(lab: Lab) -> None:
    lab.net.set_sm("node03 mlx4_0")
    assert "its SM is master" in is_refused(lab, "mkey-under-sm")


def test_refused_while_an_sm_runs_on_the_own_port(lab: Lab) -> None:
    lab.net.set_sm(lab.net.nodes[0])
    assert "its IsSM bit is set" in is_refused(lab, "mkey-under-sm")


def test_a_standby_that_the_sweep_meets_refuses_the_files(lab: Lab) -> None:
    lab.net.set_sm("node03 mlx4_0", state=2)
    before = lab.file()
    with pytest.raises(Refused, match="no SM is master") as refused:
        lab.repair()
    assert refused.value.interlock == "mkey-under-sm"
    assert lab.file() == before
    assert not lab.repair(overrides=["mkey-under-sm"]).kept


def test_a_store_without_keys_has_nothing_to_ask_with(tmp_path: Path) -> None:
    lab = small(tmp_path)
    lab.stores["keystore"] = tmp_path / "empty.db"
    (lab.cache / "guid2mkey").unlink()
    with pytest.raises(UsageError, match="keystore import"):
        lab.repair()

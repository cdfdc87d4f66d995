"""keystore backup and restore on the command line, and what doctor and mkey-deploy advise."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Cli

DEPLOY = ("mkey-deploy", "--per-port", "--protect", 2, "--lease", 60, "--yes", "--override", "links-initialize")


def backup_row(cli: Cli) -> dict[str, object] | None:
    checks = cli("doctor", "-f", "json").json["checks"]
    return next((check for check in checks if check["name"] == "backup"), None)


def test_doctor_says_when_there_is_no_backup_or_an_old_one(cli: Cli, tmp_path: Path) -> None:
    assert backup_row(cli) is None  # there is no key
    deployed = cli(*DEPLOY)
    assert deployed.code == 0
    assert deployed.out.endswith("save the keys: `ibkeys keystore backup FILE`, and keep a copy on another host\n")
    row = backup_row(cli)
    assert row is not None
    assert (row["ok"], row["detail"]) == (None, "there is no backup of key store and journal")
    saved = cli("keystore", "backup", tmp_path / "saved")
    assert saved.code == 0, saved.err
    assert "keep a copy on another host" in saved.out
    row = backup_row(cli)
    assert row is not None
    assert (row["ok"], row["advice"]) == (True, None)
    assert cli("mkey-rotate", "--per-port", "--yes", "--override", "links-initialize").code == 0
    row = backup_row(cli)
    assert row is not None
    assert row["ok"] is None
    assert str(row["detail"]).startswith("older than the last change: ")
    assert "ibkeys keystore backup FILE" in str(row["advice"])
    assert cli("doctor").code == 0


@pytest.mark.parametrize("lost", ["keys", "journal", "both"])
def test_after_a_loss_the_tool_works_again(cli: Cli, tmp_path: Path, lost: str) -> None:
    assert cli(*DEPLOY).code == 0
    assert cli("keystore", "backup", tmp_path / "saved").code == 0
    for name in ("keys", "journal") if lost == "both" else (lost,):
        (tmp_path / f"fabric.{name}").unlink()
    row = backup_row(cli)
    assert row is not None
    assert (row["ok"], "is not there" in str(row["detail"])) == (None, True)
    assert row["advice"] == f"if it was lost: ibkeys keystore restore {tmp_path / 'saved'}"
    done = cli("keystore", "restore", tmp_path / "saved")
    assert (done.code, done.err) == (0, "")
    assert "next: `ibkeys mkey-show --all`" in done.out
    assert cli("mkey-show", "--all").code == 0
    assert cli("mkey-rotate", "--per-port", "--yes", "--override", "links-initialize").code == 0


def test_a_store_with_later_keys_is_not_replaced(cli: Cli, tmp_path: Path) -> None:
    assert cli(*DEPLOY).code == 0
    assert cli("keystore", "backup", tmp_path / "saved").code == 0
    assert cli("mkey-rotate", "--per-port", "--yes", "--override", "links-initialize").code == 0
    refused = cli("keystore", "restore", tmp_path / "saved")
    assert refused.code == 4
    assert "--override lost-keys" in refused.err
    done = cli("keystore", "restore", tmp_path / "saved", "--override", "lost-keys")
    assert done.code == 0
    assert "the replaced file was kept as" in done.err


def test_a_backup_with_lost_keys_is_not_replaced(cli: Cli, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    assert cli(*DEPLOY).code == 0
    assert cli("keystore", "backup", saved).code == 0
    (tmp_path / "fabric.keys").unlink()
    refused = cli("keystore", "backup", saved)
    assert refused.code == 4
    assert f"to do it anyway: `ibkeys keystore backup {saved} --override lost-keys`" in refused.err
    assert cli("keystore", "backup", saved, "--override", "lost-keys").code == 0


def test_what_is_in_memory_is_not_saved(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.cli.conftest import TWO_SWITCH

    monkeypatch.setenv("IBKEYS_BACKEND", TWO_SWITCH)
    assert cli("keystore", "backup", tmp_path / "saved").code == 2

"""--sa-keys, as a user without the subnet manager's files runs it on a protected fabric."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import TWO_SWITCH, WITH_SA, Cli, key_argument, run


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    """Run commands on two-switch.net with a master SM, all of whose ports are at level 2; the key store is gone."""
    spec = f"{TWO_SWITCH},state={tmp_path / 'fabric'}"
    monkeypatch.setenv("IBKEYS_BACKEND", spec)
    agreed = ("--yes", "--override", "lease-0")
    deploying = run("mkey-deploy", "--protect", "2", "--per-port", *agreed, "--keystore", tmp_path / "gone")
    assert deploying.code == 0, deploying.err
    (tmp_path / "gone").unlink()
    monkeypatch.setenv("IBKEYS_BACKEND", f"{spec},{WITH_SA}")
    return run


def test_every_port_is_read_and_no_violation_is_counted(cli: Cli, sa_key: str) -> None:
    assert cli("mkey-show", "--all", "--retries", "0", "-t", "50").code == 3
    before = cli("mkey-show", "--all", "--sa-keys", "--smkey", sa_key, "-f", "json")
    assert before.code == 0, before.err
    after = cli("mkey-show", "--all", "--sa-keys", "--smkey", sa_key, "-f", "json")
    assert after.json == before.json
    assert {port["m_key_protect_bits"] for port in after.json["ports"]} == {2}
    assert after.err == ""
    more = cli("mkey-show", "--all", "--sa-keys", "--smkey", sa_key, "-v")
    assert "note: --sa-keys: any host that has this SM_Key can read every M_Key from the SA too\n" in more.err


def test_one_port_is_found_and_read(cli: Cli, sa_key: str) -> None:
    result = cli("pkey-show", "-N", "node03 mlx4_0", "--sa-keys", "--smkey", sa_key)
    assert result.code == 0, result.err
    assert "0xffff" in result.out


def test_a_wrong_sm_key_sends_nothing_to_a_port(cli: Cli, tmp_path: Path) -> None:
    wrong = key_argument(tmp_path / "wrong.key", 0x6D0C5AD7F00DBEEF)
    result = cli("mkey-show", "--all", "--sa-keys", "--smkey", wrong, "-d", "-t", "50")
    assert result.code == 3
    assert "a wrong SM_Key" in result.err
    sent = [line for line in result.err.splitlines() if line.startswith("> ")]
    assert sent
    assert all(line.startswith("> GetTable(NodeRecord") for line in sent)
    assert "6d0c5ad7f00dbeef" not in result.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--sa-keys"], "give --smkey @FILE"),
        (["--sa-keys", "--smkey", "-", "-y", "0x12"], "omit --sa-keys"),
        (["--smkey", "-"], "only with --sa-keys"),
        (["--sa-keys", "--from", "a.db"], "omit --sa-keys"),
    ],
)
def test_what_makes_no_sense_is_refused(cli: Cli, words: list[str], message: str) -> None:
    result = cli("mkey-show", "--all", *words)
    assert result.code == 2
    assert message in result.err

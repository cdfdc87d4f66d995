"""`ibkeys keystore encrypt`, and how each command gets the passphrase of an encrypted key store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ibkeys.store.keystore.keystore import KeyStore
from tests.cli.conftest import KEY, OTHER_KEY, Cli, Result, Terminal
from tests.cli.keystore.conftest import NEW_WORDS, NODE03, WORDS, listed, store_path


@pytest.fixture
def sealed(said: Cli, cache: Path, private: Callable[[str, str], str]) -> str:
    """Encrypt the imported keys; return the option's value that opens them."""
    said("keystore", "import", cache)
    words = f"@{private('words', f'{WORDS}{chr(10)}')}"
    result = said("keystore", "encrypt", "--new-passphrase", words)
    assert (result.code, result.err) == (0, "")
    assert result.out.endswith("fabric.keys: 2 keys, encrypted\n")
    return words


def test_list_of_an_encrypted_store_needs_no_passphrase(said: Cli, cli: Cli, sealed: str) -> None:
    document = listed(said)
    assert document["encrypted"]
    assert [row["m_key"] for row in document["keys"]] == [None, None]
    without = said("keystore", "list", "-K", "-f", "json")
    assert (without.code, [row["m_key"] for row in without.json["keys"]]) == (0, [None, None])
    assert "keys are not shown" in without.err
    shown = listed(cli, "-K", "--keystore-passphrase", sealed)
    assert [row["m_key"] for row in shown["keys"]] == [f"{KEY:#018x}", f"{OTHER_KEY:#018x}"]


def test_wrong_passphrase_is_one_line(said: Cli, sealed: str, private: Callable[[str, str], str]) -> None:
    wrong = f"@{private('wrong', NEW_WORDS)}"
    for command in (("keystore", "list", "-K"), ("mkey-show", 2), ("keystore", "encrypt", "--decrypt")):
        result = said(*command, "--keystore-passphrase", wrong)
        assert (result.code, "not the passphrase" in result.error) == (3, True)


def test_an_export_of_an_encrypted_store_without_keys_needs_its_passphrase(
    said: Cli, private: Callable[[str, str], str], tmp_path: Path
) -> None:
    right, wrong = f"@{private('words', WORDS)}", f"@{private('wrong', NEW_WORDS)}"
    with KeyStore(store_path(tmp_path)):
        pass
    assert said("keystore", "encrypt", "--new-passphrase", right).code == 0
    for words, code in ((wrong, 3), (right, 0)):
        result = said("keystore", "export", tmp_path / "files", "--keystore-passphrase", words)
        assert (result.code, "not the passphrase" in result.err) == (code, bool(code))


def test_commands_on_a_fabric_use_it_or_end(said: Cli, sealed: str, key_file: Path, tmp_path: Path) -> None:
    # the store has keys of ports without their places, and no SM is there to say where they are
    set_key = ("mkey-set", 3, "--new-m-key", f"@{key_file}", "--protect", 2, "--yes", "--override", "lease-0")
    new = (*set_key, "--ask-unproven")
    result = said(*new)
    assert result.code == 3
    assert "--keystore-passphrase @FILE" in result.err
    assert said(*new, "--keystore-passphrase", sealed).code == 0
    assert said("mkey-show", 3, "--keystore-passphrase", sealed).code == 0
    assert KEY.to_bytes(8) not in store_path(tmp_path).read_bytes()
    with KeyStore(store_path(tmp_path)) as store:
        assert store.is_encrypted
        assert {row.state for row in store.outline() if row.port_guid == int(NODE03, 16)} >= {"current"}


def test_passphrase_from_standard_input_or_the_environments_file(
    cli: Cli, sealed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = cli("keystore", "list", "-K", "-f", "json", "--keystore-passphrase", "-", stdin=f"{WORDS}\n")
    assert shown.json["keys"][0]["m_key"] == f"{KEY:#018x}"
    monkeypatch.setenv("IBKEYS_KEYSTORE_PASSPHRASE", sealed)
    assert listed(cli, "-K")["keys"][0]["m_key"] == f"{KEY:#018x}"


@pytest.mark.parametrize("value", [WORDS, "-"])
def test_environment_takes_only_a_file(said: Cli, sealed: str, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("IBKEYS_KEYSTORE_PASSPHRASE", value)
    for command in (("keystore", "list"), ("mkey-show", 2)):
        result = said(*command)
        assert (result.code, "must be @FILE" in result.error) == (2, True)


@pytest.mark.parametrize("option", ["--keystore-passphrase", "--new-passphrase"])
def test_passphrase_in_clear_on_the_command_line_is_refused(said: Cli, sealed: str, option: str) -> None:
    result = said("keystore", "encrypt", option, WORDS)
    assert (result.code, "must be @FILE, or -" in result.error) == (2, True)


def test_terminal_is_asked_twice_for_a_new_passphrase_and_once_for_the_old(
    monkeypatch: pytest.MonkeyPatch, said: Cli, cache: Path, tmp_path: Path
) -> None:
    said("keystore", "import", cache)
    answers: list[str] = []
    monkeypatch.setattr("getpass.getpass", lambda *_: answers.pop(0))

    def asked(*args: object, answer: list[str]) -> Result:
        answers[:] = answer
        result = said(*args, stdin=Terminal())
        assert answers == []
        return result

    assert "the two texts that were typed differ" in asked("keystore", "encrypt", answer=[WORDS, NEW_WORDS]).error
    assert asked("keystore", "encrypt", answer=[WORDS, WORDS]).code == 0
    assert asked("mkey-show", 2, "--ask-unproven", answer=[WORDS]).code == 0
    assert asked("keystore", "list", answer=[]).code == 0
    assert asked("keystore", "encrypt", answer=[WORDS, NEW_WORDS, NEW_WORDS]).code == 0
    assert asked("keystore", "encrypt", "--decrypt", answer=[NEW_WORDS]).out.endswith("2 keys, in clear\n")
    with KeyStore(store_path(tmp_path)) as store:
        assert len(store.rows()) == 2


def test_empty_passphrase_is_refused(said: Cli, cache: Path) -> None:
    said("keystore", "import", cache)
    assert "empty" in said("keystore", "encrypt", "--new-passphrase", "-", stdin="\n").error


def test_doctor_of_an_encrypted_store(said: Cli, sealed: str) -> None:
    assert "2 keys of 2 ports, encrypted" in said("doctor", "--keystore-passphrase", sealed).out
    without = said("doctor")
    assert without.code == 1
    assert "--keystore-passphrase" in without.out

"""--confirm-within and --unconfirmed of runs of M_Keys: what goes with what, and what the child is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ibkeys.store.keystore.keystore import KeyStore
from tests.cli.conftest import KEY, TWO_SWITCH, Cli, run

WITHIN = ("--confirm-within", 5)


@pytest.mark.parametrize(
    ("command", "words", "why"),
    [
        ("mkey-deploy", ["--same", *WITHIN], "--confirm-within: only through OpenSM"),
        ("mkey-remove", WITHIN, "mkey-remove raises no level"),
        ("mkey-deploy", ["--unconfirmed", 1], "--unconfirmed is gone: use `ibkeys undo ID`"),
        ("mkey-deploy", ["--confirm-within", 0], "--confirm-within"),
    ],
)
def test_what_does_not_go_together(cli: Cli, command: str, words: Sequence[object], why: str) -> None:
    result = cli(command, *words, "--yes")
    assert (result.code, why in result.error) == (2, True), result.err


def test_what_waits_for_nothing_is_neither_confirmed_nor_lowered(cli: Cli) -> None:
    assert cli("mkey-deploy", "--same", "--protect", 2, "--lease", 60, "--yes").code == 0
    for words in (("confirm", 1), ("undo", "--unconfirmed", 1)):
        result = cli(*words)
        assert (result.code, "operation 1 " in result.error, "not waiting for a confirmation" in result.error) == (
            3,
            True,
            True,
        ), result.err
    for words in (("confirm", 9), ("undo", "--unconfirmed", 9)):
        result = cli(*words)
        assert (result.code, "has no operation 9" in result.error) == (3, True), result.err


def test_lowering_a_level_has_no_dry_run(cli: Cli) -> None:
    cli("mkey-deploy", "--same", "--protect", 2, "--lease", 60, "--yes")
    result = cli("undo", "--unconfirmed", 1, "--dry-run")
    assert (result.code, "omit --dry-run" in result.error) == (2, True), result.err


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a child of --confirm-within is made with, and told; no process is."""
    heard: list[Any] = []

    class Child:
        def __init__(
            self, command: Sequence[str], is_unconfirmed: Callable[[int, int], bool], seconds: float, closes_files: bool
        ) -> None:
            heard.append((list(command), seconds, is_unconfirmed(1, 1)))

        def send_key(self, key: object) -> None:
            heard.append(key)

        def close(self) -> None:
            heard.append("left")

    monkeypatch.setattr("ibkeys.mkeys.confirming.Guardian", Child)
    return heard


def test_the_child_gets_the_way_and_no_key(children: list[Any], tmp_path: Path) -> None:
    backend = f"{TWO_SWITCH},state={tmp_path / 'fabric'}"
    waits = ("--wait", 77, "--standby-wait", 99)
    words = ("--via", "opensm", *waits, "--sm-host", "sm2", *WITHIN, "-y", f"{KEY:#x}", "--yes")
    result = run("mkey-rotate", *words, "--backend", backend)
    assert (result.code, "omit --sm-host" in result.err) == (2, True), result.err
    (command, seconds, is_unconfirmed), key, left = children
    assert command[1:7] == ["-m", "ibkeys", "undo", "--unconfirmed", "--wait=77", "--standby-wait=99"]
    assert {"--sm-host=sm2", f"--backend={backend}"} <= set(command)
    assert not any(f"{KEY:x}" in word.lower() for word in command)
    assert (seconds, is_unconfirmed, key.reveal(), left) == (5, True, KEY, "left")


def test_a_dry_run_leaves_no_child(children: list[Any], cli: Cli) -> None:
    assert cli("mkey-rotate", "--via", "opensm", *WITHIN, "--dry-run").code == 2
    assert children == []


def test_an_encrypted_store_needs_a_file_that_the_child_can_read_too(children: list[Any], tmp_path: Path) -> None:
    store, phrase = tmp_path / "keys.db", tmp_path / "phrase"
    phrase.write_text("open sesame\n")
    phrase.chmod(0o600)
    KeyStore(store).close()
    assert run("keystore", "encrypt", "--keystore", store, "--new-passphrase", f"@{phrase}").code == 0
    stores = ("--keystore", store, "--journal", tmp_path / "journal.db")
    words = ("mkey-rotate", "--backend", TWO_SWITCH, *stores, "--via", "opensm", *WITHIN, "--yes")
    result = run(*words)
    assert (result.code, "give --keystore-passphrase @FILE" in result.error) == (2, True), result.err
    assert children == []
    assert run(*words, "--keystore-passphrase", f"@{phrase}").code == 2
    assert f"--keystore-passphrase=@{phrase}" in children[0][0]

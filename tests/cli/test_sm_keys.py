"""`resume`, `undo` and `confirm` of a change of sm_key and sa_key, as far as no OpenSM is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.store.journal import FileImage, Journal, OperationState
from tests.cli.conftest import Cli

STATES: tuple[OperationState, ...] = ("open", "done")


def keep(folder: Path, state: OperationState) -> None:
    """Let the journal have a change of the keys in this state, of which the key store has no keys."""
    with Journal(folder / "fabric.journal") as journal, journal.operation("smkey-rotate") as operation:
        operation.record_file(FileImage("/etc/opensm/opensm.conf", b"a", b"b")).done()
    with Journal(folder / "fabric.journal") as journal:
        journal.set_state(1, state)


def test_a_former_option_names_the_command(cli: Cli) -> None:
    result = cli("smkey-rotate", "--overtaken", "--yes")
    assert (result.code, result.error) == (2, "--overtaken is gone: use `ibkeys resume --overtaken`")


@pytest.mark.parametrize("words", [("--first", 2), ("--first",), ("--confirm-within", 9), ("--confirm-within=9",)])
def test_neither_a_part_nor_a_time_to_confirm_is_for_sm_keys(cli: Cli, words: tuple[object, ...]) -> None:
    option = str(words[0]).partition("=")[0]
    result = cli("smkey-rotate", "--yes", *words)
    assert (result.code, result.error.startswith(f"{option} is not for SM keys: ")) == (2, True)


@pytest.mark.parametrize(
    "words",
    [("resume", "--first", 2), ("resume", "--confirm-within", 9), ("resume", "--at-once", 2), ("undo", "--at-once")],
)
def test_what_it_does_not_have_is_an_option_less(cli: Cli, tmp_path: Path, words: tuple[object, ...]) -> None:
    keep(tmp_path, "open")
    result = cli(*words, "--yes")
    assert (result.code, f"operation 1 (smkey-rotate) has no use for {words[1]}: omit it" in result.error) == (2, True)


def test_nothing_of_it_waits_for_a_confirmation(cli: Cli, tmp_path: Path) -> None:
    keep(tmp_path, "open")
    for state in STATES:
        with Journal(tmp_path / "fabric.journal") as journal:
            journal.set_state(1, state)
        result = cli("confirm", 1)
        assert (result.code, result.error) == (3, "operation 1 (smkey-rotate) is not waiting for a confirmation")


@pytest.mark.parametrize(
    ("state", "resumed", "undone", "codes"),
    [
        (
            "done",
            "operation 1 (smkey-rotate) is not open: it has ended",
            "former SM keys are not restored",
            (3, 2),
        ),
        (
            "undone",
            "operation 1 (smkey-rotate) is not open: it was undone",
            "was taken back, or its record was",
            (3, 3),
        ),
        ("open", "the key store has no keys of operation 1", "the key store has no keys of operation 1", (3, 3)),
    ],
)
def test_one_that_cannot_go_on_or_back_says_why(
    cli: Cli, tmp_path: Path, state: OperationState, resumed: str, undone: str, codes: tuple[int, int]
) -> None:
    keep(tmp_path, state)
    result = cli("resume", 1, "--yes")
    assert (result.code, resumed in result.error) == (codes[0], True), result.err
    result = cli("undo", 1, "--yes")
    assert (result.code, undone in result.error) == (codes[1], True), result.err


def test_the_record_of_one_without_keys_can_be_ended(cli: Cli, tmp_path: Path) -> None:
    keep(tmp_path, "open")
    assert cli("resume", "--overtaken", "--dry-run").code == 1
    result = cli("resume", "--overtaken", "--yes")
    assert (result.code, result.out.startswith("operation 1 (smkey-rotate) has ended: ")) == (0, True), result.err
    with Journal(tmp_path / "fabric.journal") as journal:
        assert journal.find(1).state == "undone"
    result = cli("resume", 1, "--overtaken", "--yes")
    assert (result.code, "operation 1 (smkey-rotate) has ended" in result.error) == (2, True)

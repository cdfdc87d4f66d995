"""``ibkeys harden`` where there is nothing to go through, and beside an apply that is open."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from ibkeys.store.journal import FileImage, Journal, OperationState
from tests.cli.conftest import TWO_SWITCH, Cli, run
from tests.cli.scenes import WAYS, Scene


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "a simulated subnet has no OpenSM on any host"),
        (("--abort",), "--abort is gone: use `ibkeys undo ID`"),
        (("--first", "2"), "--first is not for harden: "),
        (("--confirm-within", "9"), "--confirm-within is not for harden: "),
        (("--profile", "none"), "'none' is not one of"),
        (("--via", "direct"), "'direct' is not 'opensm'"),
        (("--lease", "0"), "--lease"),
        (("--overtaken",), "--overtaken is gone: use `ibkeys resume --overtaken`"),
    ],
)
def test_what_it_cannot_mean_is_wrong_usage(words: tuple[str, ...], said: str) -> None:
    result = run("harden", "--backend", TWO_SWITCH, "--yes", *words)
    assert result.code == 2
    assert said in result.error


def keep(folder: Path, state: OperationState) -> None:
    """Let the journal have a change of part_enforce in this state."""
    with Journal(folder / "fabric.journal") as journal:
        with journal.operation("harden") as operation:
            operation.record_file(FileImage("/etc/opensm/opensm.conf", b"part_enforce off\n", b"part_enforce both\n"))
        journal.set_state(1, state)


@pytest.mark.parametrize(
    ("words", "state", "said"),
    [
        (("resume", "--first", 2), "open", "operation 1 (harden) has no use for --first: omit it"),
        (("resume", "--first", 2, "--overtaken"), "open", "by --overtaken, which only ends its record: omit --first"),
        (("undo", "--at-once"), "open", "operation 1 (harden) has no use for --at-once: omit it"),
        (("resume", 1, "--overtaken"), "undone", "operation 1 (harden) has ended"),
        (("resume",), "open", "a simulated subnet has no OpenSM on any host"),
        (("undo",), "open", "a simulated subnet has no OpenSM on any host"),
        (("undo", 1), "done", "a simulated subnet has no OpenSM on any host"),
    ],
)
def test_what_it_began_goes_on_or_back_with_the_options_that_it_has(
    cli: Cli, tmp_path: Path, words: tuple[object, ...], state: OperationState, said: str
) -> None:
    keep(tmp_path, state)
    result = cli(*words, "--yes")
    assert (result.code, said in result.error) == (2, True), result.err


def test_nothing_of_it_waits_for_a_confirmation(cli: Cli, tmp_path: Path) -> None:
    keep(tmp_path, "open")
    result = cli("confirm", 1)
    assert (result.code, result.error) == (3, "operation 1 (harden) is not waiting for a confirmation")


@pytest.mark.parametrize("is_here", [True, False])
def test_its_policy_finishes_an_apply_that_is_open_on_this_subnet_only(tmp_path: Path, is_here: bool) -> None:
    with ExitStack() as stack:
        scene = Scene(WAYS["apply"]["opensm"], tmp_path, stack)
        if is_here:
            scene.interrupt()
        else:
            scene.go_to_another_subnet()
        words = "--policy {dir}/new.conf --allow-removals --override mkey-under-sm --sm-host sm2"
        scene.type(f"harden --via opensm {words} --dry-run -f json")
        [step] = [each for each in json.loads(scene.out)["steps"] if each["step"] == "partitions"]
    assert step["refusals"] == []
    assert (step["way_back"] == "ibkeys undo 1") == is_here

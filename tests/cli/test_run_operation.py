"""A run of M_Keys is one operation of the journal, from its first port to its end, and going back is the undo of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ibkeys.change.writer import ChangeWriter
from ibkeys.cli.mkeys import run_request
from ibkeys.errors import UsageError
from ibkeys.mkeys.rollout.rest_of_run import plan_rest
from ibkeys.store.journal import Journal
from tests.cli.conftest import Cli, between_commands
from tests.cli.rolling import LEVEL_2, keys_in, shown
from tests.corpus import DATA
from tests.fabricsim import tool


def operations(cli: Cli) -> list[tuple[Any, ...]]:
    """Return (id, command, state, undoes, number of starts) of each operation."""
    found = cli("journal", "-f", "json").json["operations"]
    return [(each["id"], each["command"], each["state"], each["undoes"], len(each["starts"])) for each in found]


def test_a_run_that_goes_on_is_one_operation(cli: Cli) -> None:
    assert cli("mkey-deploy", "--per-port", *LEVEL_2, "--first", 2, "--yes").code == 0
    assert operations(cli) == [(1, "mkey-deploy", "open", None, 1)]
    assert cli("resume", "--yes").code == 0
    assert operations(cli) == [(1, "mkey-deploy", "done", None, 2)]
    assert shown(cli) == {("set", 2, 60)}
    assert cli("undo", 1, "--yes", "--leave-open").code == 0
    assert operations(cli) == [(1, "mkey-deploy", "undone", None, 2), (2, "undo", "done", 1, 1)]
    assert shown(cli) == {("zero", 0, 0)}


def test_after_the_journal_was_lost_a_new_run_takes_the_ports_up_and_no_key_is_lost(cli: Cli, tmp_path: Path) -> None:
    cli("mkey-deploy", "--per-port", *LEVEL_2, "--first", 2, "--yes")
    (tmp_path / "fabric.journal").unlink()
    for words in (("resume",), ("undo",)):
        assert cli(*words, "--yes").code == 3
    assert cli("mkey-deploy", "--per-port", *LEVEL_2, "--yes").code == 0
    assert operations(cli) == [(1, "mkey-deploy", "done", None, 1)]
    assert shown(cli) == {("set", 2, 60)}
    assert cli("mkey-rotate", "--per-port", "--yes").code == 0
    assert shown(cli) == {("set", 2, 60)}


def test_a_run_that_sends_nothing_leaves_no_operation(cli: Cli, tmp_path: Path) -> None:
    assert cli("mkey-deploy", "--per-port", *LEVEL_2, "--dry-run").code == 1
    assert not (tmp_path / "fabric.journal").exists()
    cli("mkey-deploy", "--per-port", *LEVEL_2, "--yes")
    before = operations(cli)
    cli("mkey-deploy", "--per-port", *LEVEL_2, "--yes")
    assert operations(cli) == before


def test_where_several_may_be_meant_none_is_guessed(cli: Cli, tmp_path: Path) -> None:
    cli("mkey-deploy", "--per-port", *LEVEL_2, "--first", 2, "--yes")
    assert cli("pkey-add", 2, "0x8010", "--yes").code == 0
    with Journal(tmp_path / "fabric.journal") as journal:
        journal.set_state(2, "open")
    for words in (("undo",), ("undo", "--dry-run")):
        refused = cli(*words, "--yes")
        assert (
            refused.code,
            "more than one operation fits: operation 1 (mkey-deploy), operation 2 (pkey-add): give the number of one"
            in refused.error,
        ) == (
            2,
            True,
        )
    assert cli("undo", 2, "--yes").code == 0
    assert cli("undo", "--yes").code == 0
    assert operations(cli)[0][2] == "undone"
    assert shown(cli) == {("zero", 0, 0)}


def test_only_what_is_open_is_undone_without_its_number(cli: Cli) -> None:
    cli("mkey-deploy", "--per-port", *LEVEL_2, "--first", 2, "--yes")
    assert cli("pkey-add", 2, "0x8010", "--yes").code == 0
    assert cli("undo", "--yes").code == 0
    assert [each[2] for each in operations(cli)] == ["undone", "done", "done"]
    refused = cli("undo", "--yes")
    named = "the last one is operation 2 (pkey-add), and `ibkeys undo 2` rolls it back"
    assert (refused.code, named in refused.error) == (2, True)


def test_what_lacks_an_operation_has_an_option_less(cli: Cli, tmp_path: Path) -> None:
    cli("mkey-deploy", "--per-port", *LEVEL_2, "--first", 2, "--yes")
    for words, why in {
        ("resume", "--allow-removals"): "operation 1 (mkey-deploy) has no use for --allow-removals: omit it",
        ("resume", "--wait", 5): "--wait: only through OpenSM",
        ("undo", "--at-once"): "operation 1 (mkey-deploy) has no use for --at-once: omit it",
        ("undo", "--standby-wait", 5): "--standby-wait: only through OpenSM",
    }.items():
        refused = cli(*words, "--yes")
        assert (refused.code, why in refused.error) == (2, True), refused.err
    cli("undo", "--yes")
    cli("pkey-add", 2, "0x8010", "--yes")
    for words in (("undo", 3, "--open-while-rotating"), ("undo", 3, "--standby-wait", 5)):
        refused = cli(*words, "--yes")
        assert (refused.code, f"operation 3 (pkey-add) has no use for {words[2]}: omit it" in refused.error) == (
            2,
            True,
        )
    assert cli("resume", "--yes").code == 3
    for number, why in {
        1: "operation 1 (mkey-deploy) is not open: it was undone",
        3: "operation 3 (pkey-add) is not open: `ibkeys undo 3` rolls it back",
        9: "no operation 9",
    }.items():
        refused = cli("resume", number, "--yes")
        assert (refused.code != 0, why in refused.error) == (True, True), refused.err


def test_an_undo_that_was_cut_off_is_finished_as_an_undo(cli: Cli, tmp_path: Path) -> None:
    cli("mkey-deploy", "--per-port", *LEVEL_2, "--yes")
    before = keys_in(tmp_path)
    assert before
    with between_commands(tmp_path) as net:
        net.silence("node04 mlx4_0")
    assert cli("undo", 1, "--yes", "--leave-open", "-t", 50, "--retries", 0).code == 3
    with between_commands(tmp_path) as net:
        net.silence("node04 mlx4_0", False)
    assert cli("resume", "--yes").code == 0
    assert shown(cli) == {("zero", 0, 0)}
    assert [each[:4] for each in operations(cli)] == [(1, "mkey-deploy", "undone", None), (2, "undo", "done", 1)]
    refused = cli("undo", 1, "--yes")
    assert (refused.code, "operation 1 (mkey-deploy) has already been undone by operation 2" in refused.error) == (
        3,
        True,
    )
    refused = cli("undo", 2, "--yes")
    assert (refused.code, "operation 2 restored former M_Keys, and this cannot be undone" in refused.error) == (2, True)


def test_a_run_that_had_failures_is_done_when_nothing_of_it_is_left(cli: Cli, tmp_path: Path) -> None:
    with between_commands(tmp_path) as net:
        net.silence("node04 mlx4_0")
    assert cli("mkey-deploy", "--per-port", *LEVEL_2, "--yes", "-t", 50, "--retries", 0).code in (0, 3)
    with between_commands(tmp_path) as net:
        net.silence("node04 mlx4_0", False)
    cli("resume", "--yes")
    assert [each[1:3] for each in operations(cli)] == [("mkey-deploy", "done")]


def half_undone(cli: Cli, folder: Path) -> None:
    """A deployment, undone on all ports but node04's, which was silent and answers again."""
    cli("mkey-deploy", "--per-port", *LEVEL_2, "--yes")
    with between_commands(folder) as net:
        net.silence("node04 mlx4_0")
    assert cli("undo", 1, "--yes", "--leave-open", "-t", 50, "--retries", 0).code == 3
    with between_commands(folder) as net:
        net.silence("node04 mlx4_0", False)


def test_no_run_begins_while_the_last_one_is_half_undone(cli: Cli, tmp_path: Path) -> None:
    half_undone(cli, tmp_path)
    refused = cli("mkey-deploy", "--per-port", *LEVEL_2, "--yes")
    assert (refused.code, "is half rolled back: `ibkeys resume 1` finishes that" in refused.error) == (4, True)
    assert cli("resume", 1, "--yes").code == 0
    assert cli("mkey-deploy", "--per-port", *LEVEL_2, "--yes").code == 0


def test_an_undo_of_which_nothing_is_left_is_ended(cli: Cli, tmp_path: Path) -> None:
    """As after a kill right before its end: the ports are noted as rolled back."""
    half_undone(cli, tmp_path)
    assert cli("resume", "--yes").code == 0
    with Journal(tmp_path / "fabric.journal") as journal:
        journal.set_state(2, "open")
        journal.set_state(1, "done")
        journal.set_state(2, "open")
    assert cli("resume", "--yes").code == 0
    assert [each[2] for each in operations(cli)] == ["undone", "done"]


def test_a_run_that_had_failures_ends_when_another_one_begins(cli: Cli, tmp_path: Path) -> None:
    cli("mkey-deploy", "--per-port", *LEVEL_2, "--yes")
    with between_commands(tmp_path) as net:
        net.silence("node04 mlx4_0")
    assert cli("mkey-rotate", "--per-port", "--yes", "-t", 50, "--retries", 0).code == 3
    with between_commands(tmp_path) as net:
        net.silence("node04 mlx4_0", False)
    assert operations(cli)[1][2] == "open"
    assert cli("mkey-rotate", "--per-port", "--yes").code == 0
    assert [each[2] for each in operations(cli)] == ["done", "done", "done"]


def test_the_record_of_an_earlier_run_may_be_ended(cli: Cli, tmp_path: Path) -> None:
    for _ in range(2):
        cli("mkey-rotate", "--per-port", "--yes") if operations(cli) else cli(
            "mkey-deploy", "--per-port", *LEVEL_2, "--yes"
        )
    ended = cli("resume", 1, "--overtaken", "--yes")
    assert (ended.code, "operation 1 (mkey-deploy) has ended" in ended.error) == (2, True)
    with Journal(tmp_path / "fabric.journal") as journal:
        journal.set_state(1, "open")
    for words in (("resume", 1), ("undo", 1)):
        refused = cli(*words, "--yes")
        assert (refused.code, "`ibkeys resume 1 --overtaken` ends the record of this one" in refused.error) == (2, True)
    assert cli("resume", 1, "--overtaken", "--dry-run").code == 1
    assert cli("resume", 1, "--overtaken", "--yes").code == 0
    assert [each[2] for each in operations(cli)] == ["undone", "done"]
    assert shown(cli) == {("set", 2, 60)}


def test_only_an_operation_that_another_command_finishes_is_open(cli: Cli, tmp_path: Path) -> None:
    cli("discover")
    with Journal(tmp_path / "fabric.journal") as journal, journal.operation("mkey-recover") as operation:
        operation.put_on_disk()
        operation.keeps_state = True
    refused = cli("resume", "--yes")
    assert (refused.code, "operation 1 (mkey-recover) is finished by typing its command again" in refused.error) == (
        2,
        True,
    )


def test_what_somebody_else_changed_is_not_left_to_be_rolled_back(cli: Cli, tmp_path: Path) -> None:
    half_undone(cli, tmp_path)
    with between_commands(tmp_path) as net:
        net.port("node04 mlx4_0", 1).protect_bits = 3
    assert cli("resume", "--yes").code in (3, 4)
    if operations(cli)[0][2] != "undone":  # refused: only its record is left to be ended
        assert cli("resume", "--overtaken", "--yes").code == 0
    assert operations(cli)[0][2] == "undone"
    assert cli("mkey-deploy", "--per-port", *LEVEL_2, "--yes").code in (0, 3)


@pytest.mark.parametrize("words", [("undo", 1), ("resume", 1), ("undo", 1, "--dry-run")])
def test_a_run_that_another_command_begins_meanwhile_is_not_taken_for_the_one_that_was_named(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, words: tuple[object, ...]
) -> None:
    """Which run is meant is found before the lock is held."""
    goes_on = words[0] == "resume"
    cli("mkey-deploy", "--per-port", *LEVEL_2, *(("--first", 2) if goes_on else ()), "--yes")
    opened = run_request.open_fabric

    def after_another(*args: Any, **more: Any) -> Any:
        monkeypatch.setattr(run_request, "open_fabric", opened)
        assert not goes_on or cli("resume", "--yes").code == 0
        assert cli("mkey-rotate", "--per-port", "--yes").code == 0
        return opened(*args, **more)

    monkeypatch.setattr(run_request, "open_fabric", after_another)
    refused = cli(*words, "--yes")
    assert (refused.code, "another command has begun a run of M_Keys in the meantime" in refused.err) == (4, True)
    assert [each[1:3] for each in operations(cli)] == [("mkey-deploy", "done"), ("mkey-rotate", "done")]


def test_undo_names_no_run_that_does_not_go_back(cli: Cli) -> None:
    cli("mkey-deploy", "--per-port", *LEVEL_2, "--yes")
    cli("mkey-rotate", "--per-port", "--yes")
    assert cli("undo", 2, "--yes").code == 0
    refused = cli("undo", "--yes")
    assert (refused.code, "nothing to undo" in refused.error) == (3, True)
    refused = cli("undo", 1, "--yes")
    assert (refused.code, "this one has ended" in refused.error) == (2, True)


def test_a_finished_run_has_no_record_to_end(cli: Cli) -> None:
    cli("mkey-deploy", "--per-port", *LEVEL_2, "--yes")
    refused = cli("resume", 1, "--overtaken", "--yes")
    assert (refused.code, refused.error.endswith("operation 1 (mkey-deploy) has ended")) == (2, True)


def test_a_run_that_is_being_undone_by_another_command_does_not_go_forward(cli: Cli, tmp_path: Path) -> None:
    half_undone(cli, tmp_path)
    stores = {"keystore": tmp_path / "fabric.keys", "journal": tmp_path / "fabric.journal"}
    with (
        between_commands(tmp_path) as net,
        tool(net, **stores) as fabric,
        ChangeWriter(fabric, "mkey-deploy") as writer,
        pytest.raises(UsageError, match="is half rolled back: `ibkeys resume 1` finishes that"),
    ):
        plan_rest(writer)


@pytest.mark.parametrize("word", ["resume", "undo"])
def test_on_another_subnet_a_run_neither_goes_on_nor_back(cli: Cli, tmp_path: Path, word: str) -> None:
    cli("mkey-deploy", "--per-port", *LEVEL_2, "--first", 2, "--yes")
    before = operations(cli)
    stores = ("--journal", tmp_path / "fabric.journal", "--keystore", tmp_path / "fabric.keys")
    refused = cli(word, 1, "--yes", "--backend", f"sim:{DATA / 'fabrics' / 'dual-home.net'}", *stores)
    assert (refused.code, "not one of the ports of operation 1" in refused.error) == (4, True)
    assert operations(cli) == before

"""The commands that are named for an open operation: they exist, and do what is said of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from ibkeys.change.next_commands import NextCommands, next_commands
from ibkeys.change.writer import ChangeWriter
from ibkeys.cli import COMMANDS, main
from ibkeys.keys.mkey import MKey
from ibkeys.mkeys.set import plan_mkey_set
from ibkeys.store.journal import RunningOperation
from tests.fabricsim import subnet, tool


def options_of(words: list[str]) -> set[str]:
    """Return the options of the command that the first of *words* names, or the first two: ``keystore list``."""
    context, rest = click.Context(main), words
    while isinstance(context.command, click.Group) and rest:
        name, found, rest = context.command.resolve_command(context, rest)
        assert found is not None
        context = click.Context(found, context, name)
    return {name for parameter in context.command.params for name in parameter.opts}


OTHERS = ("harden --abort", "keystore list --settle", "mkey-list --settle")
CHANGING = sorted([*(each for each in COMMANDS if "--yes" in options_of([each])), *OTHERS])


def named() -> Iterator[str]:
    for command in CHANGING:
        commands = next_commands(command, 7, None)
        yield from filter(None, (commands.finish, commands.roll_back))


@pytest.mark.parametrize("typed", sorted({*named()}))
def test_a_command_that_is_named_exists_with_its_options(typed: str) -> None:
    ibkeys, *words = typed.split()
    assert ibkeys == "ibkeys"
    assert {word for word in words if word.startswith("--")} <= options_of(words)


def test_an_undo_is_finished_by_its_own_command_and_reversed_by_another() -> None:
    assert next_commands("undo", 9, 7) == NextCommands("ibkeys resume 9", "ibkeys undo 9")
    assert str(next_commands("pkey-set", 7, None)) == "`ibkeys pkey-set` finishes it, `ibkeys undo 7` rolls it back"


def test_an_interrupted_change_of_a_key_names_no_undo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For that gives no key back: it would be refused."""
    stores = {"keystore": tmp_path / "keys.db", "journal": tmp_path / "journal.db"}
    with (
        tool(subnet("two-switch"), "node03 mlx4_0", **stores) as fabric,
        ChangeWriter(fabric, "mkey-set") as changing,
    ):
        plan = plan_mkey_set(changing, fabric.find_port(2), MKey(0x5D1C93B7A2E4F608), 1, 60)
        record = RunningOperation.record_all

        def stop(operation: RunningOperation, *images: Any, **more: Any) -> None:
            record(operation, *images, **more)
            raise KeyboardInterrupt("by SIGINT")

        monkeypatch.setattr(RunningOperation, "record_all", stop)
        with pytest.raises(KeyboardInterrupt, match=r"operation 1 .* is open: `ibkeys resume 1` finishes it$"):
            changing.apply(plan)

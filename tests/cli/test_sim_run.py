"""The options of `sim run` and `sim shell`, and those of the program that runs there."""

from __future__ import annotations

import click
import pytest

from ibkeys.cli.sim.run import run as sim_run
from tests.cli.conftest import run


@pytest.mark.parametrize("command", ["run", "shell"])
@pytest.mark.parametrize(
    ("mistyped", "meant"), [("--sock", "--socket"), ("--hots", "--host"), ("--socket-nam=lab", "--socket"), ("-x", "")]
)
def test_a_mistyped_option_is_refused(command: str, mistyped: str, meant: str) -> None:
    result = run("sim", command, mistyped, "lab", "--", "true")
    assert (result.code, result.out) == (2, "")
    assert "No such option" in result.error
    assert mistyped.partition("=")[0] in result.error
    assert meant in result.error


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (["--socket", "lab", "--", "--hots", "-x"], ("--hots", "-x")),
        (["opensm", "--sock", "-x", "--host", "a"], ("opensm", "--sock", "-x", "--host", "a")),
        (["--", "ibkeys", "--", "-D"], ("ibkeys", "--", "-D")),
    ],
)
def test_options_after_the_command_are_the_programs(typed: list[str], words: tuple[str, ...]) -> None:
    assert sim_run.make_context("run", typed, parent=click.Context(click.Group("sim"))).params["words"] == words

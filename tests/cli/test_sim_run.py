"""The options of `sim run` and `sim shell`, and those of the program that runs there."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest

from ibkeys.cli.sim.run import run as sim_run
from ibkeys.sim.hosted.servers import RunningServer
from ibkeys.sim.server.umad.wire import HostAnswer
from ibkeys.simulated_host import SimulatedHost
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


@pytest.mark.parametrize("is_ours", [True, False])
def test_no_file_of_a_program_is_in_the_folder_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_ours: bool
) -> None:
    """Whoever may write everywhere, as root, is not the owner of the server for that."""
    server = RunningServer("lab", os.getpid(), os.geteuid() + (not is_ours), HostAnswer("a", str(tmp_path), "", ""))
    monkeypatch.setattr("ibkeys.sim.hosted.servers.ask", lambda *_, **__: server)
    folders: list[Path] = []

    def note(words: object, host: SimulatedHost, *_: object) -> int:
        folders.append(Path(host.folder))
        assert folders[0].is_dir()
        return 0

    monkeypatch.setattr("ibkeys.sim.hosted.program.run", note)
    assert run("sim", "run", "--socket", "lab", "--", "true").code == 0
    assert [folder.parent == tmp_path for folder in folders] == [is_ours]
    assert [*tmp_path.iterdir()] == (folders if is_ours else [])

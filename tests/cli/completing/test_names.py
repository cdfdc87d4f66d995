"""The names of nodes that are kept for completion."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ibkeys.cli.completing import names
from tests.cli.conftest import TWO_SWITCH, Cli, run

OWN = {"Infiniscale-IV Mellanox Technologies", *(f"node{number:02} mlx4_0" for number in range(1, 7))}


def test_a_sweep_keeps_the_names_of_its_nodes(cli: Cli, cache: Path) -> None:
    assert cli("discover").code == 0
    assert set(names.load_names(names.SIMULATED_NODES)) == OWN
    assert [each.name for each in cache.iterdir()] == [names.SIMULATED_NODES]
    assert stat.S_IMODE((cache / names.SIMULATED_NODES).stat().st_mode) == 0o600
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700


def test_what_asks_one_port_keeps_nothing(cli: Cli, cache: Path) -> None:
    assert cli("pkey-show", "-D", "0").code == 0
    assert not cache.exists()


def test_names_are_written_when_they_change_and_no_more(cache: Path) -> None:
    names.save_names(names.NODES, ["b", "a", "b", "$(reboot)"])
    before = (cache / names.NODES).stat().st_ino
    names.save_names(names.NODES, ["a", "b"])
    assert (cache / names.NODES).stat().st_ino == before
    names.save_names(names.NODES, ["c"])
    assert names.load_names(names.NODES) == ["c"]


def test_no_more_names_are_kept_than_a_sweep_may_find(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "MOST_NAMES", 3)
    names.save_names(names.NODES, [f"node{number}" for number in range(10)])
    assert len(names.load_names(names.NODES)) == 3


def test_what_somebody_else_wrote_there_is_looked_at_again(cache: Path) -> None:
    cache.mkdir(parents=True)
    (cache / names.NODES).write_bytes(b"good\n$(reboot)\n-rf\n\xff\xfe\n\nwith\x1b[31m\nfine too\n")
    assert names.load_names(names.NODES) == ["good", "fine too"]


def test_a_cache_that_cannot_be_written_is_no_error(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.parent.write_text("a file in the place of a folder")
    quiet = run("discover", "--backend", TWO_SWITCH)
    assert (quiet.code, quiet.err) == (0, "")
    verbose = run("discover", "--backend", TWO_SWITCH, "-v")
    assert verbose.code == 0
    assert "names of nodes are not saved for completion" in verbose.err


def test_the_folder_of_another_user_is_not_used(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibkeys.cli.completing.names.os.geteuid", lambda: os.getuid() + 1)
    with pytest.raises(OSError, match="not a directory of this user"):
        names.save_names(names.NODES, ["a"])
    assert list(cache.iterdir()) == []


def test_a_link_in_the_place_of_the_list_is_replaced_and_not_followed(cache: Path, tmp_path: Path) -> None:
    cache.mkdir(parents=True)
    target = tmp_path / "target"
    target.write_text("kept\n")
    (cache / names.NODES).symlink_to(target)
    names.save_names(names.NODES, ["a"])
    assert (names.load_names(names.NODES), target.read_text()) == (["a"], "kept\n")


@pytest.mark.parametrize("name", ["../x", "a/b", "$(x)", ""])
def test_a_socket_of_an_odd_name_has_no_list(name: str) -> None:
    with pytest.raises(OSError, match="not a valid file name"):
        names.list_of_server(name)

"""What this host knows of OpenSM: its configurations, who reads one, and where keys are that open a locked port."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ibkeys.managers.opensm import process as opensm_host
from ibkeys.managers.opensm.on_this_host import configs_here, describe_locked_out, readers_of, running_here

Process = Callable[..., Path]


@pytest.fixture
def opensm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Process:
    """A host of its own. Returns what starts an OpenSM there: process id, arguments, environment."""
    monkeypatch.setattr(opensm_host, "PROC", tmp_path / "proc")
    monkeypatch.setattr(opensm_host, "OPENSM_CONFIGS", (tmp_path / "etc.conf", tmp_path / "rdma.conf"))
    monkeypatch.setattr(opensm_host, "OPENSM_CACHE", tmp_path / "var")
    monkeypatch.delenv("IBSIM_SOCKNAME", raising=False)
    (tmp_path / "proc").mkdir()

    def start(pid: int, *arguments: object, **environment: object) -> Path:
        folder = tmp_path / "proc" / str(pid)
        folder.mkdir()
        (folder / "cmdline").write_text("".join(f"{word}\0" for word in ("opensm", *arguments)))
        (folder / "environ").write_text("".join(f"{name}={value}\0" for name, value in environment.items()))
        (folder / "root").symlink_to("/")
        (folder / "cwd").symlink_to(tmp_path)
        return folder

    return start


def test_configurations_are_those_of_running_ones_and_of_the_distribution(tmp_path: Path, opensm: Process) -> None:
    assert configs_here() == []
    for name in ("etc.conf", "own.conf"):
        (tmp_path / name).write_text("")
    (tmp_path / "link.conf").symlink_to(tmp_path / "own.conf")
    opensm(10, "-F", tmp_path / "own.conf")
    opensm(11, "-F", "link.conf")
    opensm(12, "-F", "gone.conf")
    opensm(13)
    assert configs_here() == [tmp_path / "own.conf", tmp_path / "etc.conf"]


def test_who_reads_a_configuration(tmp_path: Path, opensm: Process) -> None:
    opensm(10, "-F", tmp_path / "own.conf")
    opensm(11)
    (tmp_path / "own.conf").write_text("")
    (tmp_path / "link.conf").symlink_to(tmp_path / "own.conf")

    def pids(name: str) -> list[int]:
        return [process.pid for process in readers_of(tmp_path / name)]

    assert (pids("own.conf"), pids("link.conf"), pids("other.conf")) == ([10], [10], [])
    assert pids("etc.conf") == pids("rdma.conf") == [11]  # also while it is not there: OpenSM may look for it


def test_an_opensm_on_another_simulated_subnet_has_nothing_to_do_with_this_one(
    opensm: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    opensm(10, IBSIM_SOCKNAME="lab")
    opensm(11)
    (opensm(12) / "environ").unlink()  # another user's: it may be an SM of this subnet
    assert [process.pid for process in running_here()] == [11, 12]
    monkeypatch.setenv("IBSIM_SOCKNAME", "lab")
    assert [process.pid for process in running_here()] == [10, 12]


def keys(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "guid2mkey").write_text("0x0000000000000011 0x00000000000000a1\n\n")
    return folder


def test_locked_out_it_names_the_running_opensm_and_what_to_type(tmp_path: Path, opensm: Process) -> None:
    cache = keys(tmp_path / "osm")
    assert describe_locked_out(None) == []
    opensm(10, OSM_CACHE_DIR=cache)
    assert describe_locked_out(None) == [
        f"OpenSM runs on this host (process 10) and keeps its key files in {cache}: give "
        f"security_keys={str(cache)!r}, or keep its keys with `ibkeys keystore import {cache}`"
    ]
    assert describe_locked_out(tmp_path / "other") == describe_locked_out(None)
    [used] = describe_locked_out(cache)
    assert "they were used" in used
    assert "give" not in used


def test_locked_out_by_an_opensm_without_key_files_or_whose_directory_is_not_known(
    tmp_path: Path, opensm: Process
) -> None:
    opensm(10, OSM_CACHE_DIR=tmp_path)
    [line] = describe_locked_out(None)
    assert line.endswith(f"keeps its key files in {tmp_path}, which has no guid2mkey yet")
    (tmp_path / "proc" / "10" / "environ").unlink()
    keys(tmp_path / "var")
    [line] = describe_locked_out(None)
    assert f"{tmp_path / 'var'} (unless its OSM_CACHE_DIR says otherwise): give security_keys=" in line


def test_key_files_that_one_left_are_named_too(tmp_path: Path, opensm: Process) -> None:
    keys(tmp_path / "var")
    [line] = describe_locked_out(None)
    assert line.startswith(
        f"an OpenSM that ran on this host left its key files in {tmp_path / 'var'}: give security_keys="
    )


@pytest.mark.parametrize("right", [os.X_OK, os.R_OK])
def test_without_the_right_to_read_them_that_is_said(
    right: int, tmp_path: Path, opensm: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = keys(tmp_path / "osm")
    opensm(10, OSM_CACHE_DIR=cache)
    monkeypatch.setattr(os, "access", lambda _, asked: asked != right)  # root may do everything
    assert f"with the rights to read them, give security_keys={str(cache)!r}" in describe_locked_out(None)[0]


@pytest.mark.parametrize("text", ["", "0x0000000000000011 0x0000000000000000\n\n"])
def test_key_files_without_a_key_are_not_named(tmp_path: Path, opensm: Process, text: str) -> None:
    cache = keys(tmp_path / "osm")
    opensm(10, OSM_CACHE_DIR=cache)
    assert len(describe_locked_out(None)) == 1
    (cache / "guid2mkey").write_text(text)
    assert describe_locked_out(None) == []


def test_two_of_one_directory_are_one_way_in(tmp_path: Path, opensm: Process) -> None:
    cache = keys(tmp_path / "osm")
    opensm(10, OSM_CACHE_DIR=cache)
    opensm(11, OSM_CACHE_DIR=cache)
    assert len(describe_locked_out(None)) == 1

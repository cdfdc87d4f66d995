"""The mark of processes on simulated hosts."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest

from ibkeys.cli.completing import names
from ibkeys.cli.site import file
from ibkeys.cli.site.defaults import site_of
from ibkeys.errors import FileFormatError, UsageError
from ibkeys.managers import settings
from ibkeys.managers.elsewhere.ssh import SshHost
from ibkeys.simulated_host import (
    LIBRARY,
    SimulatedHost,
    folder_name,
    host_of_environment,
    host_of_mounts,
    own_simulated_host,
)
from ibkeys.store.paths import cache_directory, default_directory

HOST = SimulatedHost("lab 1", "node01 mlx5_0", "/tmp/ibkeys-sim-hosts-x/a:b #%\\é")
REAL = "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n30 22 0:5 / /dev rw - devtmpfs devtmpfs rw,size=1k\n"
MARKED = "69 58 0:40 / /dev rw,nosuid,noexec - tmpfs {} rw,mode=755\n"
CONFINED = "Name:\topensm\nNoNewPrivs:\t1\nSeccomp:\t0\n"


def test_a_mark_is_read_as_it_was_written() -> None:
    assert host_of_mounts(REAL + MARKED.format(HOST.source)) == HOST
    assert not {*HOST.source} & {*" \t\n\\#"}  # the kernel would write these in another way
    assert host_of_environment(HOST.variables, CONFINED) == HOST


@pytest.mark.parametrize("status", ["", "NoNewPrivs:\t0\n", "Name:\tNoNewPrivs:\t1\n"])
def test_variables_that_were_copied_are_no_mark(status: str) -> None:
    assert host_of_environment(HOST.variables, status) is None


def test_the_innermost_host_counts() -> None:
    outer = HOST._replace(host="node02")
    assert host_of_mounts(MARKED.format(outer.source) + MARKED.format(HOST.source)) == HOST


@pytest.mark.parametrize(
    "text",
    [
        "",
        REAL,
        "69 58 0:40 / /dev rw - ext4 ibkeys-sim:a:b:c rw\n",
        MARKED.format("ibkeys-sim:a"),
        MARKED.format("other:a:b:c"),
        "69 58 0:40 / /ibkeys-sim:a:b:c rw - tmpfs none rw\n",
        "nonsense\n\n - \n - tmpfs\n",
    ],
)
def test_other_mounts_are_no_mark(text: str) -> None:
    assert host_of_mounts(text) is None


def test_a_program_of_a_real_host_that_only_attaches_has_no_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IBKEYS_SIM_SOCKET", "lab")
    monkeypatch.setenv("IBKEYS_SIM_HOST", "node01")
    monkeypatch.delenv("IBKEYS_SIM_FOLDER", raising=False)
    assert own_simulated_host() is None


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimulatedHost:
    """Be on the simulated host."""
    (tmp_path / "status").write_text(CONFINED)
    monkeypatch.setattr("ibkeys.simulated_host.PROC_SELF", tmp_path)
    for name, value in HOST.variables.items():
        monkeypatch.setenv(name, value)
    return HOST


def test_ibkeys_has_its_stores_with_the_files_of_the_host(there: SimulatedHost) -> None:
    assert default_directory() == there.stores
    assert own_simulated_host() == there


def test_node_names_for_completion_are_with_the_files_of_the_host(
    there: SimulatedHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = tmp_path / "home" / "ibkeys"
    real.mkdir(parents=True)
    (real / names.NODES).write_text("real01\n")
    (real / names.list_of_server("lab")).write_text("node01\n")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    folder = tmp_path / "host"
    monkeypatch.setenv("IBKEYS_SIM_FOLDER", str(folder))
    assert cache_directory() == folder / "cache"
    assert names.load_names(names.NODES) == []
    names.save_names(names.NODES, ["node01"])
    assert names.load_names(names.NODES) == ["node01"]
    assert (real / names.NODES).read_text() == "real01\n"
    assert names.load_names_of_server("lab") == ["node01"]


ATTACHING = {
    "IBKEYS_SIM_SOCKET": "lab",
    "IBKEYS_SIM_HOST": "node01",
    "LD_LIBRARY_PATH": f"/opt/other/lib:{LIBRARY.parent}",
}


@pytest.mark.parametrize("variable", ATTACHING)
def test_a_sweep_of_a_program_that_only_attaches_leaves_the_names_of_real_nodes(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Completion reads the list that the sweep wrote. Each variable has a default, so one of them is enough."""
    for each in (*ATTACHING, "IBKEYS_SIM_FOLDER"):
        monkeypatch.delenv(each, raising=False)
    assert names.list_of_last_sweep("umad") == names.NODES
    assert names.list_of_last_sweep("sim:demo") == names.SIMULATED_NODES
    monkeypatch.setenv(variable, ATTACHING[variable])
    assert own_simulated_host() is None
    assert names.list_of_last_sweep("umad") == names.SIMULATED_NODES


def test_a_simulated_host_has_its_own_list_of_nodes(there: SimulatedHost) -> None:
    assert names.list_of_last_sweep("umad") == names.NODES
    assert names.list_of_last_sweep("sim:demo") == names.SIMULATED_NODES


def test_ibkeys_reads_no_settings_of_the_real_host(
    there: SimulatedHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("nonsense")
    monkeypatch.setattr(settings, "DEFAULT_SETTINGS", wrong)
    monkeypatch.setattr(file, "DEFAULT_SITE", wrong)
    context = click.Context(click.Command("any"))
    context.params = {"site": None}
    assert settings.read_settings_or_default(None) == settings.SmSettings()
    assert site_of(context) is None
    for name in there.variables:
        monkeypatch.delenv(name)
    with pytest.raises(FileFormatError):
        settings.read_settings_or_default(None)
    context.meta.clear()
    with pytest.raises(FileFormatError):
        site_of(context)


def test_ibkeys_opens_no_ssh(there: SimulatedHost) -> None:
    with pytest.raises(UsageError, match="no other host is reached"):
        SshHost("root@sm2").command()


@pytest.mark.parametrize("name", ["..", ".", "...", "", "../..", "/etc", "a/b", "node01 mlx5_0", "\x1b", "a\nb", "%2E"])
def test_the_folder_of_a_host_is_below_that_of_its_server(name: str) -> None:
    assert os.path.dirname(os.path.normpath(os.path.join("/run/hosts", folder_name(name)))) == "/run/hosts"


def test_hosts_have_folders_of_their_own() -> None:
    names = ["..", ".", "", "%", "%2E", "%2E%2E", "a/b", "a%2Fb", "node01"]
    assert len({folder_name(each) for each in names}) == len(names)

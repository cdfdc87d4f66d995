"""The keys that OpenSMs have noted: those of this subnet count, and a neighbour of another subnet stops nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from ibkeys.errors import FileFormatError
from ibkeys.keys.mkey import MKey
from ibkeys.managers.elsewhere.ssh import SshHost
from ibkeys.managers.host_ports import HostInfinibandPort
from ibkeys.managers.hosts import SmHost
from ibkeys.managers.instance import Instance, read_instance
from ibkeys.managers.machines.this_host import THIS
from ibkeys.managers.opensm.command_line import read_command_line
from ibkeys.managers.opensm.process import OpensmProcess
from ibkeys.managers.report import HostReport
from ibkeys.managers.site import ReachedHost
from ibkeys.mkeys.opensm import known_keys
from ibkeys.mkeys.opensm.known_keys import read_key_files

OWN, OTHER = 0x2C903000A1051, 0x2C903000A1052
KEYS = f"0x{OWN:016x} 0x0000000000000077\n\n"
BROKEN = " no record\n"


def opensm(folder: Path, port: int | None, text: str) -> Instance:
    """An OpenSM that was told to use *port*, with a guid2mkey in *folder*."""
    folder.mkdir()
    conf = folder / "opensm.conf"
    conf.write_text("m_key_protection_level 2\n")
    (folder / "guid2mkey").write_text(text)
    words = ["-F", str(conf)] + (["-g", f"{port:#x}"] if port is not None else [])
    process = OpensmProcess(
        int.from_bytes(folder.name.encode()),
        folder,
        True,
        conf,
        command=read_command_line(words),
        environment={"OSM_CACHE_DIR": str(folder)},
        folder=folder,
        view="host",
        program_known=True,
        ticks=1,
    )
    return read_instance(process, THIS.files)


def found(monkeypatch: pytest.MonkeyPatch, *instances: Instance, name: str = "") -> list[tuple[Path, set[MKey]]]:
    """Return the folders and keys that are read of one host with these OpenSMs and the ports OWN and OTHER."""
    ports = () if name else (HostInfinibandPort("mlx4_0", 1, OWN, True), HostInfinibandPort("mlx4_0", 2, OTHER, True))
    monkeypatch.setattr(known_keys, "report_on_host", lambda files, entry, socket: HostReport(name, instances, ports))
    host = SmHost(SshHost(name)) if name else SmHost()
    return [(file.cache, set(file.keys.values())) for file in read_key_files([ReachedHost(host, cast(Any, THIS))], OWN)]


def test_each_that_can_be_read_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = opensm(tmp_path / "a", OWN, KEYS), opensm(tmp_path / "b", OTHER, KEYS)
    assert found(monkeypatch, one, other) == [(tmp_path / "a", {MKey(0x77)}), (tmp_path / "b", {MKey(0x77)})]


def test_an_opensm_of_another_subnet_on_this_host_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = opensm(tmp_path / "a", OWN, KEYS), opensm(tmp_path / "b", OTHER, BROKEN)
    assert found(monkeypatch, other, one) == [(tmp_path / "a", {MKey(0x77)})]


def test_neither_does_one_of_several_on_another_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = opensm(tmp_path / "a", OTHER, KEYS), opensm(tmp_path / "b", OTHER + 1, BROKEN)
    assert found(monkeypatch, other, one, name="sm2") == [(tmp_path / "a", {MKey(0x77)})]


@pytest.mark.parametrize(("port", "name"), [(OWN, ""), (None, ""), (OTHER, "sm2")])
def test_a_file_of_the_opensm_that_is_meant_has_to_be_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, port: int | None, name: str
) -> None:
    """It is that of the local port, the one whose port is not known, or the only one of a host that was named."""
    with pytest.raises(FileFormatError):
        found(monkeypatch, opensm(tmp_path / "a", port, BROKEN), name=name)

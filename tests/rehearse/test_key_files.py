"""The key files of the OpenSM of a rehearsal."""

from __future__ import annotations

from pathlib import Path

from ibkeys.keys.mkey import MKey
from ibkeys.rehearse.key_files import place_key_files
from ibkeys.rehearse.site_opensm import OpensmSource, SiteOpensm
from ibkeys.sim.subnet import Subnet
from ibkeys.store.opensm import MKEY_FILE, NEIGHBORS_FILE, KeyFiles, read_key_files, write_key_files
from tests.fabricsim import subnet

REAL, MADE_UP = 0x1111, 0xAAAA


def keyed_subnet() -> Subnet:
    net = subnet("two-switch")
    for node in net.nodes:
        for port in node.end_ports:
            port.m_key = MADE_UP
    return net


def place(tmp_path: Path, files: KeyFiles | None, source: OpensmSource = "named") -> tuple[Path, list[str], list[MKey]]:
    cache, folder = tmp_path / "cache", tmp_path / "private"
    cache.mkdir()
    folder.mkdir()
    if files is not None:
        write_key_files(cache, files, (MKEY_FILE, NEIGHBORS_FILE))
    replaced: list[MKey] = []

    def made_up(key: MKey) -> MKey:
        replaced.append(key)
        return MKey(MADE_UP if key.reveal() == REAL else key.reveal() ^ 0xF0000)

    opensm = SiteOpensm(Path("/bin/true"), (), Path("/"), source, None, cache)
    notes = list(place_key_files(keyed_subnet(), opensm, folder, folder / "keys", made_up))
    return folder, notes, replaced


def guids() -> list[int]:
    return [port.guid for node in keyed_subnet().nodes for port in node.end_ports]


def test_the_sites_files_are_used_with_made_up_keys_and_ports_with_other_keys_are_named(tmp_path: Path) -> None:
    first, second, *rest = guids()
    keys = {first: MKey(REAL), second: MKey(0x2222), 0x77: MKey(0x3333), **dict.fromkeys(rest, MKey(REAL))}
    folder, notes, replaced = place(tmp_path, KeyFiles(keys, {(first, 1): (second, 2)}))
    found = read_key_files(folder)
    assert found.m_keys[first] == MKey(MADE_UP)
    assert found.m_keys[second] == MKey(0x2222 ^ 0xF0000)
    assert found.neighbors == {(first, 1): (second, 2)}
    assert set(replaced) == {MKey(REAL), MKey(0x2222), MKey(0x3333)}
    [note] = notes
    assert "guid2mkey has another M_Key than 1 port have" in note or "than 1 port" in note
    assert not {"2222", "1111"} & set(note.split())


def test_files_of_another_fabric_are_not_used(tmp_path: Path) -> None:
    folder, [note], replaced = place(tmp_path, KeyFiles({0x77: MKey(0x3333)}))
    assert set(read_key_files(folder).m_keys) == set(guids())
    assert (folder / "keys" / MKEY_FILE).exists()
    assert replaced == []
    assert "has no key files of this fabric" in note


def test_a_running_opensm_without_guid2mkey_gets_none(tmp_path: Path) -> None:
    folder, [note], _ = place(tmp_path, None, "running")
    assert not (folder / MKEY_FILE).exists()
    assert (folder / "keys" / MKEY_FILE).exists()
    assert "so OpenSM uses its m_key for every port" in note

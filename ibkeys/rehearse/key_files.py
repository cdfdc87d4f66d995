"""The key files of a rehearsal's OpenSM: those of the site's, with made-up keys, or files with the ports' keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from ibkeys.keys.mkey import MKey
from ibkeys.managers.simulated_keys import export_keys
from ibkeys.printable import counted, named
from ibkeys.rehearse.site_opensm import SiteOpensm
from ibkeys.sim.subnet import Subnet
from ibkeys.store.opensm import (
    MKEY_FILE,
    NEIGHBORS_FILE,
    KeyFiles,
    find_m_keys,
    read_key_files,
    write_key_files,
)

_MOST = 3


def place_key_files(
    subnet: Subnet, opensm: SiteOpensm, folder: Path, keys: Path, made_up_key: Callable[[MKey], MKey]
) -> Iterator[str]:
    """Write the keys of the ports into *keys*, for ibkeys, and guid2mkey and neighbors for OpenSM into *folder*, its
    cache; yield a note if guid2mkey is missing or differs. *made_up_key*: returns the key that replaces a key of the
    site.

    OpenSM gets the files of the site's OpenSM, with made-up keys, if their guid2mkey has a port of the fabric. Else it
    gets none if the site's OpenSM is running, or no port has a key; otherwise files with the key of every port. Raises
    FileFormatError for a guid2mkey that is damaged, StoreError for a file that cannot be read.
    """
    keys.mkdir()
    has_keys = export_keys(subnet, keys) > 0
    found = _read(opensm.cache)
    ports = {port.guid: port for node in subnet.nodes for port in node.end_ports}
    if found is not None and found.m_keys.keys() & ports.keys():
        mapped = {guid: key if key.is_zero else made_up_key(key) for guid, key in found.m_keys.items()}
        write_key_files(folder, KeyFiles(mapped, found.neighbors), (MKEY_FILE, NEIGHBORS_FILE))
        differing = [port for guid, port in ports.items() if guid in mapped and mapped[guid].reveal() != port.m_key]
        if differing:
            names = named([f"{port.node.description} port {port.number}" for port in differing[:_MOST]])
            yield (
                f"{opensm.cache / MKEY_FILE} has another M_Key than {counted(len(differing), 'port')} have ({names}"
                f"{', ...' if len(differing) > _MOST else ''}): OpenSM reads it only when it starts"
            )
    elif has_keys and opensm.source != "running":
        for file in keys.iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
        yield f"{opensm.cache} has no key files of this fabric: OpenSM gets a guid2mkey that fits the ports"
    elif has_keys:
        yield f"{opensm.cache} has no {MKEY_FILE} of this fabric, so OpenSM uses its m_key for every port"


def _read(cache: Path) -> KeyFiles | None:
    """Return the links and keys that OpenSM finds in *cache*, None if there is no guid2mkey."""
    m_keys = find_m_keys(cache)
    if m_keys is None:
        return None
    return KeyFiles(m_keys, read_key_files(cache, (NEIGHBORS_FILE,), others=(MKEY_FILE,)).neighbors)

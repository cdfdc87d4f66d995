"""The M_Keys of a simulated subnet as OpenSM's key files."""

from __future__ import annotations

from pathlib import Path

from ibkeys.keys.mkey import MKey
from ibkeys.managers.key_files import export_key_files
from ibkeys.managers.opensm.process import opensm_processes
from ibkeys.sim.subnet import Subnet
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.sqlite import utc_now


def export_keys(subnet: Subnet, directory: Path) -> int:
    """Write the M_Keys and links of *subnet* into *directory* as OpenSM's files, and return the number of keys.

    The keys are of a simulated subnet, so they never replace other keys. Raises Refused if the guid2mkey there has keys
    that this subnet does not have, or if a running OpenSM has its files there; StoreError or FileFormatError if the
    files cannot be written, or an earlier one cannot be read.
    """
    ends = (port for node in subnet.nodes for port in node.end_ports)
    cabled = (port for node in subnet.nodes for port in node.all_ports)
    links = [
        (port.guard.guid, port.number, port.peer.guard.guid, port.peer.number)
        for port in cabled
        if port.peer is not None
    ]
    with KeyStore(None) as store:
        store.put_all_imported({port.guid: MKey(port.m_key) for port in ends if port.m_key}, utc_now())
        store.put_links(links)
        return export_key_files(store, directory, processes=opensm_processes()).keys

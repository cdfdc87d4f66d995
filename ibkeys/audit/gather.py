"""Gathering data for comparison from the key store and from this host."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ibkeys.audit.inputs import AuditedHost, StoredPort, StoreView
from ibkeys.errors import IbkeysError
from ibkeys.grouping import grouped
from ibkeys.keys.mkey import MKey
from ibkeys.managers.host_facts import host_facts
from ibkeys.managers.opensm.on_this_host import own_socket
from ibkeys.store.journal import Journal
from ibkeys.store.journal.runs import Runs
from ibkeys.store.keystore.key_table import KeyState
from ibkeys.store.keystore.keystore import TRY_ORDER, KeyStore, StoredKey
from ibkeys.store.keystore.sealing import Passphrase
from ibkeys.store.opensm import MKEY_FILE, read_key_files
from ibkeys.store.private_files import is_there


def look_at_store(path: Path | None, journal: Path | None, passphrase: Passphrase | None = None) -> StoreView | None:
    """Return the contents of the key store, with the ports that an unfinished run in *journal* changes; None if there
    is no key store.

    Raises StoreError, StoreSealed.
    """
    if path is None or not is_there(path, "key store"):
        return None
    with KeyStore(path, create=False, upgrade=False, passphrase=passphrase) as store:
        rows = grouped(store.rows(), lambda row: row.port_guid)
        return StoreView({guid: _stored_port(found) for guid, found in rows.items()}, _changing(journal))


def _changing(path: Path | None) -> frozenset[int]:
    with Journal.read(path) as journal:
        runs = Runs(journal)
        last = runs.last()
        if last is None or not last.is_open:
            return frozenset()
        return frozenset(port.port_guid for port in runs.ports(last.id) if port.state != "skipped")


def _stored_port(rows: list[StoredKey]) -> StoredPort:
    newest = sorted(rows, key=lambda row: (row.since, row.ref), reverse=True)
    ordered = sorted(newest, key=lambda row: TRY_ORDER.index(row.state))
    keys: dict[MKey, KeyState] = {}
    for row in ordered:
        keys.setdefault(row.m_key, row.state)
    bits = next((row.m_key_protect_bits for row in ordered if row.m_key_protect_bits is not None), None)
    return StoredPort(bits, [(state, key) for key, state in keys.items()])


def report_on_host(keystore: Path | None, security_keys: Iterable[Path] = ()) -> AuditedHost:
    """Return which files and devices of this host expose or protect keys.

    Nothing is raised: files that cannot be read are unknown to the rules. An OpenSM of another simulated subnet than
    that of this process is left out.
    """
    socket = own_socket()
    facts = host_facts(keystore=keystore, security_keys=security_keys, socket=socket)
    paths = [each.file.path for each in facts.key_files if each.kind == MKEY_FILE]
    return AuditedHost(facts, {path: _guids(path) for path in paths})


def _guids(path: Path) -> frozenset[int] | None:
    try:
        return frozenset(read_key_files(path.parent, (MKEY_FILE,)).m_keys)
    except IbkeysError:
        return None

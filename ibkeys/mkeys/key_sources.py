"""Filling a key ring: from the key store, from OpenSM's key files, from the user's own key."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ibkeys.discovery.keyring import KeyRing
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.store.private_files import is_there

if TYPE_CHECKING:  # a key store and key files are loaded where there are any
    from ibkeys.store.keystore.keystore import KeyStore
    from ibkeys.store.keystore.sealing import Passphrase


@dataclass(frozen=True, slots=True)
class KeySources:
    """The sources of keys for a key ring. ``m_key``: the key for every node; ``fallback``: the key for ports without
    another; ``security_keys``: a directory with OpenSM's ``guid2mkey``, ``neighbors``, ``guid2lid``, and files with
    keys of classes; ``keystore``: a key store file, read if it exists; ``passphrase``: opens it if it is encrypted."""

    m_key: MKey | None = None
    fallback: MKey | None = None
    security_keys: Path | None = None
    keystore: Path | None = None
    trust_topology: bool = False
    ask_unproven: bool = False
    passphrase: Passphrase | None = None
    journal: Path | None = None


def load_ring(sources: KeySources) -> tuple[KeyRing, list[str]]:
    """Return the ring, and warnings about lines of the key files that were left out.

    The key store has priority over the files, because ibkeys set its keys itself. For keys of classes, which ibkeys
    never sets, the files have priority over the key store. Raises StoreError, FileFormatError.
    """
    ring = KeyRing(
        for_all=sources.m_key,
        fallback=sources.fallback or NO_MKEY,
        trust_topology=sources.trust_topology,
        ask_unproven=sources.ask_unproven,
    )
    warnings: list[str] = []
    if sources.security_keys is not None:
        from ibkeys.classkeys.key_files import CLASS_KEY_FILES, read_class_key_files
        from ibkeys.store.opensm import read_key_files

        files = read_key_files(sources.security_keys, others=CLASS_KEY_FILES.values())
        ring.by_guid.update(files.m_keys)
        ring.neighbors.update(files.neighbors)
        ring.lids.update({guid: base for guid, (base, _top) in files.lids.items()})
        warnings += files.warnings
        class_keys, more = read_class_key_files(sources.security_keys)
        ring.class_keys = class_keys
        warnings += more
    if sources.keystore is not None and is_there(sources.keystore, "key store"):
        from ibkeys.store.keystore.keystore import KeyStore

        with KeyStore(sources.keystore, create=False, upgrade=False, passphrase=sources.passphrase) as store:
            add_store(ring, store)
            doubtful = _pending_without_operation(store, sources.journal)
            ring.in_change |= {guid: (ring.by_guid[guid],) for guid in doubtful}
            if sources.fallback is None:
                ring.fallback = next(iter(store.subnet_keys()), NO_MKEY)
    return ring, warnings


def add_store(ring: KeyRing, store: KeyStore) -> None:
    """Add the keys, links and LIDs of a key store to a ring. Its current keys are used; the other keys of a port are
    spares.

    A current key is confirmed unless a change of it is pending, another was imported, or the ring has another one.
    """
    from ibkeys.store.keystore.class_keys import ClassKeyStore

    ring.levels.update(store.levels())
    confirmed = store.confirmed()
    for guid, (first, *spares) in store.all_keys().items():
        if guid in ring.by_guid and ring.by_guid[guid] != first:
            spares.append(ring.by_guid[guid])
            confirmed.discard(guid)
        ring.by_guid[guid] = first
        ring.spares[guid] = tuple(dict.fromkeys(spares))
    ring.confirmed = frozenset(confirmed)
    ring.in_change = store.in_change()
    ring.neighbors.update(store.links())
    ring.link_downed = store.link_downed()
    ring.settled = frozenset(store.settled())
    ring.lids.update({guid: base for guid, (base, _top) in store.lids().items()})
    stored = ClassKeyStore(store).all_keys()
    ring.class_keys = {
        name: {**stored.get(name, {}), **ring.class_keys.get(name, {})} for name in {*stored, *ring.class_keys}
    }


def _pending_without_operation(store: KeyStore, journal: Path | None) -> set[int]:
    """Return the GUIDs of ports with a pending key, beside a current one, that no operation of the *journal* names.

    Such a key was never sent, or the journal was lost. A port without a current key is left out: it had no key, so it
    accepts any, or it has this one.
    """
    pending = store.pending_names()
    if not pending or journal is None:
        return set()
    from ibkeys.errors import StoreError
    from ibkeys.store.journal import Journal

    named: set[str] = set()
    with suppress(StoreError), Journal.read(journal) as stored:
        named = stored.key_names()
    return {guid for guid, names in pending.items() if not names & named}

"""Collecting every key that this run knows or has read, so that a report can be searched for them."""

from __future__ import annotations

from collections.abc import Iterator

from ibkeys.fabric.live import LiveFabric
from ibkeys.hardware.archive.key_forms import KeyForms
from ibkeys.hardware.reading import FabricReading
from ibkeys.store.keystore.class_keys import ClassKeyStore
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.keystore.sm_keys import SmKeys
from ibkeys.store.private_files import is_there


def known_keys(reading: FabricReading) -> KeyForms:
    """Return a search for all known keys: those of options, key files and key store, and those in answers of ports and
    the SA.

    Raises StoreError if the key store cannot be read.
    """
    return KeyForms({*reading.shown_keys, *_of_ring(reading), *_of_store(reading.fabric), *_of_sweep(reading.fabric)})


def _of_ring(reading: FabricReading) -> Iterator[int]:
    ring = reading.fabric.ring
    spares = (key for keys in ring.spares.values() for key in keys)
    of_classes = (key for keys in ring.class_keys.values() for key in keys.values())
    m_keys = (ring.fallback, *ring.by_guid.values(), *ring.learned.values(), *spares)
    for key in (*m_keys, ring.for_all, reading.sm_key, *of_classes):
        if key is not None:
            yield key.reveal()


def _of_store(fabric: LiveFabric) -> Iterator[int]:
    """Yield all keys of the store, including former keys that perhaps no port has any more."""
    paths = fabric.stores
    if paths.keystore is None or not is_there(paths.keystore, "key store"):
        return
    with KeyStore(paths.keystore, create=False, upgrade=False, passphrase=paths.passphrase) as store:
        yield from (row.m_key.reveal() for row in store.rows())
        yield from (key.reveal() for key in store.subnet_keys())
        yield from (row.sm_key.reveal() for row in SmKeys(store).rows())
        for keys in ClassKeyStore(store).all_keys().values():
            yield from (key.reveal() for key in keys.values())


def _of_sweep(fabric: LiveFabric) -> Iterator[int]:
    """Yield the keys that end ports answered to, and the keys in their PortInfo."""
    for port in fabric.swept.end_ports() if fabric.swept is not None else ():
        yield port.m_key.reveal()
        if port.port_info is not None:
            yield port.port_info.m_key

"""Filling a key ring with M_Keys: those of the key store, those of OpenSM's key files, and the user's own key."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ibkeys.arguments import Checked, flag, key, one_of
from ibkeys.discovery.keyring import KeyRing
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.store.private_files import is_there

if TYPE_CHECKING:  # their modules are imported only when a key store or key files exist
    from ibkeys.keys.smkey import SMKey
    from ibkeys.store.keystore.keystore import KeyStore
    from ibkeys.store.paths import StorePaths


@dataclass(frozen=True, slots=True)
class SaAccess:
    """The access to the SA for M_Keys.

    ``sm_key``: its SM_Key (OpenSM's sa_key); ``sm_lid``: LID of the SA, by default the local port's MasterSMLID;
    ``pkey_index``: place in the local P_Key table, by default that of the default partition.
    """

    sm_key: SMKey | int
    sm_lid: int | None = None
    pkey_index: int | None = None

    def __post_init__(self) -> None:
        """Check the values. Raises UsageError if one has a wrong type or is out of bounds."""
        from ibkeys.client.sa import check_access

        check_access(self.sm_key, self.sm_lid, self.pkey_index)


@dataclass(frozen=True, slots=True)
class Keys(Checked):
    """The M_Keys to use, apart from those of the key store.

    ``m_key`` is sent to every node, ``default`` to every node for which no other key is known. ``security_keys``: a
    directory with OpenSM's key files. ``trust_topology``: known keys are also sent over links that could not be proven,
    and keys of other classes to ports without a known place. ``ask_unproven``: a place where a protected port may be is
    queried once without a key: that counts a violation there, and the port's lease may start. ``from_sa``: if set, the
    SA is queried for M_Keys and for the places of their ports; keys and places from the other sources have precedence.
    """

    m_key: MKey | int | None = None
    default: MKey | int | None = None
    security_keys: str | Path | None = None
    trust_topology: bool = False
    ask_unproven: bool = False
    from_sa: SaAccess | None = None
    _rules: ClassVar = {
        **dict.fromkeys(("m_key", "default"), key(MKey, "ibkeys.MKey")),
        "security_keys": one_of((str, Path), "the path of a directory"),
        **dict.fromkeys(("trust_topology", "ask_unproven"), flag()),
        "from_sa": one_of((SaAccess,), "an ibkeys.SaAccess"),
    }


def load_ring(keys: Keys, stores: StorePaths) -> tuple[KeyRing, list[str]]:
    """Return a key ring with *keys* and the keys of the key store, and warnings about lines of the key files that were
    not used. ``keys.from_sa`` is not read here.

    The key store has priority over the files, because ibkeys set its keys itself; a 0 in it has none. For keys of
    classes, which ibkeys never sets, the files have priority over the key store. Raises StoreError, FileFormatError.
    """
    ring = KeyRing(
        for_all=_as_key(keys.m_key),
        fallback=_as_key(keys.default) or NO_MKEY,
        trust_topology=keys.trust_topology,
        ask_unproven=keys.ask_unproven,
    )
    warnings: list[str] = []
    if keys.security_keys:
        folder = Path(keys.security_keys)
        from ibkeys.classkeys.key_files import CLASS_KEY_FILES, read_class_key_files
        from ibkeys.store.opensm import read_key_files

        files = read_key_files(folder, others=CLASS_KEY_FILES.values())
        ring.by_guid.update(files.m_keys)
        ring.neighbors.update(files.neighbors)
        ring.lids.update({guid: base for guid, (base, _top) in files.lids.items()})
        warnings += files.warnings
        class_keys, more = read_class_key_files(folder)
        ring.class_keys = class_keys
        warnings += more
    if stores.keystore is not None and is_there(stores.keystore, "key store"):
        from ibkeys.store.keystore.keystore import KeyStore

        with KeyStore(stores.keystore, create=False, upgrade=False, passphrase=stores.passphrase) as store:
            add_store(ring, store)
            doubtful = _pending_without_operation(store, stores.journal)
            ring.in_change |= {guid: (ring.by_guid[guid],) for guid in doubtful}
            if keys.default is None:
                ring.fallback = next(iter(store.subnet_keys()), NO_MKEY)
    return ring, warnings


def _as_key(key: MKey | int | None) -> MKey | None:
    return MKey(key) if isinstance(key, int) else key


def add_store(ring: KeyRing, store: KeyStore) -> None:
    """Add the keys, links and LIDs of a key store to a key ring. The first key of a port, normally its current one, is
    used; its other keys are spares. If the first is 0 and the ring already has a key for the port, that one is used: a
    port without a key accepts it.

    A current key is confirmed unless a change of it is pending, another key was imported for its port, or the ring
    already has another key for the port. Raises StoreError.
    """
    from ibkeys.store.keystore.class_keys import ClassKeyStore

    ring.levels.update(store.levels())
    confirmed = store.confirmed()
    for guid, (first, *spares) in store.all_keys().items():
        other = ring.by_guid.get(guid, first)
        if other != first:
            confirmed.discard(guid)
            if first.is_zero:
                first, other = other, first
                ring.levels.pop(guid, None)
            spares.append(other)
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

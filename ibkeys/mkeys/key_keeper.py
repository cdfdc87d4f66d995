"""Storing M_Keys before their Sets are sent: the engine hooks for M_Key edits."""

from __future__ import annotations

from collections.abc import Sequence

from ibkeys.change.engine import EngineHooks
from ibkeys.change.pending_set import PendingSet
from ibkeys.discovery.keyring import KeyRing
from ibkeys.errors import StoreError
from ibkeys.mkeys.key_edit import KeyEdit
from ibkeys.store.keystore.keystore import KeyStore


class KeyKeeper(EngineHooks):
    """The engine hooks that store the keys of M_Key edits in the key store, and add verified keys to the key ring."""

    def __init__(self, store: KeyStore, ring: KeyRing) -> None:
        self._store = store
        self._ring = ring

    def write_records(self, ended: Sequence[PendingSet], ready: Sequence[PendingSet]) -> None:
        """Note the results of the Sets *ended*, and store the keys of the Sets *ready*, which are sent next, with one
        sync to disk. Raises StoreError."""
        with self._store.in_one_transaction():
            for each in ended:
                self.note(each, _edit_of(each))
            for each in ready:
                self.keep_keys(_edit_of(each))

    def note_outcome(self, pending: PendingSet, journal_error: StoreError | None) -> None:
        """Add the new key of a port to the key ring, if a Get has proved that the port has it. *journal_error* makes no
        difference."""
        edit = _edit_of(pending)
        if edit.proven_key == "wanted":
            edit.port.end_port.m_key = edit.wanted.key
            self._ring.learn(edit.port.port_guid, edit.wanted.key)

    def keep_keys(self, edit: KeyEdit) -> None:
        """Store the key that is about to be set, and the port's present key. Raises StoreError."""
        store_keys(self._store, edit)

    def note(self, pending: PendingSet, edit: KeyEdit) -> None:
        """Make the key that was set the current one if the port was proven to have it, or give it up if the port still
        has its old key. Raises StoreError."""
        ref = edit.ref
        if ref is None:
            return
        if edit.proven_key == "wanted":
            self._store.promote(ref)
        elif has_old_key(pending, edit) and self._store.get(ref).state == "pending":
            self._store.abandon(ref, "its Set did not take effect")


def store_keys(store: KeyStore, edit: KeyEdit, returns: bool = False, keeps_zero: bool = False) -> bool:
    """Put the key that an edit sets into the key store, as pending, and the key that the port has. Set ``edit.ref`` to
    the row of the wanted key, and return whether that is another row than before.

    A key that stays is stored too, because it may not be readable any more after the Set. *returns*: whether the wanted
    key is a former one of the port, whose row is used again. *keeps_zero*: whether an M_Key 0 that stays gets a row
    too. Raises StoreError.
    """
    before = edit.ref
    edit.ref = _row_of_wanted(store, edit, returns, keeps_zero)
    edit.key_name = None if edit.ref is None else store.name_of(edit.ref)
    return edit.ref != before


def _row_of_wanted(store: KeyStore, edit: KeyEdit, returns: bool, keeps_zero: bool) -> int | None:
    """Put the wanted key into the key store, pending or, if the port has it already, current, and return the number of
    its row; None for a key 0 that stays and gets no row; see `store_keys`."""
    port, old, ref = edit.port, edit.old, edit.ref
    where = port.node.guid, port.port_guid, port.num
    if not edit.keeps_key:
        if ref is not None and returns:
            store.take_up(ref)
            return ref
        if ref is not None and store.get(ref).state == "pending":
            return ref
        return store.put_pending(*where, edit.wanted, None if old.key.is_zero else old)
    if ref is None:
        if old.key.is_zero and not keeps_zero:
            return None
        current = store.current_of(port.port_guid)
        if current is not None and current.m_key == old.key:
            return current.ref
        ref = store.put_pending(*where, old, None)
    store.promote(ref)
    return ref


def has_old_key(pending: PendingSet, edit: KeyEdit) -> bool:
    """Return whether a port whose keys were stored still has its old key: a Get proved that, or its Set was never
    sent."""
    if pending.is_silent:
        return False
    return edit.proven_key == "old" or (bool(pending.entries) and not pending.sent)


def _edit_of(pending: PendingSet) -> KeyEdit:
    assert isinstance(pending.edit, KeyEdit)
    return pending.edit

"""One port of a run: the edit of its M_Key, and its place in the run."""

from __future__ import annotations

from dataclasses import dataclass

from ibkeys.mkeys.key_edit import KeyEdit
from ibkeys.mkeys.key_keeper import store_keys
from ibkeys.store.journal.runs import PortKeys
from ibkeys.store.keystore.keystore import KeyStore


@dataclass(slots=True, eq=False, repr=False)
class PortJob(KeyEdit):
    """One port that a run changes.

    ``sequence``: its place in the order of the run, from 0. ``returns_from``: for a port that is rolled back, the
    number of the key store's row with the key that the rollback replaces; else None.
    """

    sequence: int = 0
    returns_from: int | None = None

    @property
    def goes_back(self) -> bool:
        """Whether the port gets its former key again."""
        return self.returns_from is not None


def keep_keys(store: KeyStore, job: PortJob) -> PortKeys | None:
    """Put the key that is about to be set, and the port's present key, into the key store. Return their names for the
    run in the journal; None if the journal has them already. Raises StoreError."""
    old = job.old
    if job.returns_from is not None and store.get(job.returns_from).m_key == old.key:
        store.promote(job.returns_from)  # the port answered to a Get with this key
    # A key 0 that stays gets a row too: without one, a port of which only level and lease change would not count as
    # begun, and would not be rolled back.
    if not store_keys(store, job, job.goes_back, keeps_zero=not job.goes_back) or job.ref is None:
        return None
    if job.keeps_key:
        return PortKeys(job.sequence, job.key_name, job.key_name, old)
    if job.goes_back:
        return None
    former = None if old.key.is_zero else store.get(job.ref).replaces
    return PortKeys(job.sequence, job.key_name, None if former is None else store.name_of(former), old)

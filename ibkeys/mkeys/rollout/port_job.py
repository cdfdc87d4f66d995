"""One port of a run: the edit of its M_Key, and its place in the run."""

from __future__ import annotations

from dataclasses import dataclass

from ibkeys.mkeys.key_edit import KeyEdit
from ibkeys.mkeys.key_keeper import store_keys
from ibkeys.store.journal.runs import PortKeys
from ibkeys.store.keystore.keystore import KeyStore


@dataclass(slots=True, eq=False, repr=False)
class PortJob(KeyEdit):
    """One port that is to be changed by a run.

    ``sequence``: its place in the run. ``returns_from``: for a port that is rolled back, the row of the key store with
    the key that is replaced.
    """

    sequence: int = 0
    returns_from: int | None = None

    @property
    def goes_back(self) -> bool:
        """Whether the port gets its former key again."""
        return self.returns_from is not None


def keep_keys(store: KeyStore, job: PortJob) -> PortKeys | None:
    """Store the key that is about to be set and the port's present key. Return their names for the record of the run,
    None if the record has them already."""
    old = job.old
    if job.returns_from is not None and store.get(job.returns_from).m_key == old.key:
        store.promote(job.returns_from)  # a Get with it was answered
    # Of a port without a key only level and lease change; without a row it would not count as begun, nor go back.
    if not store_keys(store, job, job.goes_back, keeps_zero=not job.goes_back) or job.ref is None:
        return None
    if job.keeps_key:
        return PortKeys(job.sequence, job.key_name, job.key_name, old)
    if job.goes_back:
        return None
    former = None if old.key.is_zero else store.get(job.ref).replaces
    return PortKeys(job.sequence, job.key_name, None if former is None else store.name_of(former), old)

"""One port that is to be changed in a run, and what of it goes into key store and journal before its Set."""

from __future__ import annotations

from dataclasses import dataclass, field

from ibkeys.change.portinfo import without_key
from ibkeys.change.writer import image_of
from ibkeys.client.address import DirectedAddress
from ibkeys.keys.mkey import MKey
from ibkeys.mad.attributes import PortInfo
from ibkeys.mkeys.key_setting import KeySetting
from ibkeys.store.journal import Entry, Image
from ibkeys.store.keys.keystore import KeyStore
from ibkeys.store.keys.runs import Runs
from ibkeys.topology.model import Port


@dataclass(slots=True, eq=False, repr=False)
class Job:
    """One port that is to be changed: what it has (``old``), what it shall have (``wanted``).

    ``sequence``: its place in the run. ``ref``: the row of the key store with the wanted key, None when it is not
    stored yet. ``returns_from``: for a port that goes back, the row of the key that it leaves. ``shown``: PortInfo as
    the sweep read it. Of the run: ``now``: PortInfo right before the Set, read at ``read_at``; ``image``: what is sent;
    ``asked``: keys tried since the Set.
    """

    port: Port
    sequence: int
    shown: PortInfo
    old: KeySetting
    wanted: KeySetting
    ref: int | None = None
    returns_from: int | None = None
    now: PortInfo = field(default_factory=lambda: PortInfo(bytes(64)))
    read_at: float = 0.0
    image: PortInfo = field(default_factory=lambda: PortInfo(bytes(64)))
    entries: list[Entry] = field(default_factory=list)
    asked: list[MKey] = field(default_factory=list)
    read_twice: bool = False
    asked_twice: bool = False
    counted: bool = False

    @property
    def goes_back(self) -> bool:
        """Whether the port gets its former key again."""
        return self.returns_from is not None

    @property
    def keeps_key(self) -> bool:
        """Whether only level or lease change."""
        return self.wanted.key == self.old.key

    @property
    def route(self) -> DirectedAddress:
        """The route that ends at the port."""
        return DirectedAddress(self.port.agent_path)


def keep_key(store: KeyStore, runs: Runs, run: int, job: Job) -> None:
    """Store the key that is about to be set, and the one that the port has."""
    port, old, wanted = job.port, job.old, job.wanted
    where = port.node.guid, port.port_guid, port.num
    if job.returns_from is not None and store.get(job.returns_from).m_key == old.key:
        store.promote(job.returns_from)  # a Get with it was answered
    if job.keeps_key and job.ref is not None:
        store.promote(job.ref)
    elif job.keeps_key:
        current = store.current_of(port.port_guid)
        if current is None or current.m_key != old.key:
            job.ref = store.put_pending(*where, old.key, old.protect, old.lease, None)
            store.promote(job.ref)
        else:
            job.ref = current.ref
        runs.note_key(run, job.sequence, job.ref, job.ref, old.protect, old.lease)
    elif job.ref is None or (store.get(job.ref).state != "pending" and not job.goes_back):
        job.ref = store.put_pending(
            *where,
            wanted.key,
            wanted.protect,
            wanted.lease,
            None if old.key.is_zero else old.key,
            old_protect_bits=old.protect,
            old_lease_period=old.lease,
        )
        if not job.goes_back:
            old_ref = None if old.key.is_zero else store.get(job.ref).replaces
            runs.note_key(run, job.sequence, job.ref, old_ref, old.protect, old.lease)


def journal_image(job: Job) -> Image:
    """Return what the journal keeps of a job's Set: no key is in it."""
    return image_of(job.port, "PortInfo", job.port.num, without_key(job.now), without_key(job.image), job.ref)

"""Restoring the values that a write of a loopback overwrote, including one of an earlier run that was killed.

The former values are in the journal and every key is in the key store, the same that all commands use. A P_Key table
is restored as by `ibkeys undo`. An M_Key is removed by the change that `ibkeys mkey-set` makes, which the journal
records as the undo of the operation that set the key.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ibkeys.apply.undo import plan_undo
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import Refused
from ibkeys.fabric.handle import PortHandle
from ibkeys.hardware.loopback.ports import NOT_OWN
from ibkeys.hardware.reading import FabricReading
from ibkeys.keys.mkey import NO_MKEY
from ibkeys.mad.attributes import PortInfo
from ibkeys.mkeys.set import KeyPlan, plan_mkey_set
from ibkeys.store.journal import Journal, OperationRecord, RunningOperation
from ibkeys.store.journal.records import Image
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.origin import Origin

COMMAND: Final = "doctor"
"""The command name of these writes in the journal."""


@dataclass(frozen=True, slots=True)
class OverwrittenPorts:
    """An operation of the journal that is not undone, and images of the values before and after it."""

    record: OperationRecord
    images: tuple[Image, ...]


def find_unrestored(journal: Journal) -> list[OverwrittenPorts]:
    """Return the writes of loopbacks that were not restored, the last one first.

    Writes of counters are left out: they cannot be restored.
    """
    unrestored = []
    for record in reversed(journal.list_operations()):
        if record.command != COMMAND or record.undoes is not None or record.state == "undone":
            continue
        # Failed Sets are included. Such a Set may have arrived: the read after it may have reached another port.
        images = tuple(entry.image for entry in journal.entries(record.id))
        if any(image.attribute == "P_KeyTable" or image.key_name is not None for image in images):
            unrestored.append(OverwrittenPorts(record, images))
    return unrestored


def restore_all(reading: FabricReading, writer: ChangeWriter, own_guids: Iterable[int]) -> list[int]:
    """Restore every write that was not restored yet; return the numbers of the operations that made them.

    Raises Refused for a write to a port that is not one of *own_guids*; the errors of the changes, journal and key
    store.
    """
    restored, allowed = [], set(own_guids)
    with Journal.read(reading.fabric.stores.journal) as journal:
        unrestored = find_unrestored(journal)
    for written in unrestored:
        if not {image.port_guid for image in written.images} <= allowed:
            raise Refused(
                f"operation {written.record.id} of the journal wrote a port that is not one of these two, and is not "
                f"put back: name the ports that it wrote; `ibkeys journal {written.record.id}` shows them",
                NOT_OWN,
            )
        if any(image.key_name is not None for image in written.images):
            _restore_key(reading, writer, written)
        else:
            writer.apply(plan_undo(writer, written.record.id))
        restored.append(written.record.id)
    return restored


def _restore_key(reading: FabricReading, writer: ChangeWriter, written: OverwrittenPorts) -> None:
    """Remove the M_Key that was written, and restore level and lease. The port had no key before: see `writes.py`.

    An M_Key that another program has set since then is not removed; the operation is only marked as undone.
    """
    image = written.images[0]
    before = PortInfo(image.before)
    port = _handle_of(reading, image.port_guid)
    if not _has_written_key(reading, port, image):
        _mark_as_undone(reading, writer, written)
        return
    plan = plan_mkey_set(writer, port, NO_MKEY, before.m_key_protect_bits, before.m_key_lease_period)
    undoing = _KeyUndo(
        plan.command,
        plan.changes,
        plan.notes,
        plan.objections,
        stages=plan.stages,
        links_are_stored=True,
        of=written.record.id,
    )
    if undoing.pending:
        writer.apply(undoing)
    else:
        _mark_as_undone(reading, writer, written)


def _has_written_key(reading: FabricReading, port: PortHandle, image: Image) -> bool:
    """Return whether *port* has the M_Key that was written. Raises the errors of reading the port and the key store."""
    stores = reading.fabric.stores
    if image.key_name is None or stores.keystore is None:
        return False
    with KeyStore(stores.keystore, create=False, upgrade=False, passphrase=stores.passphrase) as store:
        return port.read_port_info().m_key == store.named(image.key_name).m_key.reveal()


def _mark_as_undone(reading: FabricReading, writer: ChangeWriter, written: OverwrittenPorts) -> None:
    """Mark the operation as undone in the journal; no Set is sent, because the port does not have the value that it
    wrote."""
    with Journal(reading.fabric.stores.journal) as journal, journal.undo_of(written.record.id, writer.origin):
        pass


def _handle_of(reading: FabricReading, port_guid: int) -> PortHandle:
    """Return a handle on the end port with *port_guid* in the sweep. Raises Refused if there is none, or more than
    one."""
    ports = [port for port in reading.topology.end_ports() if port.guid == port_guid]
    if len(ports) != 1:
        raise Refused(f"GUID 0x{port_guid:016x}: {len(ports)} ports of the fabric have it, not one", NOT_OWN)
    return reading.fabric.handle(ports[0])


@dataclass(slots=True)
class _KeyUndo(KeyPlan):
    """A change of an M_Key that undoes the operation ``of``."""

    of: int = 0

    def begin(self, journal: Journal, origin: Origin) -> RunningOperation:
        """Begin the operation that undoes ``of`` in *journal*, and return it."""
        return journal.undo_of(self.of, origin)

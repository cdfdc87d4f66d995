"""The changes of sm_key and sa_key in the journal, which of them is open, and the commands that finish one or end its
record.

The keys of an open change are ``pending`` in the key store. Several changes may be open on different subnets, with one
journal and one key store. So the journal keeps the names of a change's keys, which no other change sets, and the GUIDs
of ports of its subnet: its SMs, its switches, and the local port. The journal has neither for a change that an earlier
version of ibkeys began, so such a change counts on every subnet.

Pending keys that no change in the journal names belong to a change that was killed before it was in the journal (then
no file has them), or to a journal that was lost. Their subnet is not known. If an options file has one of them, the
next change continues with that key; the other keys are neither used nor changed, and stay pending. A current key that
an earlier version of ibkeys proved is treated alike: it counts on the subnet where an options file has it, and the next
change there notes its name in the journal. If the key store was lost, the keys are lost too, and new ones replace them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ibkeys.change.next_commands import close_command, next_commands, open_elsewhere
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import Refused, StoreError, UsageError
from ibkeys.managers.files.opensm_file import OpensmFile
from ibkeys.smkeys.key_holders import KINDS, keys_in
from ibkeys.store.journal import Journal, OperationRecord
from ibkeys.store.keystore.key_table import KeyState
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.keystore.sm_keys import SmKeyRow, SmKeys
from ibkeys.store.sqlite import guid_text

COMMAND: Final = "smkey-rotate"
NEW_KEYS: Final = f"ibkeys {COMMAND} --via opensm"
"""The command that sets new keys. If the journal was lost, the command finishes the change whose keys an options file
has."""
KEPT_KEYS: Final = "sm_keys"
KEPT_PORTS: Final = "sm_ports"
"""The journal's names of two lists of a change: the names of its keys and of those that were current when it began, and
the GUIDs of ports of its subnet."""
KEPT_DEFAULTS: Final = "sm_defaults"
"""The journal's name of a list: the default and zero keys that a change found in options files after a proven change.
"""


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of sm_key and sa_key on one subnet.

    ``here``: its changes that were not undone, the oldest first; ``elsewhere``: the changes on other subnets.
    ``last_keys``: the names of the keys of the last change in ``here``, and of the keys that were current when it
    began; ``own_keys``: the names of the keys of all changes on this subnet, undone ones included; ``foreign_keys``:
    the names of keys of other or unknown subnets, which are neither read nor changed here; ``last_defaults``: the
    default and zero keys that the last change in ``here`` found in options files.
    """

    here: Sequence[OperationRecord]
    elsewhere: Sequence[OperationRecord]
    last_keys: frozenset[str]
    own_keys: frozenset[str]
    foreign_keys: frozenset[str]
    last_defaults: frozenset[str]

    @classmethod
    def on_subnet(cls, journal: Journal, ports: Collection[str] = ()) -> Changes:
        """Return the changes on the subnet of *ports* (GUIDs as in the journal); without ports, the changes on all
        subnets. Raises StoreError."""
        found = [each for each in journal.list_operations() if each.command == COMMAND]
        keys = {each.id: journal.kept(each.id, KEPT_KEYS) for each in found}
        kept = {each.id: journal.kept(each.id, KEPT_PORTS) for each in found}
        elsewhere = [each for each in found if ports and kept[each.id] and kept[each.id].isdisjoint(ports)]
        here = [each for each in found if each not in elsewhere]
        own, foreign = (frozenset(name for each in group for name in keys[each.id]) for group in (here, elsewhere))
        here = [each for each in here if each.state != "undone"]
        last = here[-1].id if here else 0
        defaults = journal.kept(last, KEPT_DEFAULTS)
        return cls(here, elsewhere, keys.get(last, frozenset()), own, foreign - own, defaults)

    @classmethod
    def on_subnet_of(cls, journal: Journal, operation: int) -> Changes:
        """Return the changes on the subnet of the change with the number *operation*; the changes on all subnets if the
        journal has no ports of that change. Raises StoreError."""
        return cls.on_subnet(journal, journal.kept(operation, KEPT_PORTS))

    @property
    def unfinished(self) -> OperationRecord | None:
        """The last change here, if it has not ended; else None."""
        return self.here[-1] if self.here and self.here[-1].state != "done" else None

    def keys(self, store: KeyStore) -> SmKeys:
        """Return the keys of *store*, without those of other subnets."""
        return SmKeys(store, self.foreign_keys)

    def with_unknown_keys_as_foreign(self, store: KeyStore, files: Iterable[OpensmFile]) -> Changes:
        """Return a copy that takes keys of unknown subnets for foreign: pending and current keys that no change in the
        journal names and none of these options *files* has.

        If the open change is of an earlier version of ibkeys, the journal names no keys for it. Any key may belong to
        it then, so no key is taken for foreign. Raises StoreError, StoreSealed.
        """
        if self.unfinished is not None and not self.last_keys:
            return self
        keys, has = self.keys(store), {each for file in files for each in keys_in(file.data).items()}
        rows = self._rows(store, "pending", "current")
        unnamed = {name: keys.get(row.ref) for name, row in rows.items() if name not in self.own_keys}
        foreign = {name for name, row in unnamed.items() if (row.kind, row.sm_key) not in has}
        return replace(self, foreign_keys=self.foreign_keys | foreign)

    def pending(self, store: KeyStore) -> list[SmKeyRow]:
        """Return the pending keys that are to be set on this subnet: those of the last change. If there is no such key,
        and that change is not open or is of an earlier version of ibkeys, return the pending keys that no change in the
        journal names; see `with_unknown_keys_as_foreign`. No passphrase is needed. Raises StoreError.
        """
        rows = self._rows(store, "pending")
        of_last = [row for name, row in rows.items() if name in self.last_keys]
        if of_last or (self.unfinished is not None and self.last_keys):
            return of_last
        return [row for name, row in rows.items() if name not in self.own_keys]

    def _rows(self, store: KeyStore, *states: KeyState) -> dict[str, SmKeyRow]:
        """Return the keys in one of *states*, without those of other subnets, by their names."""
        names, rows = self.keys(store).names(), self.keys(store).outline()
        return {names[row.ref]: row for row in rows if row.state in states and row.kind in KINDS}


def subnets_of_keys(journal: Journal) -> dict[str, list[str]]:
    """Return a mapping from the name of each key to the GUIDs of ports of its subnet: its SMs, its switches, and the
    local port. A key that no change names is missing; a key of an earlier version of ibkeys has no ports.

    The first change that names a key has set it, or found it current on its own subnet, because changes leave out the
    keys of other subnets. It does not matter how that change ended. Raises StoreError.
    """
    found: dict[str, list[str]] = {}
    for each in journal.list_operations():
        for name in journal.kept(each.id, KEPT_KEYS) if each.command == COMMAND else ():
            found.setdefault(name, sorted(journal.kept(each.id, KEPT_PORTS)))
    return found


def changes_on(writer: ChangeWriter, ports: Collection[int]) -> Changes:
    """Return `Changes.on_subnet` for the journal of *writer*. *ports*: the GUIDs of ports of the subnet. Raises
    StoreError."""
    with Journal.read(writer.fabric.stores.journal) as journal:
        return Changes.on_subnet(journal, {guid_text(each) for each in ports})


def finish_command(operation: int) -> str:
    """Return the command that finishes a change of sm_key and sa_key. *operation*: its number."""
    return str(next_commands(COMMAND, operation, None).finish)


def refuse_while_open(writer: ChangeWriter, ports: Collection[int]) -> list[str]:
    """Raise Refused (``open-run``) while a change on this subnet has not ended, because that change has to be finished
    before another begins. Else return a note on each change that is open on another subnet.

    *ports*: the GUIDs of ports of this subnet. A change whose keys were lost with the key store does not count: it ends
    with the next change. Raises StoreError.
    """
    changes = changes_on(writer, ports)
    unfinished = changes.unfinished
    if unfinished is not None and changes.pending(writer.keystore):
        raise Refused(
            f"operation {unfinished.id} ({COMMAND}) is not finished, and no other change of sm_key and sa_key can "
            f"begin before that: `{finish_command(unfinished.id)}` finishes it",
            "open-run",
        ).unchanged()
    return open_elsewhere(changes.elsewhere)


def require_open(writer: ChangeWriter, operation: int) -> None:
    """Raise UsageError or StoreError for a change that can be neither resumed nor undone, see `why_not_open`."""
    error = why_not_open(writer, operation)
    if error is not None:
        raise error


def why_not_open(writer: ChangeWriter, operation: int) -> UsageError | StoreError | None:
    """Return the error for a change that can be neither resumed nor undone, None for one that can. *operation*: its
    number in the journal. Raises StoreError."""
    with Journal.read(writer.fabric.stores.journal) as journal:
        record = journal.find(operation)
        changes = Changes.on_subnet_of(journal, operation)
    name = f"operation {record.id} ({COMMAND})"
    if record.state in ("done", "undone"):
        return UsageError(f"{name} has ended: `{NEW_KEYS}` sets new keys")
    if changes.here[-1].id != record.id:
        return UsageError(
            f"{name} is not the last change of sm_key and sa_key on its subnet: only the last one can be resumed or "
            f"undone; `{close_command(record.id)}` ends the record of this one"
        )
    if not changes.pending(writer.keystore):
        return StoreError(
            f"the key store has no keys of {name}: they were given up, or the key store was lost, or this is another "
            f"key store; `{NEW_KEYS}` sets new keys on all hosts, and ends the record of this operation"
        )
    return None

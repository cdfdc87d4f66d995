"""Options files that hold what ibkeys wrote: what the wire has shown, and what was interrupted."""

from __future__ import annotations

from ibkeys.errors import KeyGone
from ibkeys.host.conf.references import key_references
from ibkeys.host.replacing.contents import NO_BYTES
from ibkeys.sm.files.opensm_file import OpensmFile
from ibkeys.store.journal import FileEntry, Journal
from ibkeys.store.keys.keystore import KeyStore


def is_proven(conf: OpensmFile, journal: Journal, store: KeyStore) -> bool:
    """Return whether the last change of a file that the *journal* has is done, and left the file as it is now: OpenSM
    has read it, whatever its times say.

    A change of an options file is done when the wire has shown it. *store*: has the keys that the journal refers to. A
    key that it does not have, since it was lost or replaced, proves nothing. Raises FileFormatError, StoreError.
    """
    last = [entry for entry in journal.all_files() if entry.image.key == conf.key][-1:]
    return any(entry.status == "done" and _left_it_so(entry, conf, store) for entry in last)


def is_as_left(conf: OpensmFile, journal: Journal, store: KeyStore) -> bool:
    """Return whether ibkeys wrote a file as it is now: the last change of it that the *journal* has, or the last of an
    operation that has not ended. OpenSM may not have read it. *store* as `is_proven` has it, and raises as that.
    """
    changes = [entry for entry in journal.all_files() if entry.image.key == conf.key]
    not_ended = {record.id for record in journal.list_operations() if record.state in ("open", "failed")}
    last = {entry.operation: entry for entry in changes}.values()
    return any(
        _left_it_so(entry, conf, store) for entry in last if entry is changes[-1] or entry.operation in not_ended
    )


def _left_it_so(entry: FileEntry, conf: OpensmFile, store: KeyStore) -> bool:
    try:
        return (
            entry.image.after not in (None, NO_BYTES)
            and key_references(store).restore(entry.image.after or b"") == conf.data
        )
    except KeyGone:
        return False

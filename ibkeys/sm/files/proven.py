"""Options files that are unchanged since a verified change: OpenSM has read them, whatever their times say."""

from __future__ import annotations

from ibkeys.errors import KeyGone
from ibkeys.host.conf.references import key_references
from ibkeys.host.replacing.contents import NO_BYTES
from ibkeys.sm.files.opensm_file import OpensmFile
from ibkeys.store.journal import Journal
from ibkeys.store.keys.keystore import KeyStore


def is_proven(conf: OpensmFile, journal: Journal, store: KeyStore) -> bool:
    """Return whether the last change of a file that the *journal* has is done, and left the file as it is now.

    A change of an options file is done when the wire has shown it. *store*: has the keys that the journal refers to. A
    key that it does not have, since it was lost or replaced, proves nothing. Raises FileFormatError, StoreError.
    """
    last = [entry for entry in journal.all_files() if entry.image.key == conf.key][-1:]
    try:
        return any(
            entry.status == "done"
            and entry.image.after not in (None, NO_BYTES)
            and key_references(store).restore(entry.image.after or b"") == conf.data
            for entry in last
        )
    except KeyGone:
        return False

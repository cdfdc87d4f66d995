"""Keys of other management classes in the key store, from a subnet manager's files. None is ever removed.

The newest key of a port and class is the one that counts. They are sealed as M_Keys are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ibkeys.keys.classkey import ClassKey
from ibkeys.mad.classes.gmp import ClassName
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.sqlite import guid_number, guid_text

_NEWEST: Final = "SELECT key_class, port_guid, class_key FROM class_keys ORDER BY id"


class ClassKeyStore:
    """The keys of classes in an open key store. All methods raise StoreError, and StoreSealed for a store that is not
    opened; their changes are on disk when they return, or when the store's `KeyStore.in_one_transaction` ends.
    """

    def __init__(self, store: KeyStore) -> None:
        self._store = store
        self._database = store.database

    def put_all_imported(self, name: ClassName, keys: Mapping[int, ClassKey], note: str = "") -> int:
        """Store the keys of one class, by port GUID, and return the number of new ones. A key that is not the newest
        one of its port becomes that, also if it was stored before.
        """
        known = self.all_keys().get(name, {})
        new = {guid: key for guid, key in keys.items() if known.get(guid) != key}
        now = self._store.now()
        with self._store.in_one_transaction():
            for guid, key in new.items():
                owner = guid_text(guid)
                sealed = self._store.stored_form(key, _owner(name, owner))
                row = {"key_class": name, "port_guid": owner, "class_key": sealed, "since": now, "note": note}
                self._database.insert("class_keys", **row)
        return len(new)

    def all_keys(self) -> dict[ClassName, dict[int, ClassKey]]:
        """Return the newest key of each port, by class and port GUID. The keys are masked when they are printed."""
        rows: list[tuple[Any, ...]] = self._database.query(_NEWEST, of="class_keys")
        found: dict[ClassName, dict[int, ClassKey]] = {}
        for name, owner, blob in rows:
            found.setdefault(name, {})[guid_number(owner)] = self._store.opened(blob, _owner(name, owner), ClassKey)
        return found

    def count(self) -> dict[str, int]:
        """Return the number of ports with a key of each class; no passphrase is needed."""
        rows = self._database.query("SELECT key_class, COUNT(DISTINCT port_guid) FROM class_keys GROUP BY key_class")
        return {str(name): int(ports) for name, ports in rows}


def _owner(name: str, port_guid: str) -> str:
    """Return the owner of a key in the form that is sealed with the key."""
    return f"{name} {port_guid}"

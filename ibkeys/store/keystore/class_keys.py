"""Keys of management classes (B_Key, CC_Key, VS_Key, N2N key) in the key store, from files of a subnet manager.

No key is ever removed; the newest key of a port and class is the valid one. The keys are encrypted as M_Keys are.
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
    """The keys of management classes in an open key store.

    All methods raise StoreError. Those that take or return keys raise StoreSealed if the store is encrypted and its
    passphrase is missing or wrong. Changes are on disk when a method returns, or, inside `KeyStore.in_one_transaction`,
    when that ends.
    """

    def __init__(self, store: KeyStore) -> None:
        self._store = store
        self._database = store.database

    def put_all_imported(self, name: ClassName, keys: Mapping[int, ClassKey], note: str = "") -> int:
        """Store *keys*, by port GUID, of the class *name*, and return the number of rows that this adds.

        A key that is the newest key of its port already is not stored again. A key that was the newest one earlier is
        stored again, so that it becomes the newest.
        """
        newest = self.all_keys().get(name, {})
        new = {guid: key for guid, key in keys.items() if newest.get(guid) != key}
        now = self._store.now()
        with self._store.in_one_transaction():
            for guid, key in new.items():
                owner = guid_text(guid)
                sealed = self._store.stored_form(key, _owner(name, owner))
                row = {"key_class": name, "port_guid": owner, "class_key": sealed, "since": now, "note": note}
                self._database.insert("class_keys", **row)
        return len(new)

    def all_keys(self) -> dict[ClassName, dict[int, ClassKey]]:
        """Return the newest key of each port, by class and then port GUID. The keys are masked when they are
        printed."""
        rows: list[tuple[Any, ...]] = self._database.query(_NEWEST, of="class_keys")
        keys: dict[ClassName, dict[int, ClassKey]] = {}
        for name, owner, blob in rows:
            keys.setdefault(name, {})[guid_number(owner)] = self._store.open_key(blob, _owner(name, owner), ClassKey)
        return keys

    def count(self) -> dict[str, int]:
        """Return the number of ports with a key, by class. Needs no passphrase."""
        rows = self._database.query("SELECT key_class, COUNT(DISTINCT port_guid) FROM class_keys GROUP BY key_class")
        return {str(name): int(ports) for name, ports in rows}


def _owner(name: str, port_guid: str) -> str:
    """Return the text that names the class and the port of a key. The encryption binds the key to it."""
    return f"{name} {port_guid}"

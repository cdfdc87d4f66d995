"""A store that encrypts (seals) every key in every table if it has a passphrase. `ibkeys.store.keystore.sealing` seals
the single key. All other data can be read without the passphrase.
"""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from ibkeys.arguments import given
from ibkeys.errors import StoreSealed
from ibkeys.keys.classkey import ClassKey
from ibkeys.keys.mkey import MKey
from ibkeys.keys.secret import Secret64
from ibkeys.keys.smkey import SMKey
from ibkeys.store.keystore.links import TopologyStore
from ibkeys.store.keystore.sealing import SALT_BYTES, Cost, Passphrase, Seal
from ibkeys.store.sqlite import UtcClock, utc_now

Key = TypeVar("Key", bound=Secret64)

OF_THE_SUBNET: Final = "the subnet"
"""The owner of the keys in the table ``subnet_keys``."""
_PROOF: Final = MKey(0)
_KEY_BYTES: Final = 8


class _Keys(NamedTuple):
    """The column of a table that has keys of the type ``kind``. ``owner``: the SQL expression for the owner of the key
    in a row; a key can be opened for its owner only."""

    table: str
    column: str
    owner: str
    kind: type[Secret64]


KEY_TABLES: Final = (
    _Keys("keys", "m_key", "port_guid", MKey),
    _Keys("subnet_keys", "m_key", f"'{OF_THE_SUBNET}'", MKey),
    _Keys("sm_keys", "sm_key", "kind", SMKey),
    _Keys("class_keys", "class_key", "key_class || ' ' || port_guid", ClassKey),
)


class SealedStore(TopologyStore):
    """A store whose keys may be sealed with a passphrase. Methods that take or return a key raise StoreSealed if the
    store is encrypted and *passphrase* is missing or wrong."""

    def __init__(
        self,
        path: Path | None,
        *,
        create: bool = True,
        upgrade: bool = True,
        clock: UtcClock = utc_now,
        passphrase: Passphrase | None = None,
    ) -> None:
        super().__init__(path, create=create, upgrade=upgrade, clock=clock)
        self._passphrase = passphrase

    @property
    def is_encrypted(self) -> bool:
        """Whether the keys in this store are sealed."""
        return bool(self.database.query("SELECT 1 FROM encryption"))

    def encrypt(self, passphrase: Passphrase, cost: Cost | None = None) -> None:
        """Seal all present and future keys with *passphrase*, in place of any present passphrase.

        *cost*: the parameters of scrypt, by default `Cost`. The file is rewritten afterwards, so that its free space
        has no key. Raises StoreSealed, StoreError.
        """
        cost = cost or Cost()
        salt = os.urandom(SALT_BYTES)
        seal = Seal(passphrase.secret(salt, cost))
        row = (salt, cost.n, cost.r, cost.p, seal.seal(_PROOF, "proof"))
        self._reseal(seal, row)
        self._passphrase = passphrase

    def decrypt(self) -> None:
        """Store all keys in plain text again, and rewrite the file. Raises StoreSealed, StoreError."""
        self._reseal(None, None)

    def prove_passphrase(self) -> None:
        """Raise StoreSealed if the store is encrypted and the passphrase is missing or wrong, also if there is no key
        to open."""
        _ = self._seal

    def _reseal(self, seal: Seal | None, row: tuple[object, ...] | None) -> None:
        with self.database.transaction() as connection:
            self.prove_passphrase()
            tables = [(each, self._opened_rows(each)) for each in KEY_TABLES]
            connection.execute("DELETE FROM encryption")
            if row is not None:
                connection.execute("INSERT INTO encryption VALUES (1, ?, ?, ?, ?, ?)", row)
            for each, rows in tables:
                connection.executemany(
                    f"UPDATE {each.table} SET {each.column} = ? WHERE id = ?",
                    [(_key_bytes(seal, key, owner), ref) for ref, key, owner in rows],
                )
        self.__dict__["_seal"] = seal
        self.database.rewrite()

    def _opened_rows(self, each: _Keys) -> list[tuple[int, Secret64, str]]:
        rows = self.database.query(f"SELECT id, {each.column}, {each.owner} FROM {each.table}", of=each.table)
        return [(ref, self.open_key(blob, owner, each.kind), owner) for ref, blob, owner in rows]

    @cached_property
    def _seal(self) -> Seal | None:
        rows = self.database.query("SELECT salt, n, r, p, proof FROM encryption", of="encryption")
        if not rows:
            return None
        [(salt, n, r, p, proof)] = rows
        if n & (n - 1) or not n * r * p:
            raise self.database.damage("an impossible cost of scrypt")
        if self._passphrase is None:
            raise StoreSealed(
                f"{self.path}: the key store is encrypted; its passphrase comes from a terminal, or from "
                + given("--keystore-passphrase @FILE", "Stores(passphrase=)")
            )
        seal = Seal(self._passphrase.secret(salt, Cost(n, r, p)))
        try:
            seal.open(proof, "proof", MKey)
        except StoreSealed:
            raise StoreSealed(f"{self.path}: that is not the passphrase of this key store") from None
        return seal

    def open_key(self, blob: bytes, owner: str, kind: type[Key]) -> Key:
        """Return the key in *blob*, the bytes of a row, as a *kind* of key. *owner*: the owner of the key. Raises
        StoreSealed, StoreError.
        """
        seal = self._seal
        if seal is not None:
            return seal.open(blob, owner, kind)
        if len(blob) != _KEY_BYTES:
            raise self.database.damage("a sealed key in a store that is not encrypted")
        return kind(int.from_bytes(blob))

    def _key(self, blob: bytes, owner: str) -> MKey:
        return self.open_key(blob, owner, MKey)

    def stored_form(self, key: Secret64, owner: str) -> bytes:
        """Return the bytes to store for *key* of *owner*, sealed if the store is encrypted. Raises StoreSealed."""
        return _key_bytes(self._seal, key, owner)


def _key_bytes(seal: Seal | None, key: Secret64, owner: str) -> bytes:
    return key.reveal().to_bytes(_KEY_BYTES) if seal is None else seal.seal(key, owner)

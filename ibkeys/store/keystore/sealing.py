"""Encryption of the keys in a key store by a passphrase: scrypt makes the secret, AES-256-GCM seals each key.

Only the keys are sealed: the ports that have one, its time and level stay readable, and so does the store's topology. A
key that is sealed for one port cannot be used for another: its owner is authenticated with it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar, final

from ibkeys.errors import StoreError, StoreSealed
from ibkeys.keys.secret import Secret64
from ibkeys.lazily import how_to_install

Key = TypeVar("Key", bound=Secret64)

SEALED_BYTES: Final = 36
"""Bytes of a sealed key: nonce 12, key 8, tag 16."""
SALT_BYTES: Final = 16
_NONCE_BYTES: Final = 12
_KEY_BYTES: Final = 32
_MOST_MEMORY: Final = 1 << 30
"""Most bytes of memory for scrypt: a damaged store must not make it use all memory."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one guess of the passphrase (RFC 7914): scrypt uses ``128 * n * r`` bytes of memory."""

    n: int = 1 << 17
    r: int = 8
    p: int = 1

    @property
    def memory(self) -> int:
        """Bytes of memory that scrypt uses."""
        return 128 * self.n * self.r


@final
class Passphrase:
    """A passphrase that the user is asked for once, when it is first needed. It is masked when it is printed, like
    `MKey`."""

    __slots__ = ("__ask", "__secrets", "__text")

    def __init__(self, ask: Callable[[], str]) -> None:
        self.__ask = ask
        self.__text: str | None = None
        self.__secrets: dict[tuple[bytes, Cost], bytes] = {}

    def secret(self, salt: bytes, cost: Cost) -> bytes:
        """Return the 32 bytes that scrypt derives from the passphrase. Raises StoreSealed if there is no passphrase, or
        no library."""
        known = self.__secrets.get((salt, cost))
        if known is None:
            if self.__text is None:
                self.__text = self.__ask()
            known = self.__secrets[salt, cost] = _derive(self.__text, salt, cost)
        return known

    def __repr__(self) -> str:
        return "<passphrase not shown>"

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a passphrase is not pickled")


@final
class Seal:
    """Seals keys, each for one owner, and opens them again."""

    __slots__ = ("__cipher",)

    def __init__(self, secret: bytes) -> None:
        _library()
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self.__cipher = AESGCM(secret)

    def seal(self, key: Secret64, owner: str) -> bytes:
        """Return the sealed *key*; *owner*: its owner, which must be the same when it is opened."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self.__cipher.encrypt(nonce, key.reveal().to_bytes(8), owner.encode())

    def open(self, blob: bytes, owner: str, kind: type[Key]) -> Key:
        """Return the key in *blob*. Raises StoreSealed if it was sealed with another passphrase or for another
        owner."""
        from cryptography.exceptions import InvalidTag

        try:
            return kind(int.from_bytes(self.__cipher.decrypt(blob[:_NONCE_BYTES], blob[_NONCE_BYTES:], owner.encode())))
        except InvalidTag:
            raise StoreSealed(f"the sealed key of {owner} cannot be opened: wrong passphrase, or changed") from None


def _derive(text: str, salt: bytes, cost: Cost) -> bytes:
    if cost.memory > _MOST_MEMORY:
        raise StoreError("the key store is damaged: trying a passphrase would need more memory than ibkeys ever uses")
    _library()
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

    return Scrypt(salt=salt, length=_KEY_BYTES, n=cost.n, r=cost.r, p=cost.p).derive(text.encode())


def _library() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise StoreSealed(
            f"an encrypted key store needs the Python package cryptography: {how_to_install('cryptography')}"
        ) from None

"""Encrypting the keys in a key store by a passphrase: scrypt makes the secret, and AES-256-GCM encrypts each key.

An encrypted key is called sealed. Only the keys are sealed: their ports, times and levels stay readable, and so do
links and LIDs. AES-GCM authenticates the owner of a key with the key, so a key that was sealed for one port cannot be
opened for another.
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
"""The largest number of bytes of memory that scrypt may use, because a damaged store could ask for all memory."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The parameters of scrypt (RFC 7914), which make each guess of the passphrase slow. scrypt uses ``128 * n * r``
    bytes of memory, and does its work ``p`` times."""

    n: int = 1 << 17
    r: int = 8
    p: int = 1

    @property
    def memory(self) -> int:
        """Bytes of memory that scrypt uses."""
        return 128 * self.n * self.r


@final
class Passphrase:
    """A passphrase that *ask* returns; *ask* is called once, when the passphrase is first needed. The passphrase is
    masked when it is printed, like an `MKey`, and cannot be pickled."""

    __slots__ = ("__ask", "__secrets", "__text")

    def __init__(self, ask: Callable[[], str]) -> None:
        self.__ask = ask
        self.__text: str | None = None
        self.__secrets: dict[tuple[bytes, Cost], bytes] = {}

    def secret(self, salt: bytes, cost: Cost) -> bytes:
        """Return the 32 bytes that scrypt derives from the passphrase.

        Raises StoreSealed if the library for encryption is missing, StoreError if *cost* needs too much memory, and the
        errors of *ask*.
        """
        secret = self.__secrets.get((salt, cost))
        if secret is None:
            if self.__text is None:
                self.__text = self.__ask()
            secret = self.__secrets[salt, cost] = _derive(self.__text, salt, cost)
        return secret

    def __repr__(self) -> str:
        return "<passphrase not shown>"

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a passphrase is not pickled")


@final
class Seal:
    """Encrypts (seals) keys, each for one owner, and decrypts (opens) them. *secret*: that of `Passphrase.secret`.
    Raises StoreSealed if the library for encryption is missing."""

    __slots__ = ("__cipher",)

    def __init__(self, secret: bytes) -> None:
        _require_library()
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self.__cipher = AESGCM(secret)

    def seal(self, key: Secret64, owner: str) -> bytes:
        """Return *key* sealed, as 36 bytes. *owner*: a text that `open` needs again."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self.__cipher.encrypt(nonce, key.reveal().to_bytes(8), owner.encode())

    def open(self, blob: bytes, owner: str, kind: type[Key]) -> Key:
        """Return the key in *blob*, the bytes of `seal`, as a *kind* of key. Raises StoreSealed if *blob* was sealed
        with another passphrase or for another owner, or was changed."""
        from cryptography.exceptions import InvalidTag

        try:
            return kind(int.from_bytes(self.__cipher.decrypt(blob[:_NONCE_BYTES], blob[_NONCE_BYTES:], owner.encode())))
        except InvalidTag:
            raise StoreSealed(
                f"the encrypted key of {owner} cannot be opened: the passphrase is wrong, or the key store was changed"
            ) from None


def _derive(text: str, salt: bytes, cost: Cost) -> bytes:
    if cost.memory > _MOST_MEMORY:
        raise StoreError("the key store is damaged: trying a passphrase would need more memory than ibkeys ever uses")
    _require_library()
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

    return Scrypt(salt=salt, length=_KEY_BYTES, n=cost.n, r=cost.r, p=cost.p).derive(text.encode())


def _require_library() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise StoreSealed(
            f"an encrypted key store needs the Python package cryptography: {how_to_install('cryptography')}"
        ) from None

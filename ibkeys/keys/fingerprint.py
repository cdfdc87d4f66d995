"""Fingerprints of M_Keys and class keys: equal keys can be recognized as equal without being shown."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Final, Self, final

from ibkeys.keys.classkey import ClassKey
from ibkeys.keys.mkey import MKey

SECRET_BYTES: Final = 32
_ID: Final = b"ibkeys fingerprints, which secret"
_KEY: Final = b"ibkeys fingerprint of M_Key "
_CLASS_KEY: Final = b"ibkeys fingerprint of class key "


@final
class Fingerprints:
    """Makes fingerprints with one secret: HMAC-SHA-256 of the key, cut to 64 bits, never 0 for a key that is not 0.

    Without the secret, keys cannot be guessed by comparing fingerprints. Only fingerprints of one secret can be
    compared; ``id`` identifies the secret without revealing it.
    """

    __slots__ = ("__secret", "id")

    def __init__(self, secret: bytes) -> None:
        self.__secret = secret
        self.id = self._digest(_ID)[:8].hex()

    @classmethod
    def generate(cls) -> Self:
        """Return an instance with a new random secret: its fingerprints cannot be compared with those of any other."""
        return cls(secrets.token_bytes(SECRET_BYTES))

    def of(self, key: MKey | ClassKey) -> int:
        """Return the fingerprint of *key* as a 64-bit number; 0 for the key 0.

        The fingerprint of a key of another class differs from that of the M_Key with the same number.
        """
        if key.is_zero:
            return 0
        kind = _KEY if isinstance(key, MKey) else _CLASS_KEY
        return int.from_bytes(self._digest(kind + key.reveal().to_bytes(8))[:8]) or 1

    def _digest(self, message: bytes) -> bytes:
        return hmac.digest(self.__secret, message, hashlib.sha256)

    def __repr__(self) -> str:
        return f"<Fingerprints {self.id}>"

"""Masking the data of a report: keys always, addresses and names if hashes were requested.

A hash is made with a secret that is generated for one report and never written, so names or LIDs cannot be guessed by
hashing them, and equal values have equal hashes in all files of the report.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ibkeys.hardware.archive import addresses
from ibkeys.hardware.archive.key_forms import KeyForms
from ibkeys.printable import clean

KEY: Final = "<a key stood here>"
_SALT_BYTES: Final = 32
_SHORTEST_NAME: Final = 3
_NAME: Final = "node_desc"
"""The JSON key whose values are names of nodes."""


class Mask:
    """Masks keys, and if wanted addresses and names, in documents and texts. *keys*: the keys to mask. *hashed*: mask
    GUIDs, LIDs and other addresses too, and *names*. *names*: all names of nodes, hosts and users that may occur."""

    def __init__(self, keys: KeyForms, hashed: bool = False, names: Iterable[str] = ()) -> None:
        self.keys = keys
        self.hashed = hashed
        self._salt = secrets.token_bytes(_SALT_BYTES)
        self._names = _Names(names if hashed else ())

    def document(self, value: Any, key: str = "") -> Any:
        """Return the JSON value *value* masked, with all that it contains. *key*: the JSON key that it belongs to."""
        if isinstance(value, Mapping):
            return {self._key(str(name)): self.document(each, str(name)) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.document(each, key) for each in value]
        if isinstance(value, str):
            return self._value(value, key)
        if isinstance(value, int) and not isinstance(value, bool):
            return self._number(value, key)
        return value

    def text(self, text: str) -> str:
        """Return one line of text for people, masked. If it contains a key, `KEY` replaces all of it."""
        if self.keys.in_text(text):
            return KEY
        if not self.hashed:
            return clean(text)
        return clean(addresses.replace_addresses(self._names.replace_names(text, self._name), self._hash))

    def _key(self, name: str) -> str:
        """Return the JSON key *name* masked: a key may be in it, but no node name and no GUID."""
        return KEY if self.keys.in_text(name) else name

    def _value(self, value: str, key: str) -> str:
        if self.hashed and value and key == _NAME and not self.keys.in_text(value):
            return self._name(value)
        return self.text(value)

    def _number(self, value: int, key: str) -> int | str:
        if self.keys.in_number(value):
            return KEY
        if self.hashed and value and key.endswith("lid"):
            return addresses.replace_lid(value, self._hash)
        return value

    def _name(self, name: str) -> str:
        return self._hash("name", clean(name).lower())

    def _hash(self, kind: str, what: str) -> str:
        digest = hmac.digest(self._salt, f"{kind} {what}".encode("utf-8", "surrogatepass"), hashlib.sha256)
        # Letters from g on only, so that no hash looks like a GUID or contains the digits of a key.
        return f"{kind}-" + "".join(chr(ord("g") + nibble) for byte in digest[:6] for nibble in (byte >> 4, byte & 15))


class _Names:
    """Searches texts for *names*. The time grows with the text and not with the number of names."""

    def __init__(self, names: Iterable[str]) -> None:
        words = (word for name in names for word in (name, clean(name), name.split(" ")[0]))
        self._words = {word.lower() for word in words if len(word) >= _SHORTEST_NAME}
        self._sizes = sorted({len(word) for word in self._words}, reverse=True)

    def replace_names(self, text: str, by: Callable[[str], str]) -> str:
        """Return *text* with each name, and each first word of a name (the host), replaced by the result of *by*.

        If several names begin at one place, the longest is replaced. A name within a word is not replaced.
        """
        parts, at = [], 0
        while at < len(text):
            found = self._longest_at(text, at)
            parts.append(by(found) if found else text[at])
            at += len(found) or 1
        return "".join(parts)

    def _longest_at(self, text: str, at: int) -> str:
        if at and _is_in_word(text[at - 1]):
            return ""
        for size in self._sizes:
            end = at + size
            if text[at:end].lower() in self._words and not _is_in_word(text[end : end + 1]):
                return text[at:end]
        return ""


def _is_in_word(char: str) -> bool:
    return char.isascii() and char.isalnum()

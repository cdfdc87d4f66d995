"""What a report may not say: keys never, GUIDs, LIDs and names not where hashes were asked for.

A hash is made with a secret that is made for one report and never written, so nobody can try names or LIDs against it,
and equal things are equal in all files of the report.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ibkeys.hardware.archive.key_forms import KeyForms
from ibkeys.printable import clean

KEY: Final = "<a key stood here>"
_SALT_BYTES: Final = 32
_GUID: Final = re.compile(
    r"(?<![0-9a-zA-Z])(?:0x[0-9a-f]{9,16}|[0-9a-f]{16}|[0-9a-f]{4}(?::[0-9a-f]{4}){3})(?![0-9a-zA-Z])", re.IGNORECASE
)
_GID: Final = re.compile(r"\bfe[89ab][0-9a-f]::?[0-9a-f:]{4,}", re.IGNORECASE)
_LID: Final = re.compile(r"(\b(?:[a-z_]*_)?lids?(?:\s+|=))([0-9]{1,5})\b", re.IGNORECASE)
_SHORTEST_NAME: Final = 3
_NAMES: Final = frozenset({"node_desc", "name", "host"})
"""Keys of a document whose values are names."""


class Mask:
    """Masks whole documents. *hashed*: GUIDs, LIDs and names too. *names*: all that may be a name of a node or host."""

    def __init__(self, keys: KeyForms, hashed: bool = False, names: Iterable[str] = ()) -> None:
        self.keys = keys
        self.hashed = hashed
        self._salt = secrets.token_bytes(_SALT_BYTES)
        self._named = _pattern(names) if hashed else None

    def document(self, value: Any, key: str = "") -> Any:
        """Return *value*, as JSON has it, masked. *key*: what it is called in the document around it."""
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
        """Return one line of text for people, masked."""
        if self.keys.in_text(text):
            return KEY
        if not self.hashed:
            return clean(text)
        text = self._hash_names(text)
        text = _GID.sub(lambda found: self._hash("gid", found[0].lower()), text)
        text = _GUID.sub(lambda found: self._guid(found[0]), text)
        return clean(_LID.sub(lambda found: found[1] + self._lid(int(found[2])), text))

    def _key(self, name: str) -> str:
        """A key of a document may be made of what was read, as those of counts are; no name and no GUID is."""
        return KEY if self.keys.in_text(name) else name

    def _value(self, value: str, key: str) -> str:
        if self.hashed and value and key in _NAMES and not self.keys.in_text(value):
            return self._hash("name", clean(value))
        return self.text(value)

    def _number(self, value: int, key: str) -> int | str:
        if self.keys.in_number(value):
            return KEY
        if self.hashed and value and key.endswith("lid"):
            return self._lid(value)
        return value

    def _hash_names(self, text: str) -> str:
        if self._named is None:
            return text
        return self._named.sub(lambda found: self._hash("name", clean(found[0])), text)

    def _guid(self, text: str) -> str:
        return self._hash("guid", f"{int(text.lower().removeprefix('0x').replace(':', ''), 16):016x}")

    def _lid(self, lid: int) -> str:
        return self._hash("lid", str(lid))

    def _hash(self, kind: str, what: str) -> str:
        digest = hmac.digest(self._salt, f"{kind} {what}".encode("utf-8", "surrogatepass"), hashlib.sha256)
        # letters only, so that no hash can be taken for a GUID, or hold the digits of a key
        return f"{kind}-" + "".join(chr(ord("g") + nibble) for byte in digest[:6] for nibble in (byte >> 4, byte & 15))


def _pattern(names: Iterable[str]) -> re.Pattern[str] | None:
    """Return what finds every name, and the host's part of it, the longest first; None without names."""
    words = set()
    for name in names:
        for each in (name, clean(name), name.split(" ")[0]):
            if len(each) >= _SHORTEST_NAME:
                words.add(each)
    if not words:
        return None
    found = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    return re.compile(rf"(?<![0-9A-Za-z])(?:{found})(?![0-9A-Za-z])")

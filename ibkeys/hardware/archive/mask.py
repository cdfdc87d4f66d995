"""What a report may not say: keys never, GUIDs, LIDs and names not where hashes were asked for.

A hash is made with a secret that is made for one report and never written, so nobody can try names or LIDs against it,
and equal things are equal in all files of the report.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ibkeys.hardware.archive.key_forms import KeyForms
from ibkeys.printable import clean

KEY: Final = "<a key stood here>"
_SALT_BYTES: Final = 32
_GUID: Final = re.compile(
    r"(?<![0-9a-zA-Z])(?:0x[0-9a-f]{9,16}|[0-9a-f]{16}|[0-9a-f]{4}(?::[0-9a-f]{4}){3})(?![0-9a-zA-Z])", re.IGNORECASE
)
_GID: Final = re.compile(r"\bfe[89ab][0-9a-f]::?[0-9a-f:]{4,}", re.IGNORECASE)
_LID: Final = re.compile(r"(\b(?:[a-z_]*_)?lids?(?:\s+|=|:\s*))([0-9]{1,5})\b", re.IGNORECASE)
_SHORTEST_NAME: Final = 3
_NAMES: Final = frozenset({"node_desc", "name", "host"})
"""Keys of a document whose values are names."""


class Mask:
    """Masks whole documents. *hashed*: GUIDs, LIDs and names too. *names*: all that may be a name of a node or host."""

    def __init__(self, keys: KeyForms, hashed: bool = False, names: Iterable[str] = ()) -> None:
        self.keys = keys
        self.hashed = hashed
        self._salt = secrets.token_bytes(_SALT_BYTES)
        self._names = _Names(names if hashed else ())

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
        return self._names.replaced(text, lambda name: self._hash("name", clean(name)))

    def _guid(self, text: str) -> str:
        return self._hash("guid", f"{int(text.lower().removeprefix('0x').replace(':', ''), 16):016x}")

    def _lid(self, lid: int) -> str:
        return self._hash("lid", str(lid))

    def _hash(self, kind: str, what: str) -> str:
        digest = hmac.digest(self._salt, f"{kind} {what}".encode("utf-8", "surrogatepass"), hashlib.sha256)
        # letters only, so that no hash can be taken for a GUID, or hold the digits of a key
        return f"{kind}-" + "".join(chr(ord("g") + nibble) for byte in digest[:6] for nibble in (byte >> 4, byte & 15))


class _Names:
    """Names of nodes, looked for in texts. What it takes grows with the text and not with the number of names."""

    def __init__(self, names: Iterable[str]) -> None:
        words = (word for name in names for word in (name, clean(name), name.split(" ")[0]))
        self._words = {word for word in words if len(word) >= _SHORTEST_NAME}
        self._sizes = sorted({len(word) for word in self._words}, reverse=True)

    def replaced(self, text: str, by: Callable[[str], str]) -> str:
        """Return *text* with each name, and each host's part of one, replaced by what *by* makes of it. Of names that
        begin at one place the longest counts; one within a word is none."""
        parts, at = [], 0
        while at < len(text):
            found = self._at(text, at)
            parts.append(by(found) if found else text[at])
            at += len(found) or 1
        return "".join(parts)

    def _at(self, text: str, at: int) -> str:
        if at and _is_in_word(text[at - 1]):
            return ""
        for size in self._sizes:
            end = at + size
            if text[at:end] in self._words and not _is_in_word(text[end : end + 1]):
                return text[at:end]
        return ""


def _is_in_word(char: str) -> bool:
    return char.isascii() and char.isalnum()

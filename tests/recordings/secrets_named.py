"""Random values of a scenario: the same at each run, and each shown by a name, such as KEY1, where it is recorded."""

from __future__ import annotations

import random
import re
from typing import Any, Final

_SEED: Final = 20260101
_BITS: Final = 64


class Names:
    """What `secrets` and `os.urandom` return in a scenario, and how it is shown. Names are given in the order in which
    values are recorded, so they do not depend on the order in which they were made."""

    def __init__(self) -> None:
        self._random = random.Random(_SEED)
        self._kinds: dict[str, str] = {}
        self._shown: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None

    # --- in place of the system's random source ----------------------------------------------------------------------

    def below(self, end: int) -> int:
        value = self._random.randrange(end)
        self.keep(value + 1)  # `Secret64.generate` has 1 as its least
        return value

    def token_hex(self, count: int) -> str:
        value = self._random.randbytes(count).hex()
        self._add(value, "NAME")
        return value

    def token_bytes(self, count: int) -> bytes:
        value = self._random.randbytes(count)
        self._add(value.hex(), "BYTES")
        return value

    def keep(self, key: int) -> None:
        """Let a key be shown by a name."""
        self._add(f"{key:016x}", "KEY")

    def give(self, key: int) -> None:
        """Let a key that the scenario gives be shown by the next name of those."""
        value = f"{key:016x}"
        self._add(value, "GIVEN")
        self._name(value)

    def _add(self, value: str, kind: str) -> None:
        self._kinds[value] = kind
        self._pattern = None

    # --- what is recorded ---------------------------------------------------------------------------------------------

    def clean(self, value: Any) -> Any:
        """Return *value*, a JSON document, with names in the place of random values."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, int):
            found = f"{value:016x}" if value >= 1 << 48 else ""
            return self._name(found) if found in self._kinds else value
        if isinstance(value, dict):
            return {self.clean(name): self.clean(each) for name, each in value.items()}
        return [self.clean(each) for each in value] if isinstance(value, list | tuple) else value

    def refuse_keys_in(self, text: str) -> None:
        """Raise AssertionError for a recording with a key in it."""
        text = text.lower()
        for value, kind in self._kinds.items():
            if kind in ("KEY", "GIVEN") and (value in text or str(int(value, 16)) in text):
                raise AssertionError(f"the recording holds the key {self._shown.get(value, value)}")

    def _text(self, text: str) -> str:
        if self._pattern is None:
            forms = {form for value, kind in self._kinds.items() for form in _forms(value, kind)}
            longest_first = sorted(forms, key=lambda form: (-len(form), form))
            self._pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)", re.IGNORECASE)
        return self._pattern.sub(lambda found: self._name(_plain(found[0].lower())), text)

    def _name(self, value: str) -> str:
        if value not in self._kinds:
            value = next(each for each, kind in self._kinds.items() if value in _forms(each, kind))
        if value not in self._shown:
            kind = self._kinds[value]
            count = sum(name.startswith(kind) for name in self._shown.values())
            self._shown[value] = f"{kind}{count + 1}"
        return self._shown[value]


def _forms(value: str, kind: str) -> set[str]:
    """Return how a value may be written: a key also as a number without leading zeros, or decimal."""
    if kind in ("NAME", "BYTES"):
        return {value}
    number = int(value, 16)
    return {value, f"0x{value}", f"{number:#x}", f"{number:x}", str(number)}


def _plain(form: str) -> str:
    return form.removeprefix("0x")

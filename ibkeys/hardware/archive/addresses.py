"""Addresses in a text for people: GUIDs, GIDs, LIDs, and those of the network above, in all spellings that occur.

Texts of other programs are among them: infiniband-diags write GUIDs without leading zeros, and LIDs in hex.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Final

Hashed = Callable[[str, str], str]
"""A function that returns the replacement of an address from its kind and its text in one spelling."""

_BEFORE: Final = r"(?<![0-9a-zA-Z:.-])"
_AFTER: Final = r"(?![0-9a-zA-Z:])"
_PAIRS: Final = re.compile(rf"{_BEFORE}[0-9a-f]{{2}}(?:([:-])[0-9a-f]{{2}})(?:\1[0-9a-f]{{2}}){{4,18}}{_AFTER}", re.I)
"""A MAC has 6 bytes, a GUID 8, the hardware address of IPoIB 20."""
_GROUPS: Final = re.compile(rf"{_BEFORE}[0-9a-f]{{0,4}}(?::[0-9a-f]{{0,4}}){{2,7}}{_AFTER}", re.I)
_QUAD: Final = re.compile(r"(?<![\w.-])[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![\w-]|\.[0-9])")
_GUID: Final = re.compile(
    r"(?<![0-9a-zA-Z])(?:0x[0-9a-f]{9,16}|[0-9a-f]{16}|(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{10,15}"
    r"|[0-9a-f]{4}(?::[0-9a-f]{4}){3})(?![0-9a-zA-Z])",
    re.IGNORECASE,
)
_NUMBER: Final = r"(?:0x[0-9a-f]{1,4}|[0-9]{1,5})(?![0-9a-zA-Z])"
_LIDS: Final = re.compile(
    rf"(?<![0-9a-zA-Z])[a-z_]*lids?[\s:=(\[\"'#]+{_NUMBER}(?:(?:\s*,\s*|\s*-\s*|\s+and\s+|\s+to\s+|\s+or\s+){_NUMBER})*",
    re.IGNORECASE,
)
_ONE: Final = re.compile(rf"(?<![0-9a-zA-Z]){_NUMBER}", re.IGNORECASE)
_GUID_BYTES: Final = 8


def replace_addresses(text: str, hashed: Hashed) -> str:
    """Return *text* with each address replaced by the result of *hashed*."""
    text = _PAIRS.sub(lambda found: _pairs(found[0], hashed), text)
    text = _GROUPS.sub(lambda found: _groups(found[0], hashed), text)
    text = _QUAD.sub(lambda found: hashed("ip", found[0]), text)
    text = _GUID.sub(lambda found: _guid(found[0], hashed), text)
    return _LIDS.sub(lambda found: _ONE.sub(lambda one: lid(int(one[0], _base(one[0])), hashed), found[0]), text)


def lid(number: int, hashed: Hashed) -> str:
    """Return the replacement of a LID."""
    return hashed("lid", str(number))


def _pairs(text: str, hashed: Hashed) -> str:
    digits = re.sub("[:-]", "", text).lower()
    return hashed("guid" if len(digits) == 2 * _GUID_BYTES else "mac", digits)


def _groups(text: str, hashed: Hashed) -> str:
    """Return the replacement of a GID, which is written as an IPv6 address; *text* itself for a time or a part of
    one."""
    try:
        return hashed("gid", ipaddress.IPv6Address(text).packed.hex())
    except ValueError:
        return text


def _guid(text: str, hashed: Hashed) -> str:
    return hashed("guid", f"{int(text.lower().removeprefix('0x').replace(':', ''), 16):016x}")


def _base(text: str) -> int:
    return 16 if text.lower().startswith("0x") else 10

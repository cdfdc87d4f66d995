"""Replacing addresses in a text for people: GUIDs, GIDs, LIDs, MAC and IP addresses, in all spellings that occur.

Some texts come from other programs: infiniband-diags write GUIDs without leading zeros, and LIDs in hex.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Final

Replacer = Callable[[str, str], str]
"""A function that returns the replacement of an address. Its arguments: the kind (guid, gid, lid, mac, ip), and the
address in the one spelling of this kind."""

_BEFORE: Final = r"(?<![0-9a-zA-Z:.-])"
_AFTER: Final = r"(?![0-9a-zA-Z:])"
_PAIRS: Final = re.compile(rf"{_BEFORE}[0-9a-f]{{2}}(?:([:-])[0-9a-f]{{2}})(?:\1[0-9a-f]{{2}}){{4,18}}{_AFTER}", re.I)
"""Matches an address in pairs of hex digits: a MAC (6 bytes), a GUID (8) or the hardware address of IPoIB (20)."""
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
_LID: Final = re.compile(rf"(?<![0-9a-zA-Z]){_NUMBER}", re.IGNORECASE)
_GUID_BYTES: Final = 8


def replace_addresses(text: str, replacer: Replacer) -> str:
    """Return *text* with each address replaced by the result of *replacer*."""
    text = _PAIRS.sub(lambda found: _replace_pairs(found[0], replacer), text)
    text = _GROUPS.sub(lambda found: _replace_groups(found[0], replacer), text)
    text = _QUAD.sub(lambda found: replacer("ip", found[0]), text)
    text = _GUID.sub(lambda found: _replace_guid(found[0], replacer), text)
    return _LIDS.sub(
        lambda found: _LID.sub(lambda match: replace_lid(int(match[0], _base(match[0])), replacer), found[0]), text
    )


def replace_lid(number: int, replacer: Replacer) -> str:
    """Return the replacement of the LID *number*."""
    return replacer("lid", str(number))


def _replace_pairs(text: str, replacer: Replacer) -> str:
    digits = re.sub("[:-]", "", text).lower()
    return replacer("guid" if len(digits) == 2 * _GUID_BYTES else "mac", digits)


def _replace_groups(text: str, replacer: Replacer) -> str:
    """Return the replacement of a GID, which is written like an IPv6 address; *text* itself if it is none, such as a
    time of day."""
    try:
        return replacer("gid", ipaddress.IPv6Address(text).packed.hex())
    except ValueError:
        return text


def _replace_guid(text: str, replacer: Replacer) -> str:
    return replacer("guid", f"{int(text.lower().removeprefix('0x').replace(':', ''), 16):016x}")


def _base(text: str) -> int:
    return 16 if text.lower().startswith("0x") else 10

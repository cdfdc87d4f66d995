"""Reading GUIDs: with ``0x``, in the spellings of other tools and of sysfs, and sets of GUIDs as ibkeys prints them."""

from __future__ import annotations

import re
from typing import Final

from ibkeys.errors import EncodeError
from ibkeys.keys.number import NOT_SHOWN, parse_number, quoted

_GROUPS: Final = r"[0-9a-fA-F]{4}(?::[0-9a-fA-F]{4})"
_OF_SYSFS: Final = re.compile(rf"{_GROUPS}{{3}}", re.ASCII)
"""node_guid, sys_image_guid in /sys/class/infiniband/CA."""
_GID: Final = re.compile(rf"{_GROUPS}{{7}}", re.ASCII)
"""ports/N/gids/N there. Its last 64 bits are the port's GUID, for all but a multicast GID (IBA 4.1.1)."""
_PLAIN: Final = re.compile(r"[0-9a-fA-F]{16}", re.ASCII)
_SEPARATOR: Final = re.compile(r",(?![^\[]*\])")
"""A comma between GUIDs, not one in brackets."""
_COMMON_PREFIX: Final = re.compile(r"(0[xX][0-9a-fA-F]*)\[([0-9a-fA-F]+(?:,[0-9a-fA-F]+)*)\]", re.ASCII)
"""GUIDs with the same first digits: those digits, then in brackets the last digits of each."""
_GUID_LENGTH: Final = len("0x") + 16


def parse_guid(text: str) -> int:
    """Read a GUID that is not 0.

    The spellings are ``0x0002c903004e22a1`` (fewer digits and decimal numbers too), ``0002c903004e22a1``,
    ``0002:c903:004e:22a1``, and a GID as ``fe80:0000:0000:0000:0002:c903:004e:22a1``, whose last 64 bits are the GUID.
    Raises EncodeError for any other text, 0, and a multicast GID.
    """
    text = text.strip()
    if _GID.fullmatch(text):
        if text[:2].lower() == "ff":
            raise EncodeError(f"GUID {NOT_SHOWN} is a multicast GID, not the GUID of a port")
        text = text[20:]
    if _OF_SYSFS.fullmatch(text):
        text = text.replace(":", "")
    number = int(text, 16) if _PLAIN.fullmatch(text) else parse_number(text, "GUID", error=_not_a_guid)
    if not 0 < number < 1 << 64:
        raise EncodeError(f"GUID {NOT_SHOWN if number else 0} is not a GUID: it must be 64 bits and not 0")
    return number


def is_set_of_guids(text: str) -> bool:
    """Return whether *text*, given in place of a GUID, is meant as a set of GUIDs: it has a comma or a ``[``."""
    return "[" in text or "," in text


def parse_guids(text: str) -> list[int]:
    """Read GUIDs as ibkeys prints them: ``0x0002c903000[48208,4823c],0x78e7d10300229794``.

    The brackets hold the last digits of each GUID; the digits before them are common to all of these. A GUID that is in
    *text* twice is returned once. Raises EncodeError.
    """
    words: list[str] = []
    for part in _SEPARATOR.split(text):
        group = _COMMON_PREFIX.fullmatch(part.strip())
        in_group = [group[1] + end for end in group[2].split(",")] if group is not None else []
        if any(len(word) != _GUID_LENGTH for word in in_group) or (group is None and "[" in part):
            raise EncodeError(f"{quoted(part)} is not a set of GUIDs of 16 digits, such as 0x0002c903000[48208,4823c]")
        words += in_group or [part]
    return list(dict.fromkeys(map(parse_guid, words)))


def is_spelled_as_guid(text: str) -> bool:
    """Return whether *text*, which could be a name or a LID too, is meant as a GUID; it may be an invalid one.

    A GUID is ``0x`` and more than four characters without a colon, or groups of four digits with colons between them,
    as in sysfs; eight such groups are a GID, which ends in a GUID. A switch port (``leaf1:3``) has at most three digits
    after its colon. Sixteen digits without ``0x`` are no GUID here.
    """
    if _OF_SYSFS.fullmatch(text) or _GID.fullmatch(text):
        return True
    return text.lower().startswith("0x") and len(text) > 6 and ":" not in text


def _not_a_guid(why: str) -> EncodeError:
    return EncodeError(f"{why}; a GUID is 0x and hex digits, or the form of sysfs, 0002:c903:004e:22a1")

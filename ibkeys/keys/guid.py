"""How GUIDs are written: ``0x0002c903004e22a1``, as other tools print them, and as sysfs does."""

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
_BETWEEN: Final = re.compile(r",(?![^\[]*\])")
_ALIKE: Final = re.compile(r"(0[xX][0-9a-fA-F]*)\[([0-9a-fA-F]+(?:,[0-9a-fA-F]+)*)\]", re.ASCII)
_DIGITS: Final = len("0x") + 16


def parse_guid(text: str) -> int:
    """Read a GUID that is not 0.

    ``0x0002c903004e22a1``, ``0002c903004e22a1``, ``0002:c903:004e:22a1``, or a whole GID as
    ``fe80:0000:0000:0000:0002:c903:004e:22a1``, of which the GUID is taken. Raises EncodeError.
    """
    text = text.strip()
    if _GID.fullmatch(text):
        if text[:2].lower() == "ff":
            raise EncodeError(f"GUID {NOT_SHOWN} is a multicast GID, not the GUID of a port")
        text = text[20:]
    if _OF_SYSFS.fullmatch(text):
        text = text.replace(":", "")
    number = int(text, 16) if _PLAIN.fullmatch(text) else _number(text)
    if not 0 < number < 1 << 64:
        raise EncodeError(f"GUID {NOT_SHOWN if number else 0} is not a GUID: it must be 64 bits and not 0")
    return number


def is_set_of_guids(text: str) -> bool:
    """Return whether *text*, given in place of a GUID, is a set of several GUIDs."""
    return "[" in text or "," in text


def parse_guids(text: str) -> list[int]:
    """Read GUIDs as ibkeys prints them: ``0x0002c903000[48208,4823c],0x78e7d10300229794``. In brackets are the last
    digits of each. Raises EncodeError."""
    words: list[str] = []
    for part in _BETWEEN.split(text):
        alike = _ALIKE.fullmatch(part.strip())
        ends = [alike[1] + end for end in alike[2].split(",")] if alike is not None else []
        if any(len(word) != _DIGITS for word in ends) or (alike is None and "[" in part):
            raise EncodeError(f"{quoted(part)} is not a set of GUIDs of 16 digits, such as 0x0002c903000[48208,4823c]")
        words += ends or [part]
    return list(dict.fromkeys(map(parse_guid, words)))


def is_spelled_as_guid(text: str) -> bool:
    """Return whether *text*, which could be a name or a LID too, is a GUID.

    A GUID is ``0x`` and more than four digits, or groups of four as sysfs has them. A switch port (``leaf1:3``) has
    three digits at most after its colon.
    """
    if _OF_SYSFS.fullmatch(text) or _GID.fullmatch(text):
        return True
    return text.lower().startswith("0x") and len(text) > 6 and ":" not in text


def _number(text: str) -> int:
    try:
        return parse_number(text, "GUID")
    except EncodeError as error:
        raise EncodeError(f"{error}; a GUID is 0x and hex digits, or the form of sysfs, 0002:c903:004e:22a1") from None

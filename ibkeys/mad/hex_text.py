"""MADs and Notices that people paste in hex: with blanks, colons or 0x, or as a hex dump with offsets and a text
column."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ibkeys.errors import MalformedMad
from ibkeys.mad.const import MAD_SIZE
from ibkeys.mad.decode import attribute_of
from ibkeys.mad.inform import ReportNotice
from ibkeys.mad.notice import Notice
from ibkeys.mad.smp import parse

NOTICE_SIZES: Final = (64, 80)
"""Bytes of a Notice, without and with the GID of the issuer."""
_DIGITS: Final = re.compile(r"[0-9a-f]+", re.IGNORECASE | re.ASCII)
_SEPARATORS: Final = re.compile(r"0x|[\s:,\\x-]", re.IGNORECASE)
_OFFSET: Final = re.compile(r"^\s*(?:0x)?[0-9a-f]{4,8}[:|]? {1,4}(?=[0-9a-f]{2})", re.IGNORECASE | re.MULTILINE)
"""The offset at the head of a line of a hex dump."""
_TEXT_COLUMN: Final = re.compile(r"(?:  \|?| \|)\S[^\n]{0,20}$", re.MULTILINE)


def mads_in(text: str) -> Iterator[bytes]:
    """Yield the bytes of a MAD or a Notice that *text* may be in hex: first the text as it is, then without the
    additions of a hex dump.

    A reading of another size is left out.
    """
    for candidate in (text, _OFFSET.sub("", _TEXT_COLUMN.sub("", text)), _OFFSET.sub("", text)):
        digits = _SEPARATORS.sub("", candidate)
        if _DIGITS.fullmatch(digits) and len(digits) % 2 == 0 and len(digits) // 2 in (MAD_SIZE, *NOTICE_SIZES):
            yield bytes.fromhex(digits)


def notice_of(raw: bytes) -> Notice | None:
    """Return the Notice in bytes of `mads_in`: a Notice alone, or that of a trap or Report; None if there is none."""
    if len(raw) != MAD_SIZE:
        return Notice(raw[: Notice.size])
    try:
        data = attribute_of(parse(raw))
    except MalformedMad:
        return None
    return Notice(data.raw[: Notice.size]) if isinstance(data, Notice | ReportNotice) else None

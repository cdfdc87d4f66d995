"""Forwarding tables in a snapshot's file: the blocks of a switch as one compressed value, and back."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import Final

from ibkeys.topology.forwarding import LIDS_PER_BLOCK

_BLOCK: Final = struct.Struct(f">H{LIDS_PER_BLOCK}s")
"""A block with its number before it."""
_MOST_BLOCKS: Final = 0xC000 // LIDS_PER_BLOCK
"""The blocks of all unicast LIDs."""


def packed_blocks(blocks: Mapping[int, bytes]) -> bytes:
    """Return blocks of a LinearForwardingTable, each after its number (2 bytes), compressed by zlib."""
    return zlib.compress(b"".join(_BLOCK.pack(number, block) for number, block in sorted(blocks.items())))


def unpacked_blocks(packed: bytes) -> dict[int, bytes]:
    """Return the blocks in *packed* by their numbers. Raises ValueError if it is damaged or has more than a switch can
    have."""
    most = _MOST_BLOCKS * _BLOCK.size
    unpacker = zlib.decompressobj()
    try:
        plain = unpacker.decompress(packed, most + 1)
    except zlib.error as error:
        raise ValueError("a forwarding table that cannot be decompressed") from error
    if len(plain) > most or len(plain) % _BLOCK.size or not unpacker.eof:
        raise ValueError("a forwarding table of an impossible size")
    blocks = dict(_BLOCK.iter_unpack(plain))
    if any(number >= _MOST_BLOCKS for number in blocks):
        raise ValueError("a forwarding table with a block of no unicast LID")
    return blocks

"""A batch of requests, each in parts: what all requests to one agent share is made once, and a port puts the MADs
together.

A sweep sends many thousands of Gets, most of which differ from another one in three numbers: the TransactionID's lower
half, AttributeID and AttributeModifier. `LibibumadPort` hands the parts to C. Any other port iterates, and gets each
`Outgoing` whole.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final, Self, overload

from ibkeys.errors import EncodeError
from ibkeys.mad import offsets as at
from ibkeys.mad.const import MAD_SIZE
from ibkeys.umad.port import Outgoing

# The way of a MAD: the beginning of `struct ibkeys_record` in native/batch.h, its length and then what `Outgoing` has
# behind its MAD. The MAD follows.
_WAY: Final = struct.Struct("=7I")
_ADDRESS: Final = struct.Struct("=6I")
_LENGTH_SIZE: Final = _WAY.size - _ADDRESS.size
_MAD_AT: Final = _WAY.size
_NUMBER: Final = struct.Struct(">I").pack


def way_of(address: Sequence[int], length: int = MAD_SIZE) -> bytes:
    """Return the way of a MAD of *length* bytes as C takes it; its record is the way and 256 bytes. *address*: what
    `Outgoing` has behind its MAD.

    Raises EncodeError for a number of more than 32 bits.
    """
    try:
        return _WAY.pack(length, *address)
    except struct.error as error:
        raise EncodeError(f"a MAD's address or timeout is not a 32-bit number: {error}") from None


def address_of(record: bytes) -> tuple[int, int, int, int, int, int]:
    """Return what the way of *record* was made of: LID, timeout in milliseconds, QPN, Q_Key, SL, P_Key index."""
    return _ADDRESS.unpack_from(record, _LENGTH_SIZE)


def mad_of(record: bytes, tid: int, attribute_id: int, modifier: int) -> bytes:
    """Return the 256 bytes of a record's MAD with the TransactionID's lower half and what is asked."""
    mad = bytearray(record[_MAD_AT:])
    mad[at.TID] = _NUMBER(tid)
    mad[at.ATTRIBUTE_ID] = attribute_id.to_bytes(2)
    mad[at.ATTRIBUTE_MODIFIER] = _NUMBER(modifier)
    return bytes(mad)


class Requests(Sequence[Outgoing]):
    """A batch of MADs, each in parts: a record (`way_of` and the MAD), the TransactionID's lower half, AttributeID and
    AttributeModifier. These three are written over those that the record's MAD has. Its items are `Outgoing`."""

    __slots__ = ("attributes", "modifiers", "records", "tids")

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.tids: list[int] = []
        self.attributes: list[int] = []
        self.modifiers: list[int] = []

    @classmethod
    def of(cls, batch: Sequence[Outgoing]) -> Self:
        """Return a batch in parts. Raises EncodeError for one that is too long, and as `way_of`."""
        requests = cls()
        for mad, *address in batch:
            if not 2 <= len(mad) <= MAD_SIZE:
                raise EncodeError(f"a MAD has at most {MAD_SIZE} bytes, this one {len(mad)}")
            whole = mad.ljust(MAD_SIZE, b"\0")
            requests.records.append(way_of(address, len(mad)) + whole)
            requests.tids.append(int.from_bytes(whole[at.TID]))
            requests.attributes.append(int.from_bytes(whole[at.ATTRIBUTE_ID]))
            requests.modifiers.append(int.from_bytes(whole[at.ATTRIBUTE_MODIFIER]))
        return requests

    def at(self, places: Sequence[int]) -> Requests:
        """Return the MADs at *places*, in that order."""
        if len(places) == len(self.tids):  # nearly always
            return self
        some = Requests()
        some.records = [self.records[place] for place in places]
        some.tids = [self.tids[place] for place in places]
        some.attributes = [self.attributes[place] for place in places]
        some.modifiers = [self.modifiers[place] for place in places]
        return some

    def __len__(self) -> int:
        return len(self.tids)

    @overload
    def __getitem__(self, index: int) -> Outgoing: ...
    @overload
    def __getitem__(self, index: slice) -> list[Outgoing]: ...
    def __getitem__(self, index: int | slice) -> Outgoing | list[Outgoing]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        record = self.records[index]
        mad = mad_of(record, self.tids[index], self.attributes[index], self.modifiers[index])
        return Outgoing(mad, *address_of(record))

    def __iter__(self) -> Iterator[Outgoing]:
        return map(self.__getitem__, range(len(self)))

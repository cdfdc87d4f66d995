"""Requests in parts: what all requests to one agent share is made once, and a port puts the MADs together.

A sweep sends many thousands of Gets, most of which differ from another one in twelve bytes: the TransactionID's lower
half and what is asked. `LibibumadPort` hands the parts to C. Any other port iterates, and gets each `Outgoing` whole.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Sequence
from typing import Final, Self, overload

from ibkeys.errors import EncodeError
from ibkeys.mad import offsets as at
from ibkeys.mad.const import MAD_SIZE
from ibkeys.umad.port import Outgoing

# The beginning of `struct ibkeys_record` in native/batch.h: length, then what `Outgoing` has behind its MAD. The MAD
# follows.
_WAY: Final = struct.Struct("=7I")
_ADDRESS: Final = struct.Struct("=6I")
_LENGTH_SIZE: Final = _WAY.size - _ADDRESS.size
_MAD_AT: Final = _WAY.size
_TID: Final = struct.Struct(">I").pack


def way_of(address: Sequence[int], length: int = MAD_SIZE) -> bytes:
    """Return the way of a MAD of *length* bytes as C takes it: its record is this and 256 bytes. *address*: `Outgoing`
    without its MAD.

    Raises EncodeError for a number of more than 32 bits.
    """
    try:
        return _WAY.pack(length, *address)
    except struct.error as error:
        raise EncodeError(f"a MAD's address or timeout is not a 32-bit number: {error}") from None


def address_of(record: bytes) -> tuple[int, int, int, int, int, int]:
    """Return what the way of *record* was made of: LID, timeout in milliseconds, QPN, Q_Key, SL, P_Key index."""
    return _ADDRESS.unpack_from(record, _LENGTH_SIZE)


def mad_of(record: bytes, tid: int = 0, asks: bytes = bytes(8)) -> bytes:
    """Return the 256 bytes of a record's MAD. *tid*: the TransactionID's lower half; *asks*: bytes 16..23."""
    head, tail = record[_MAD_AT : _MAD_AT + at.TID.start], record[_MAD_AT + at.ASKED.stop :]
    return b"".join((head, _TID(tid), asks, tail))


class Requests(Sequence[Outgoing]):
    """A batch of MADs, each in parts: a record (`way_of` and the MAD), the TransactionID's lower half, and bytes 16..23
    (AttributeID, AttributeModifier). What the record's MAD has in their places is not sent."""

    __slots__ = ("asks", "records", "tids")

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.tids: list[int] = []
        self.asks: list[bytes] = []

    @classmethod
    def of(cls, batch: Sequence[Outgoing]) -> Self:
        """Return a batch in parts. Raises EncodeError for one that is too long, and as `way_of`."""
        requests = cls()
        for mad, *address in batch:
            if not 2 <= len(mad) <= MAD_SIZE:
                raise EncodeError(f"a MAD has at most {MAD_SIZE} bytes, this one {len(mad)}")
            requests.records.append(way_of(address, len(mad)) + mad.ljust(MAD_SIZE, b"\0"))
            requests.tids.append(int.from_bytes(mad[at.TID]))
            requests.asks.append(mad[at.ASKED].ljust(8, b"\0"))
        return requests

    def joined(self, places: Sequence[int]) -> tuple[bytes, array[int], bytes]:
        """Return the three parts of the MADs at *places*, each kind in one piece."""
        if len(places) == len(self.tids):  # nearly always
            return b"".join(self.records), array("I", self.tids), b"".join(self.asks)
        records, tids, asks = self.records, self.tids, self.asks
        return (
            b"".join([records[place] for place in places]),
            array("I", [tids[place] for place in places]),
            b"".join([asks[place] for place in places]),
        )

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
        return Outgoing(mad_of(record, self.tids[index], self.asks[index]), *address_of(record))

    def __iter__(self) -> Iterator[Outgoing]:
        return map(self.__getitem__, range(len(self)))

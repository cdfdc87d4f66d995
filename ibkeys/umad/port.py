"""Sending MADs from this host: the interface of a port, and the batches for it.

A `UmadPort` is one port of one local channel adapter. It sends and receives MADs as bytes, registers agents, and shows
what this host knows about the port. It knows nothing of the attributes in MADs, of retries or of policy. Two backends
implement it: `ibkeys.umad.libibumad` (the real stack) and `ibkeys.umad.simulated`. The ports of `ibkeys.umad.tap` and
`ibkeys.client.report_port` wrap another port, which is their ``inner``. None is thread-safe: use each instance in one
thread only.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, NamedTuple, Protocol, Self, overload

from ibkeys.errors import EncodeError
from ibkeys.mad import offsets as at
from ibkeys.mad.const import MAD_SIZE

PERMISSIVE_LID = 0xFFFF
ETIMEDOUT = 110

# The head of a record, as `struct ibkeys_record` in native/batch.h begins: the length, then the fields of `Outgoing`
# other than the MAD, in their order. The MAD comes after the head.
_HEAD: Final = struct.Struct("=7I")
_ADDRESS: Final = struct.Struct("=6I")
_LENGTH_SIZE: Final = _HEAD.size - _ADDRESS.size
_MAD_AT: Final = _HEAD.size
_pack_number: Final = struct.Struct(">I").pack


class Outgoing(NamedTuple):
    """One MAD to be sent.

    ``mad``: up to 256 bytes, header first. ``lid``: destination LID in host order, 0xFFFF for a directed route.
    ``timeout_ms``: the kernel's time for this one attempt; 0 when no reply is expected. The kernel never retries:
    retries belong to the scheduler. ``qpn`` 0 is QP0 (SMPs), 1 is QP1 (GMPs). ``pkey_index``: index into the local
    P_Key table, used on QP1 only.
    """

    mad: bytes
    lid: int = PERMISSIVE_LID
    timeout_ms: int = 1000
    qpn: int = 0
    qkey: int = 0
    sl: int = 0
    pkey_index: int = 0


class Incoming(NamedTuple):
    """One MAD that was received, or the kernel's report that a request timed out.

    ``status``: 0, or an errno; 110 (ETIMEDOUT) means no reply, and then only the first 24 bytes of ``mad`` are valid (a
    real kernel delivers no more). ``lid`` and ``qpn``: the sender's.
    """

    mad: bytes
    status: int = 0
    lid: int = 0
    qpn: int = 0


MadAnswer = tuple[int, bytes]
"""An answer with Status 0 that was matched to its request: the lower half of the TransactionID, 64 bytes of data."""


class SendFailure(NamedTuple):
    """A MAD of a batch that could not be sent. ``index``: its place in the batch; ``errno``: the kernel's reason."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which a failure does not need
    errno: int


@dataclass(frozen=True, slots=True)
class LocalPort:
    """The host's attributes of one of its own ports, known without sending anything.

    GUIDs and the prefix are host-order integers; ``state`` and ``phys_state`` are IBA codes (4 = Active, 5 = LinkUp);
    ``pkeys`` is a snapshot of the P_Key table.
    """

    ca_name: str
    port: int
    base_lid: int
    lmc: int
    sm_lid: int
    sm_sl: int
    state: int
    phys_state: int
    capability_mask: int
    gid_prefix: int
    port_guid: int
    link_layer: str
    pkeys: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LocalCa:
    """A channel adapter (or switch) of this host with its ports, lowest port number first."""

    name: str
    node_type: int
    fw_version: str
    ca_type: str
    hw_version: str
    node_guid: int
    ports: tuple[LocalPort, ...]


class UmadPort(Protocol):
    """One open port of this host. Use it as a context manager; `close` may be called twice."""

    ca_name: str
    port: int

    def attributes(self) -> LocalPort:
        """Return the host's current attributes of this port. Raises TransportError, ClosedError."""

    def register(self, mgmt_class: int, class_version: int = 1, methods: Sequence[int] = ()) -> None:
        """Register an agent for a management class; *methods* are the unsolicited methods that it receives.

        The agents for 0x01 and 0x81 are registered when the port is opened. Raises TransportError (AgentRefused if the
        kernel refuses the agent), ClosedError.
        """

    def send(self, batch: Sequence[Outgoing]) -> list[SendFailure]:
        """Send a batch, in order. Returns the MADs that the kernel refused (EINVAL, ...); all others were sent.

        Raises TransportError (DeviceGone if the device was removed), ClosedError after close(). A backend may raise
        other errors for MADs that it cannot send.
        """

    def recv(self, timeout: float) -> list[Incoming]:
        """Wait up to *timeout* seconds for a MAD and return the MADs that have arrived; [] if none arrived in time.

        A backend may leave some of many MADs for the next call. The TransactionID's upper 32 bits belong to the kernel:
        compare the lower half only. Raises TransportError (DeviceGone if the device was removed), ClosedError.
        """

    def now(self) -> float:
        """Return the port's own clock in seconds: monotonic, and virtual in the simulator."""

    def close(self) -> None:
        """Close the device. Safe to call twice."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def innermost(port: UmadPort) -> UmadPort:
    """Return the port of a backend inside *port*: that of the last ``inner``, or *port* itself if it wraps no other."""
    inner: UmadPort | None = getattr(port, "inner", None)
    return port if inner is None else innermost(inner)


def receiver(port: UmadPort) -> Callable[[float], tuple[list[MadAnswer], list[Incoming]]]:
    """Return the function that receives MADs at *port*: its ``recv_answers`` if it matches answers to requests itself,
    else one that calls `recv` and matches none.

    The function takes a timeout as `recv` does and raises the same errors. It returns two lists: the matched answers,
    and all other MADs. A matched answer is an SMP of 256 bytes with the R bit and Status 0 (apart from the D bit); its
    TransactionID, class, AttributeID and AttributeModifier are those of a request that was not answered before. The
    second list may still contain such answers.
    """
    matching: Callable[[float], tuple[list[MadAnswer], list[Incoming]]] | None = getattr(port, "recv_answers", None)
    return matching or (lambda timeout: ([], port.recv(timeout)))


@dataclass(slots=True, eq=False)
class Requests(Sequence[Outgoing]):
    """A batch of MADs, each in four parts: a record (`record_head` and the MAD), the lower half of the TransactionID,
    the AttributeID and the AttributeModifier. The last three replace the values in the record's MAD.

    A sweep sends many thousands of Gets. Most Gets to one agent differ in these three numbers only, so they share a
    record, which is made once. `ibkeys.umad.libibumad` passes the parts to C, which joins them. Every other port
    iterates over the batch, whose items are complete `Outgoing` tuples.
    """

    records: list[bytes] = field(default_factory=list)
    tids: list[int] = field(default_factory=list)
    attributes: list[int] = field(default_factory=list)
    modifiers: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, batch: Sequence[Outgoing]) -> Self:
        """Return *batch* in parts. Raises EncodeError for a MAD of more than 256 bytes or less than 2, and the errors
        of `record_head`."""
        requests = cls()
        for mad, *address in batch:
            if not 2 <= len(mad) <= MAD_SIZE:
                raise EncodeError(f"a MAD has at most {MAD_SIZE} bytes, this one {len(mad)}")
            whole = mad.ljust(MAD_SIZE, b"\0")
            requests.records.append(record_head(address, len(mad)) + whole)
            requests.tids.append(int.from_bytes(whole[at.LOWER_TID]))
            requests.attributes.append(int.from_bytes(whole[at.ATTRIBUTE_ID]))
            requests.modifiers.append(int.from_bytes(whole[at.ATTRIBUTE_MODIFIER]))
        return requests

    def at(self, places: Sequence[int]) -> Requests:
        """Return the MADs at *places*, which must be in ascending order, each once."""
        if len(places) == len(self.tids):  # Nearly every batch is small enough to be sent as a whole.
            return self
        return Requests(
            [self.records[place] for place in places],
            [self.tids[place] for place in places],
            [self.attributes[place] for place in places],
            [self.modifiers[place] for place in places],
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
        mad = mad_of(record, self.tids[index], self.attributes[index], self.modifiers[index])
        return Outgoing(mad, *address_of(record))

    def __iter__(self) -> Iterator[Outgoing]:
        return map(self.__getitem__, range(len(self)))


def record_head(address: Sequence[int], length: int = MAD_SIZE) -> bytes:
    """Return the head of the record of a MAD of *length* bytes: the length and the address, in the form for C.

    A record is this head followed by the MAD, filled up to 256 bytes. *address*: the values that follow the MAD in
    `Outgoing`. Raises EncodeError for a number that does not fit into 32 bits.
    """
    try:
        return _HEAD.pack(length, *address)
    except struct.error as error:
        raise EncodeError(f"a MAD's address or timeout is not a 32-bit number: {error}") from None


def address_of(record: bytes) -> tuple[int, int, int, int, int, int]:
    """Return the values in the head of *record*: LID, timeout in milliseconds, QPN, Q_Key, SL, P_Key index."""
    return _ADDRESS.unpack_from(record, _LENGTH_SIZE)


def mad_of(record: bytes, tid: int, attribute_id: int, modifier: int) -> bytes:
    """Return the 256 bytes of the MAD in *record* with these numbers in it; *tid*: the TransactionID's lower half."""
    mad = bytearray(record[_MAD_AT:])
    mad[at.LOWER_TID] = _pack_number(tid)
    mad[at.ATTRIBUTE_ID] = attribute_id.to_bytes(2)
    mad[at.ATTRIBUTE_MODIFIER] = _pack_number(modifier)
    return bytes(mad)

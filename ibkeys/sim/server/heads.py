"""Decoding the first bytes of data packets: the addresses, whether a kernel would send the MAD, and the answer's
header.

Nearly all packets of a program begin with the same bytes, so the result is cached: decoding each packet would take a
tenth of the time for an SMP.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from ibkeys.mad import offsets as at
from ibkeys.mad.const import DIRECTED_ROUTE, MAD_SIZE, Method
from ibkeys.mad.sa import SA_CLASS_VERSION
from ibkeys.mad.smp import HEADER_SIZE as LEAST_MAD
from ibkeys.mad.smp import DirectedRouteSmp
from ibkeys.sim.nodes import LID, SimPort
from ibkeys.sim.server import ibsim_protocol as protocol
from ibkeys.sim.server.ibsim_protocol import HEADER_SIZE, PACKET_SIZE

HEAD_SIZE: Final = HEADER_SIZE + at.HOP_COUNT
"""The number of bytes that are decoded: the header of a packet, and the MAD up to HopPointer."""
_ASKING: Final = frozenset(range(at.RESPONSE)) - {int(Method.TRAP_REPRESS)}
"""The methods of MADs that need an answer (mad.c: ib_response_mad)."""
_FIELDS: Final = at.reader(
    DirectedRouteSmp.base_version,
    DirectedRouteSmp.mgmt_class,
    DirectedRouteSmp.class_version,
    DirectedRouteSmp.method,
    DirectedRouteSmp.d,
    DirectedRouteSmp.hop_pointer,
    before=f"{protocol.LENGTH.start}xQ",
)


@dataclass(frozen=True, slots=True)
class Head:
    """The decoded first bytes of a packet.

    ``header``: the bytes before the MAD; ``answer``: the header of an answer to the packet. ``length``: the number of
    bytes of the MAD, by the sender; the bytes after them do not belong to the MAD. ``asks``: the MAD needs an answer.
    ``is_whole``: the packet has the LID of its sender and a MAD of 256 bytes, so `completed` is not needed.
    """

    header: bytes
    answer: bytes
    slid: int
    dlid: int
    mgmt_class: int
    length: int
    asks: bool
    is_whole: bool


@lru_cache(maxsize=1024)
def head_of(raw: bytes) -> Head | None:
    """Return the decoded first `HEAD_SIZE` bytes of a packet; None if a kernel would not send its MAD.

    A directed route must begin with HopPointer 0, and D must be equal to R.
    """
    length, base_version, mgmt_class, class_version, method, d, hop_pointer = _FIELDS.unpack(raw)
    if base_version != 1 or class_version > SA_CLASS_VERSION or not LEAST_MAD <= length <= MAD_SIZE:
        return None
    if mgmt_class == DIRECTED_ROUTE and (hop_pointer or (d ^ method) & at.RESPONSE):
        return None
    header = raw[:HEADER_SIZE]
    return Head(
        header,
        protocol.answer_header(header),
        protocol.lid(header[protocol.SLID]),
        protocol.lid(header[protocol.DLID]),
        mgmt_class,
        length,
        method in _ASKING,
        length == MAD_SIZE and header[protocol.SLID] != protocol.NO_LID,
    )


def completed(head: Head, raw: bytes, port: SimPort) -> tuple[Head, bytes]:
    """Return the head and bytes of a packet of *port* with the missing parts added: the MAD is filled up to 256 bytes,
    and the LID of *port* becomes the sender's LID if there is none."""
    raw = raw[: HEADER_SIZE + head.length].ljust(PACKET_SIZE, b"\0")
    if head.header[protocol.SLID] == protocol.NO_LID:
        slid = protocol.network_lid(bytes(port.info[LID]))
        header = head.header[: protocol.SLID.start] + slid + head.header[protocol.SLID.stop :]
        head = replace(head, header=header, answer=protocol.answer_header(header), slid=protocol.lid(slid))
    return head, raw

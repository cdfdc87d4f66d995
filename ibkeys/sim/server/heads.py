"""The first bytes of a data packet: whether a kernel would send its MAD, its destination, and the header of its answer.

Nearly all packets of a program begin alike, so the result for those bytes is cached: decoding them for each packet
would take a tenth of the time of an SMP.
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

    ``header``: the bytes before the MAD; ``answer``: the header of an answer to it. ``length``: of the MAD; the sender
    left out the bytes beyond it. ``asks``: it needs an answer. ``is_whole``: nothing has to be added to the packet (see
    `completed`).
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
    """Return the decoded first `HEAD_SIZE` bytes of a packet, None if a kernel would not have sent its MAD: a directed
    route begins at HopPointer 0, and D is set where R is."""
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
    """Return a packet from *port* whose MAD has its whole length and whose header has its sender."""
    raw = raw[: HEADER_SIZE + head.length].ljust(PACKET_SIZE, b"\0")
    if head.header[protocol.SLID] == protocol.NO_LID:
        slid = protocol.network_lid(bytes(port.info[LID]))
        header = head.header[: protocol.SLID.start] + slid + head.header[protocol.SLID.stop :]
        head = replace(head, header=header, answer=protocol.answer_header(header), slid=protocol.lid(slid))
    return head, raw

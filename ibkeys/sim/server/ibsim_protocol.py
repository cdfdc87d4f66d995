"""The datagrams between libumad2sim and a simulator, which are ibsim's client protocol. It has no I/O.

A control request has 80 bytes in the host's byte order; a data packet has 288 bytes, of which 256 are a MAD. If a reply
has another length, or does not come from the expected socket name, the client waits forever.
"""

from __future__ import annotations

import shlex
import struct
import sys
from typing import Final, NamedTuple

from ibkeys.errors import UsageError
from ibkeys.mad.const import MAD_SIZE

MAGIC: Final = 0xDEADBEEF
CONTROL_SIZE: Final = 80
PACKET_SIZE: Final = 288
HEADER_SIZE: Final = 32
"""The number of bytes of a data packet before its MAD."""
DLID: Final = slice(0, 4)
SLID: Final = slice(4, 8)
DQP: Final = slice(8, 12)
SQP: Final = slice(12, 16)
STATUS: Final = slice(16, 20)
LENGTH: Final = slice(24, 32)
"""The places of the values in the header of a data packet."""
NO_LID: Final = bytes(4)
DEFAULT_NAME: Final = "sim"
DEFAULT_PORT: Final = 7070
MAX_NAME: Final = 80
"""The most bytes of a base name: the client library stores the whole name in the 108 bytes of a sockaddr_un."""

# These are the kinds of control requests.
ERROR: Final = 0
CONNECT: Final = 1
DISCONNECT: Final = 2
GET_PORT: Final = 3
GET_VENDOR: Final = 4
GET_GID: Final = 5
GET_GUID: Final = 6
GET_NODE_INFO: Final = 7
GET_PORT_INFO: Final = 8
SET_IS_SM: Final = 9
GET_P_KEYS: Final = 10

_CONTROL: Final = struct.Struct("=IIII64s")
_CLIENT_INFO: Final = struct.Struct("=III32s")
_VENDOR: Final = struct.Struct("=III4xQ")
_PORT: Final = struct.Struct("=HB")
_NUMBER: Final = struct.Struct("=I")
_GUID: Final = struct.Struct("=Q")
_DATA_SIZE: Final = 64


class Control(NamedTuple):
    """A control request or its reply. ``client``: the slot; ``size``: the size of the data as the sender wrote it,
    which is only echoed."""

    client: int
    kind: int
    size: int
    data: bytes


class ClientInfo(NamedTuple):
    """The data of CONNECT. ``ident``: the client's process id (UDP: its data port), in the reply the slot. ``node``:
    the name of the node, "" for none."""

    ident: int
    is_sm: bool
    node: str


def socket_name(base: str, suffix: str) -> bytes:
    """Return the abstract socket address with the name ``BASE:SUFFIX``. The NUL at the end is a part of the name."""
    return b"\0" + f"{base}:{suffix}".encode() + b"\0"


def check_name(base: str) -> str:
    """Return *base*. Raises UsageError if it is not valid as a base name of sockets."""
    if not base or "\0" in base or len(base.encode("utf-8", "replace")) > MAX_NAME:
        raise UsageError(f"{base[:100]!r} is not a valid socket name: 1 to {MAX_NAME} bytes without NUL")
    return base


def no_server(name: str) -> str:
    """Return the message that no server has the socket name *name*, with the commands that help."""
    return (
        f"no simulator runs under the socket name {name!r}: "
        f"`ibkeys sim serve --socket {shlex.quote(name)}` starts one, and `ibkeys sim ls` lists those that run"
    )


def parse_control(raw: bytes) -> Control | None:
    """Return the control request in *raw*; None if the length or the magic number is wrong."""
    if len(raw) != CONTROL_SIZE:
        return None
    magic, client, kind, size, data = _CONTROL.unpack(raw)
    return Control(client, kind, size, data) if magic == MAGIC else None


def control(request: Control, kind: int | None = None, data: bytes | None = None) -> bytes:
    """Return the reply to *request*: the same datagram, with another *kind*, or with *data* in place of the first bytes
    of its data."""
    body = request.data if data is None else data[:_DATA_SIZE] + request.data[len(data) :]
    return _CONTROL.pack(MAGIC, request.client, request.kind if kind is None else kind, request.size, body)


def parse_client_info(data: bytes) -> ClientInfo:
    """Return the values in the data of CONNECT."""
    ident, _, is_sm, node = _CLIENT_INFO.unpack_from(data)
    return ClientInfo(ident, bool(is_sm), node.partition(b"\0")[0].decode("utf-8", "surrogateescape"))


def client_info(ident: int, is_sm: bool, node: str) -> bytes:
    """Return the data of CONNECT or of its reply. *node* is shortened to 31 bytes."""
    return _CLIENT_INFO.pack(ident, 0, is_sm, node.encode("utf-8", "surrogateescape")[:31])


def vendor(vendor_id: int, device_id: int, revision: int) -> bytes:
    """Return the data of GET_VENDOR; the firmware version is always 1."""
    return _VENDOR.pack(vendor_id, device_id, revision, 1)


def port(lid: int, state: int) -> bytes:
    """Return the data of GET_PORT."""
    return _PORT.pack(lid, state)


def guid(value: int) -> bytes:
    """Return the data of GET_GUID, in the host's byte order as in ibsim."""
    return _GUID.pack(value)


def number(data: bytes) -> int:
    """Return the number in the data of SET_IS_SM."""
    value: int = _NUMBER.unpack_from(data)[0]
    return value


def packet_lid(lid: int) -> bytes:
    """Return the four bytes of a LID in a data packet: the result of C's htons(LID), as a 32-bit number in the host's
    byte order."""
    return network_lid(lid.to_bytes(2))


def network_lid(raw: bytes) -> bytes:
    """Return the result of `packet_lid` for a LID in two bytes in network order."""
    return _BEFORE_LID + raw + _AFTER_LID


def lid(raw: bytes) -> int:
    """Return the LID in the four bytes *raw* of a data packet."""
    return raw[_LID_AT] << 8 | raw[_LID_AT + 1]


def answer_header(sent: bytes) -> bytes:
    """Return the header of the answer to a packet with the header *sent*, in which sender and receiver are swapped."""
    return header(sent[SLID], sent[DLID], sent[SQP], sent[DQP])


def handed_on(sent: bytes, mad: bytes) -> bytes:
    """Return the packet that forwards *mad* to another program. *sent*: the header with which it came."""
    return b"".join((sent[: STATUS.start], _ANSWERED, sent[LENGTH], mad))


def returned_with_error(sent: bytes, mad: bytes, status: int) -> bytes:
    """Return the packet that returns *mad* to its sender. *sent*: the header with which it came; *status*: an errno."""
    return b"".join((sent[: STATUS.start], status.to_bytes(4), _PADDING, sent[LENGTH], mad))


def header(dlid: bytes, slid: bytes, dqp: bytes, sqp: bytes, status: int = 0, length: int = MAD_SIZE) -> bytes:
    """Return the 32 bytes before the MAD. *dlid*, *slid*: as `packet_lid` returns them; *dqp*, *sqp*: four bytes in
    network order; *status*: an errno."""
    return b"".join((dlid, slid, dqp, sqp, status.to_bytes(4), _PADDING, length.to_bytes(8)))


_LID_AT: Final = 0 if sys.byteorder == "little" else 2
_BEFORE_LID: Final = bytes(_LID_AT)
_AFTER_LID: Final = bytes(2 - _LID_AT)
_PADDING: Final = bytes(4)
_ANSWERED: Final = bytes(4) + _PADDING

"""The wire between our libibumad (native/umad-sim) and the server: bytes only, no sockets.

The server listens on a UNIX socket of type SOCK_SEQPACKET with the abstract name ``NAME:umad``; each message is one
datagram, so it is sent and taken whole. Numbers are in the byte order of the host, those of a MAD and its address in
that of the network. native/umad-sim/wire.h has the same as C.

A connection begins with HELLO: magic, version, a question, the port, the names of the adapter and of the host ("" and
0: the first that fits). The ANSWER begins with an error and a count. An error above 0 is an errno for the caller. Below
0 the text that follows is for the user, and the library ends the process with it.

NAMES  count names of adapters, 20 bytes each          PORT  a port, then its P_Key table
CA     an adapter                                      ISSM  the path whose reader is a subnet manager
OPEN   nothing, and beside it two descriptors: the open port, which is a stream socket to the server, and the page
       that both share
HOST   the name of the host, the folder of its server (with port 0: "") and what is served, each with a NUL behind it;
       only ibkeys asks

On an open port the library sends records of a kind, flags and a size. All records are equally long: zeros follow the
data. The stream keeps each of them whole, because the kernel never splits one that is sent by one call, and whoever
reads asks for whole records. The server reads and writes many of them by one call.

Beside a record may be descriptors: with REPLY that of a socket to which the server writes an errno and a number, with
MEMORY that of a memory file with the whole MAD. They belong to the last record of those that are read by one call
(net/unix/af_unix.c: unix_stream_read_generic).

REGISTER    an agent; the number of the reply is its id       UNREGISTER  an id
SEND        the umad header and the MAD: up to 256 bytes of it, a longer one in memory
NOT_TAKEN   a received MAD, back because it did not fit the reader's buffer

The server sends received MADs: the umad header and up to 256 bytes, followed by zeros; of a longer MAD the first
segment, with the MAD beside it in memory, its length in the header. The reserved bytes of the address tell the library
whether the MAD is beside the record, and how many bytes of it are in the record.

The library has no thread, keeps nothing and holds no lock: a process that forks, or is cancelled or killed anywhere,
leaves nothing behind.

A SEND without REPLY is one that the kernel's write() would certainly take, which the library sees on the page: the
agents of this port, one bit each; number and kind of the port; and two counters for each of 1024 slots, into which
class and TransactionID of a MAD fall. ``sent`` the library counts, ``done`` the server, when the MAD waits for nothing
any more: while the two are equal no request with that TransactionID waits, so the next one is no duplicate.

Nothing that a client sends is believed: sizes are checked, memory must be a memory file (nothing else can be read
without waiting), at most `MOST_MAD` of it is read, and a record that is none of these ends the connection.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from functools import lru_cache
from typing import Final, NamedTuple

MAGIC: Final = 0x44414D55
VERSION: Final = 2
INLINE: Final = 256
"""Bytes of a MAD that a record holds."""
MOST_MAD: Final = 64 << 20
"""Bytes of the longest MAD; an SA answer for 40,000 hosts has a tenth of that."""
HEADER_SIZE: Final = 64
"""The umad header, struct ib_user_mad."""
BODY_SIZE: Final = HEADER_SIZE + INLINE
"""Bytes of a record that the server sends, and of one that the library sends without its beginning, `RECORD`."""
MOST_HELLO: Final = 512
"""More than the question of a client has."""
NAME_SIZE: Final = 20
SLOTS: Final = 1024


class WireQuestion(IntEnum):
    """The question of a connection."""

    NAMES = 1
    CA = 2
    PORT = 3
    ISSM = 4
    OPEN = 5
    HOST = 6


class Kind(IntEnum):
    """The kind of a record of an open port."""

    REGISTER = 1
    UNREGISTER = 2
    SEND = 3
    NOT_TAKEN = 4


REPLY: Final = 1
MEMORY: Final = 2

_HELLO: Final = struct.Struct(f"=IIIi{NAME_SIZE}s128s")
_ANSWER: Final = struct.Struct("=iI")
RECORD: Final = struct.Struct("=IHH")
RECORD_SIZE: Final = RECORD.size + BODY_SIZE
_AGENT: Final = struct.Struct("=16sIIBBBx")
_ID: Final = struct.Struct("=I")
_REPLY: Final = struct.Struct("=iI")
_CA: Final = struct.Struct(f"={NAME_SIZE}s20s40s20sII8s8s")
_PORT: Final = struct.Struct(f"={NAME_SIZE}s8I4s8s8sI")

# The umad header
_HEAD: Final = struct.Struct("=IIIII")
_P_KEY_INDEX: Final = struct.Struct("=H")
_ADDRESS: Final = struct.Struct(">IIHBBBBBB16sI")
_STATUS: Final = slice(4, 8)
_ADDRESS_END: Final = _HEAD.size + _ADDRESS.size + _P_KEY_INDEX.size
_NOTES: Final = struct.Struct("=?xHxx")
"""The reserved bytes of the address: whether the MAD is beside the record, and its bytes in the record."""


class Hello(NamedTuple):
    """A question about *ca* (adapter) and *port* of *host*."""

    question: int
    port: int
    ca: str
    host: str


class HostAnswer(NamedTuple):
    """The answer to HOST: the *name* of the host, the *folder* of the server's files, and the *fabric* it serves."""

    name: str
    folder: str
    fabric: str


class Registration(NamedTuple):
    """The registration of an agent (user_mad.c: struct ib_user_mad_reg_req2). ``mask``: its methods, bit by bit."""

    mask: int
    flags: int
    oui: int
    mgmt_class: int
    class_version: int
    rmpp_version: int


class Address(NamedTuple):
    """The other end of a MAD, and its path: the rest of the umad header."""

    qpn: int
    lid: int
    sl: int = 0
    path_bits: int = 0
    grh: bytes | None = None
    """GID of the other end, hop limit, traffic class and flow label in `pack_grh`'s form, None without a GRH."""
    p_key_index: int = 0


class OutgoingHeader(NamedTuple):
    """The umad header of a MAD that a program sends; timeout in milliseconds."""

    agent: int
    timeout: int
    retries: int
    address: Address


def parse_hello(raw: bytes) -> Hello | None:
    """Read HELLO; None if it is not one of this version."""
    if len(raw) != _HELLO.size:
        return None
    magic, version, question, port, ca, host = _HELLO.unpack(raw)
    if magic != MAGIC or version != VERSION:
        return None
    return Hello(question, port, _text(ca), _text(host))


def ask_host(host: str, *, with_folder: bool) -> bytes:
    """Return HELLO with the question HOST. Its port is not 0 if the server is to make the folder of its hosts."""
    return _HELLO.pack(
        MAGIC, VERSION, WireQuestion.HOST, int(with_folder), b"", host.encode("utf-8", "surrogateescape")
    )


def host_answer(answered: HostAnswer) -> bytes:
    """Return the ANSWER to HOST."""
    return answer(b"".join(part.encode("utf-8", "surrogateescape") + b"\0" for part in answered))


def parse_host_answer(raw: bytes) -> HostAnswer | str:
    """Read the ANSWER to HOST; the text of a refusal if it is one."""
    error, _ = _ANSWER.unpack_from(raw)
    parts = raw[_ANSWER.size :].decode("utf-8", "surrogateescape").split("\0")
    if not error and len(parts) == len(HostAnswer._fields) + 1:
        return HostAnswer(*parts[:-1])
    return parts[0] if error < 0 else "it is of another version of ibkeys"


def answer(body: bytes = b"", *, error: int = 0, count: int = 0) -> bytes:
    """Return the ANSWER to HELLO."""
    return _ANSWER.pack(error, count) + body


def refusal(text: str) -> bytes:
    """Return the ANSWER that ends the requesting process with *text*."""
    return answer(text.encode("utf-8", "replace"), error=-1)


def names(found: list[str]) -> bytes:
    """Return the ANSWER to NAMES."""
    return answer(b"".join(name.encode().ljust(NAME_SIZE, b"\0") for name in found), count=len(found))


def adapter(
    name: str, ca_type: str, revision: str, node_type: int, num_ports: int, guid: int, system_image_guid: int
) -> bytes:
    """Return the ANSWER to CA."""
    words = name.encode(), b"", ca_type.encode(), revision.encode()
    return answer(_CA.pack(*words, node_type, num_ports, guid.to_bytes(8), system_image_guid.to_bytes(8)))


def port(
    name: str,
    numbers: tuple[int, int, int, int, int, int, int, int],
    capability_mask: int,
    gid_prefix: int,
    guid: int,
    p_keys: list[int],
) -> bytes:
    """Return the ANSWER to PORT. *numbers*: port, LID, LMC, SM LID, SM SL, state, physical state, rate in Gb/s."""
    fixed = capability_mask.to_bytes(4), gid_prefix.to_bytes(8), guid.to_bytes(8)
    return answer(_PORT.pack(name.encode(), *numbers, *fixed, len(p_keys)) + struct.pack(f"={len(p_keys)}H", *p_keys))


def record(kind: int, flags: int, data: bytes) -> bytes:
    """Return a record as the library sends it."""
    return RECORD.pack(kind, flags, len(data)) + data.ljust(BODY_SIZE, b"\0")


def parse_registration(raw: bytes) -> Registration | None:
    """Read the data of REGISTER; None if the length is wrong."""
    if len(raw) != _AGENT.size:
        return None
    mask, *rest = _AGENT.unpack(raw)
    return Registration(int.from_bytes(mask, "little"), *rest)


def parse_id(raw: bytes) -> int | None:
    """Read the data of UNREGISTER; None if the length is wrong."""
    return int(_ID.unpack(raw)[0]) if len(raw) == _ID.size else None


def reply(error: int, number: int = 0) -> bytes:
    """Return the record for the socket that came with REPLY."""
    return _REPLY.pack(error, number)


@lru_cache(maxsize=1024)
def parse_outgoing(header: bytes) -> OutgoingHeader:
    """Read the umad header of a MAD to be sent. Its status, length and Q_Key are ignored, as in the kernel.

    Nearly all headers of a program are alike, so the result is cached.
    """
    agent, _, timeout, retries, _ = _HEAD.unpack_from(header)
    qpn, _, lid, sl, path_bits, has_grh = struct.unpack_from(">IIHBBB", header, _HEAD.size)
    return OutgoingHeader(
        agent,
        timeout,
        retries,
        Address(
            qpn,
            lid,
            sl,
            path_bits,
            header[_GRH] if has_grh else None,
            _P_KEY_INDEX.unpack_from(header, _ADDRESS_END - 2)[0],
        ),
    )


_GRH: Final = slice(_HEAD.size + 13, _HEAD.size + _ADDRESS.size)
"""GID index, hop limit, traffic class, GID and flow label: they arrive as they are sent, except the GID."""


def gid_of(grh: bytes) -> bytes:
    """Return the GID of the other end."""
    return grh[3:19]


def grh_from(sent: bytes, gid: int) -> bytes:
    """Return the GRH with which a MAD with the GRH *sent* arrives from the port with *gid*."""
    return b"\0" + sent[1:3] + gid.to_bytes(16) + sent[19:]


def received(agent: int, address: Address, mad: bytes) -> bytes:
    """Return the record of a received MAD, or of the first segment of a long one."""
    return received_header(agent, address, len(mad)) + mad[:INLINE].ljust(INLINE, b"\0")


@lru_cache(maxsize=1024)
def received_header(agent: int, address: Address, length: int) -> bytes:
    """Return the umad header of a received MAD of so many bytes."""
    qpn, lid, sl, path_bits, grh, p_key_index = address
    return b"".join(
        (
            _HEAD.pack(agent, 0, 0, 0, HEADER_SIZE + length),
            struct.pack(">IIHBBB", qpn, 0, lid, sl, path_bits, grh is not None),
            grh or _NO_GRH,
            _P_KEY_INDEX.pack(p_key_index),
            _NOTES.pack(length > INLINE, min(length, INLINE)),
        )
    )


_NO_GRH: Final = bytes(_GRH.stop - _GRH.start)


def given_up(header: bytes, mad: bytes, status: int) -> bytes:
    """Return the record of a send that failed: its own umad header with *status*, the first 24 bytes of the MAD."""
    failed = header[: _STATUS.start] + struct.pack("=I", status) + header[_STATUS.stop : _ADDRESS_END]
    return failed + _NOTES.pack(False, _GIVEN_UP) + mad[:_GIVEN_UP].ljust(INLINE, b"\0")


_GIVEN_UP: Final = 24
"""Bytes of the MAD of a send that failed: the common header."""


def slot(mad: bytes) -> int:
    """Return the slot of the shared page into which class and TransactionID of *mad* fall."""
    return ((mad[14] << 8 | mad[15]) ^ mad[1]) % SLOTS


def _text(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode("utf-8", "surrogateescape")

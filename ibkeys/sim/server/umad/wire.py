"""The protocol between the simulator's own libibumad (native/umad-sim) and the server. It has no I/O.

The server listens on a UNIX socket of type SOCK_SEQPACKET with the abstract name ``NAME:umad``. Each message is one
datagram, so it is sent and received as a whole. Numbers are in the byte order of the host, but those in a MAD and its
address in network order. native/umad-sim/wire.h has the same protocol in C.

A connection begins with HELLO: magic number, version, question, port, and the names of adapter and host ("" and 0: the
first that fits). The ANSWER begins with an error and a count. An error above 0 is an errno for the caller. After an
error below 0 a text for the user follows, with which the library ends the process.

NAMES  the names of count adapters, 20 bytes each      PORT  a port, then its P_Key table
CA     an adapter                                      ISSM  the path of the issm device
OPEN   no data, but two descriptors: the open port, which is a stream socket to the server, and the shared page
HOST   four texts, each followed by a NUL: the name of the host; the folder for the files of hosts ("" if the port in
       HELLO is 0); a description of the served fabric; a line for each port of the host. Only ibkeys sends this
SHELL  no data. The question comes with three descriptors: the standard ones of a shell that the server starts on the
       host. The connection lasts as long as the shell; only ibkeys sends this question

On an open port the library sends records, each with a kind, flags, a size and data. All records have the same length,
because the data are filled up with zeros. So records are always read as a whole: the kernel never splits a record that
is sent by one call, and both sides read multiples of this length. The server reads and writes many records by one call.

A record may come with descriptors. With the flag REPLY it has the descriptor of a socket, to which the server writes an
errno and a number. With MEMORY it has the descriptor of a memory file with the whole MAD. Descriptors belong to the
last record that is read by one call (net/unix/af_unix.c: unix_stream_read_generic).

REGISTER    an agent; the number in the reply is its id       UNREGISTER  an id
SEND        the umad header and the MAD: up to 256 bytes of it, a longer MAD in a memory file
NOT_TAKEN   a received MAD that is returned, because it did not fit into the reader's buffer

The server sends received MADs as records: the umad header and up to 256 bytes of the MAD, filled up with zeros. A
longer MAD comes in a memory file; the record has its first segment, and the umad header the whole length. The reserved
bytes of the address tell the library whether there is a memory file, and how many bytes of the MAD are in the record.

The library has no thread, stores nothing and holds no lock. So a process may fork, or be cancelled or killed, at any
point without an effect on others.

The library sends a MAD without REPLY if the kernel's write() would certainly accept it. It decides this by the shared
page, which has: the ids of the agents of this port, one bit each; number and kind of the port; and two counters for
each of 1024 slots. Class and TransactionID of a MAD determine its slot. The library counts in ``sent`` each MAD that it
sends, the server in ``done`` each MAD that waits for nothing any more. While the two are equal, no request with that
TransactionID is waiting, so the next one is not a duplicate.

The server trusts nothing that a client sends. It checks sizes; it reads only from memory files, because reading from
other files may block, and at most `MOST_MAD` bytes; and it closes the connection after any other record.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from enum import IntEnum
from functools import lru_cache
from typing import Final, NamedTuple

from ibkeys.printable import clean

MAGIC: Final = 0x44414D55
VERSION: Final = 2
INLINE: Final = 256
"""The most bytes of a MAD in a record."""
MOST_MAD: Final = 64 << 20
"""The most bytes of a MAD. An SA answer for 40,000 hosts has a tenth of that."""
HEADER_SIZE: Final = 64
"""The number of bytes of the umad header, struct ib_user_mad."""
BODY_SIZE: Final = HEADER_SIZE + INLINE
"""The number of bytes of a record that the server sends, and of a record that the library sends after its beginning,
`RECORD`."""
MOST_HELLO: Final = 512
"""The most bytes that are read of HELLO; a valid one is shorter."""
NAME_SIZE: Final = 20
SLOTS: Final = 1024


class WireQuestion(IntEnum):
    """The question in HELLO."""

    NAMES = 1
    CA = 2
    PORT = 3
    ISSM = 4
    OPEN = 5
    HOST = 6
    SHELL = 7


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

# These describe the umad header.
_HEAD: Final = struct.Struct("=IIIII")
_P_KEY_INDEX: Final = struct.Struct("=H")
_ADDRESS: Final = struct.Struct(">IIHBBBBBB16sI")
_STATUS: Final = slice(4, 8)
_ADDRESS_END: Final = _HEAD.size + _ADDRESS.size + _P_KEY_INDEX.size
_NOTES: Final = struct.Struct("=?xHxx")
"""The reserved bytes of the address: whether there is a memory file, and how many bytes of the MAD are in the
record."""


class Hello(NamedTuple):
    """HELLO: a ``question`` about the ``port`` of the adapter ``ca`` of ``host``."""

    question: int
    port: int
    ca: str
    host: str


class HostAnswer(NamedTuple):
    """The ANSWER to HOST. ``name``: the name of the host; ``folder``: the folder for the files of hosts; ``fabric``:
    a description of the served fabric; ``ports``: the ports of the host, as `ports_text` returns them."""

    name: str
    folder: str
    fabric: str
    ports: str


class AnsweredPort(NamedTuple):
    """A port in the ANSWER to HOST. ``is_sm``: IsSM of the port is set."""

    device: str
    number: int
    guid: int
    is_sm: bool


class Registration(NamedTuple):
    """The registration of an agent (user_mad.c: struct ib_user_mad_reg_req2). ``mask``: bit n for the method n."""

    mask: int
    flags: int
    oui: int
    mgmt_class: int
    class_version: int
    rmpp_version: int


class Address(NamedTuple):
    """The address in a umad header: the other end of a MAD, and the path to it."""

    qpn: int
    lid: int
    sl: int = 0
    path_bits: int = 0
    grh: bytes | None = None
    """GID index, hop limit, traffic class, GID of the other end and flow label, as the umad header has them; None
    without a GRH."""
    p_key_index: int = 0


class OutgoingHeader(NamedTuple):
    """The umad header of a MAD that a program sends. ``agent``: the id; ``timeout``: milliseconds."""

    agent: int
    timeout: int
    retries: int
    address: Address


def parse_hello(raw: bytes) -> Hello | None:
    """Return the values in HELLO; None if *raw* is not a HELLO of this version."""
    if len(raw) != _HELLO.size:
        return None
    magic, version, question, port, ca, host = _HELLO.unpack(raw)
    if magic != MAGIC or version != VERSION:
        return None
    return Hello(question, port, _text(ca), _text(host))


def ask_host(host: str, *, with_folder: bool) -> bytes:
    """Return HELLO with the question HOST. *with_folder*: the server creates the folder for the files of hosts."""
    return _HELLO.pack(
        MAGIC, VERSION, WireQuestion.HOST, int(with_folder), b"", host.encode("utf-8", "surrogateescape")
    )


def ports_text(ports: Iterable[AnsweredPort]) -> str:
    """Return *ports* as a text with one line for each, as it is in the ANSWER to HOST."""
    return "\n".join(f"{port.device} {port.number} {port.guid:016x} {port.is_sm:d}" for port in ports)


def parse_ports(text: str) -> list[AnsweredPort]:
    """Return the ports in *text*, the result of `ports_text`. Raises ValueError."""
    words = (line.split(" ") for line in text.splitlines())
    return [AnsweredPort(device, int(number), int(guid, 16), is_sm == "1") for device, number, guid, is_sm in words]


def ask_shell(host: str) -> bytes:
    """Return HELLO with the question SHELL."""
    return _HELLO.pack(MAGIC, VERSION, WireQuestion.SHELL, 0, b"", host.encode("utf-8", "surrogateescape"))


def host_answer(answered: HostAnswer) -> bytes:
    """Return the ANSWER to HOST with the values of *answered*."""
    return answer(b"".join(part.encode("utf-8", "surrogateescape") + b"\0" for part in answered))


def parse_host_answer(raw: bytes) -> HostAnswer | str:
    """Return the values in the ANSWER to HOST, or the text of an ANSWER that is an error. Any user may have a socket
    with the name of a server, so *raw* may be anything."""
    if len(raw) < _ANSWER.size:
        return "nothing, as a server that ends or another program does"
    error, _ = _ANSWER.unpack_from(raw)
    parts = raw[_ANSWER.size :].decode("utf-8", "surrogateescape").split("\0")
    if not error and len(parts) == len(HostAnswer._fields) + 1:
        return HostAnswer(*parts[:-1])
    return parts[0] if error < 0 else "it is of another version of ibkeys"


def parse_shell_answer(raw: bytes) -> str:
    """Return why the shell was not started, by the ANSWER to SHELL; "" if it was."""
    if len(raw) < _ANSWER.size:
        return "the server of the simulated fabric has ended"
    error, _ = _ANSWER.unpack_from(raw)
    if error >= 0:
        return "the server of the simulated fabric is of another version of ibkeys" if error else ""
    return clean(raw[_ANSWER.size :].decode("utf-8", "replace"))


def answer(body: bytes = b"", *, error: int = 0, count: int = 0) -> bytes:
    """Return an ANSWER with *error*, *count* and the data *body*."""
    return _ANSWER.pack(error, count) + body


def refusal(text: str) -> bytes:
    """Return the ANSWER with which the library ends the process, with the message *text*."""
    return answer(text.encode("utf-8", "replace"), error=-1)


def names(found: list[str]) -> bytes:
    """Return the ANSWER to NAMES with the names *found*."""
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
    """Return a record as the library sends it. *flags*: `REPLY`, `MEMORY` or both."""
    return RECORD.pack(kind, flags, len(data)) + data.ljust(BODY_SIZE, b"\0")


def parse_registration(raw: bytes) -> Registration | None:
    """Return the values in the data of REGISTER; None if the length is wrong."""
    if len(raw) != _AGENT.size:
        return None
    mask, *rest = _AGENT.unpack(raw)
    return Registration(int.from_bytes(mask, "little"), *rest)


def parse_id(raw: bytes) -> int | None:
    """Return the id in the data of UNREGISTER; None if the length is wrong."""
    return int(_ID.unpack(raw)[0]) if len(raw) == _ID.size else None


def reply(error: int, number: int = 0) -> bytes:
    """Return the bytes for the socket that came with REPLY. *error*: an errno, 0 for none."""
    return _REPLY.pack(error, number)


@lru_cache(maxsize=1024)
def parse_outgoing(header: bytes) -> OutgoingHeader:
    """Return the values in the umad header of a MAD to be sent. Status, length and Q_Key are ignored, as in the kernel.

    Nearly all headers of a program are equal, so the result is cached.
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
"""The place of GID index, hop limit, traffic class, GID and flow label. All but GID index and GID arrive as they were
sent."""


def gid_of(grh: bytes) -> bytes:
    """Return the GID of the other end in *grh*, the bytes of `Address.grh`."""
    return grh[3:19]


def grh_from(sent: bytes, gid: int) -> bytes:
    """Return `Address.grh` of a MAD that arrives from the port with *gid*. *sent*: `Address.grh` with which it was
    sent."""
    return b"\0" + sent[1:3] + gid.to_bytes(16) + sent[19:]


def received(agent: int, address: Address, mad: bytes) -> bytes:
    """Return the record of the received MAD *mad*, of which it has the first 256 bytes."""
    return received_header(agent, address, len(mad)) + mad[:INLINE].ljust(INLINE, b"\0")


@lru_cache(maxsize=1024)
def received_header(agent: int, address: Address, length: int) -> bytes:
    """Return the umad header of a received MAD of *length* bytes. *agent*: the id; *address*: its sender."""
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
    """Return the record of a send that failed: the umad *header* of the program with *status* in it, and the first 24
    bytes of *mad*."""
    failed = header[: _STATUS.start] + struct.pack("=I", status) + header[_STATUS.stop : _ADDRESS_END]
    return failed + _NOTES.pack(False, _GIVEN_UP) + mad[:_GIVEN_UP].ljust(INLINE, b"\0")


_GIVEN_UP: Final = 24
"""The number of bytes of a MAD whose send failed: those of the common header."""


def slot(mad: bytes) -> int:
    """Return the slot of the shared page for class and TransactionID of *mad*."""
    return ((mad[14] << 8 | mad[15]) ^ mad[1]) % SLOTS


def _text(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode("utf-8", "surrogateescape")

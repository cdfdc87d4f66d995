"""Building the reply of an agent to an SMP or GMP, from bytes to bytes (IBA 13.4.3, 14.2.2)."""

from __future__ import annotations

import struct
from typing import Final

from ibkeys.mad import offsets as at
from ibkeys.mad.const import MAD_SIZE, Method

_HEAD_END: Final = at.METHOD
_AFTER_STATUS: Final = slice(at.STATUS.stop, at.DATA.start)
_FROM_HOP_COUNT: Final = slice(at.HOP_COUNT, at.DATA.start)
_RETURN_AT: Final = at.RETURN_PATH.start
_PATHS: Final = slice(at.INITIAL_PATH.start, MAD_SIZE)
_GET_RESP: Final = bytes((Method.GET_RESP,))
_D: Final = 0x8000
"""The bit D in the 16 bits of the status of a directed-route SMP: the SMP is a response."""
# The request up to Method (pack cuts off the rest), Method, status with D, HopPointer, the bytes from HopCount to the
# data, the data, the paths. Packing them is twice as fast as joining slices.
_DIRECTED_REPLY: Final = struct.Struct(f">{at.METHOD}scHB{at.DATA.start - at.HOP_COUNT}s64s128s")


def lid_routed_reply(request: bytes, status: int, data: bytes) -> bytes:
    """Return the GetResp of an agent to *request*, which is no directed-route SMP.

    *data*: the bytes from 64 on that differ from the request: 64 bytes for an SMP, up to 192 for a GMP.
    """
    head = request[:_HEAD_END] + _GET_RESP + status.to_bytes(2) + request[_AFTER_STATUS]
    return head + data + request[at.DATA.start + len(data) :]


def directed_route_reply(request: bytes, status: int, data: bytes) -> bytes:
    """Return the GetResp to a directed-route SMP as it arrives at the requester: D is set, and HopPointer is 0 again.

    *request*: the SMP as it arrived at the agent, with its ReturnPath (see `with_return_path`). *data*: the 64 bytes of
    the attribute.
    """
    return _DIRECTED_REPLY.pack(request, _GET_RESP, status | _D, 0, request[_FROM_HOP_COUNT], data, request[_PATHS])


def with_return_path(mad: bytes, return_path: bytes) -> bytes:
    """Return *mad* with the first bytes of its ReturnPath replaced by *return_path*."""
    return mad[:_RETURN_AT] + return_path + mad[_RETURN_AT + len(return_path) :]

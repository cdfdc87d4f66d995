"""The reply of an agent to an SMP or GMP: bytes in, bytes out (IBA 13.4.3, 14.2.2)."""

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
"""D in the word of the status: the SMP is a response."""
# The request up to Method (the rest of it is cut off), Method, status with D, HopPointer, HopCount and what follows it,
# data, paths. Packing them is twice as fast as joining slices.
_DIRECTED_REPLY: Final = struct.Struct(f">{at.METHOD}scHB{at.DATA.start - at.HOP_COUNT}s64s128s")


def lid_routed_reply(request: bytes, status: int, data: bytes) -> bytes:
    """Return the GetResp of an agent to a *request* that is not a directed-route SMP.

    *data*: all bytes from 64 on that differ from the request: 64 of an SMP, 192 of a GMP.
    """
    head = request[:_HEAD_END] + _GET_RESP + status.to_bytes(2) + request[_AFTER_STATUS]
    return head + data + request[at.DATA.start + len(data) :]


def directed_route_reply(request: bytes, status: int, data: bytes) -> bytes:
    """Return the GetResp to a directed-route SMP as it arrives at the requester: D is set, HopPointer is back at 0.

    *request* is as it arrived at the agent, with its ReturnPath (see `with_return_path`).
    """
    return _DIRECTED_REPLY.pack(request, _GET_RESP, status | _D, 0, request[_FROM_HOP_COUNT], data, request[_PATHS])


def with_return_path(mad: bytes, return_path: bytes) -> bytes:
    """Return *mad* with the first entries of its ReturnPath replaced."""
    return mad[:_RETURN_AT] + return_path + mad[_RETURN_AT + len(return_path) :]

"""General management packets (GMPs): how a MAD reaches QP1 of a port, where the SA and the PMA listen (IBA 13.5).

No M_Key protects QP1. A P_Key does: the packet has one, named by its index in the local port's table, and the
receiver's table must match it; otherwise the packet is dropped and only a counter shows it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from ibkeys.arguments import given
from ibkeys.client.request import Request
from ibkeys.errors import Unreachable, UsageError
from ibkeys.keys.pkey import PKey
from ibkeys.mad.const import GSI_QP, MAD_SIZE, QP1_Q_KEY
from ibkeys.umad.port import LocalPort, Outgoing

_DEFAULT_BASE: Final = 0x7FFF


@dataclass(frozen=True, slots=True)
class GmpPath:
    """The values that the address of a GMP has besides the LID. ``pkey_index``: index of its P_Key in the local table;
    ``sl``: service level."""

    pkey_index: int
    sl: int

    def outgoing(self, mad: bytes, lid: int, timeout_ms: int) -> Outgoing:
        """Return *mad* addressed to QP1 of *lid*; *timeout_ms*: 0 if no reply is expected."""
        return Outgoing(mad, lid, timeout_ms, GSI_QP, QP1_Q_KEY, self.sl, self.pkey_index)

    def request(self, mad: bytes, lid: int, timeout: float, retries: int, node: Hashable) -> Request:
        """Return *mad* as a request to *lid* for the scheduler. *timeout*: seconds for each attempt; *node*: as in
        `ibkeys.client.request.Envelope`. Raises EncodeError."""
        to = (GSI_QP, QP1_Q_KEY, self.sl, self.pkey_index)
        return Request.of_mad(node, mad.ljust(MAD_SIZE, b"\0"), lid, timeout, retries, to)


def gmp_path(local: LocalPort, pkey_index: int | None = None) -> GmpPath:
    """Return the path of GMPs from *local*. Its SL is PortInfo.MasterSMSL.

    *pkey_index*: None for that of the default partition (`default_pkey_index`). Raises UsageError if there is no P_Key
    at *pkey_index*; Unreachable if it is None and the port is not in the default partition.
    """
    if pkey_index is None:
        return GmpPath(default_pkey_index(local.pkeys), local.sm_sl)
    if not 0 <= pkey_index < len(local.pkeys) or not local.pkeys[pkey_index] & 0x7FFF:
        held = ", ".join(f"{index}: {PKey(key)}" for index, key in enumerate(local.pkeys) if key & 0x7FFF)
        raise UsageError(
            f"{local.ca_name} port {local.port} has no P_Key at index {pkey_index}; it has {held or 'none at all'}"
        )
    return GmpPath(pkey_index, local.sm_sl)


def default_pkey_index(pkeys: Sequence[int]) -> int:
    """Return the index of a P_Key of the default partition (0x7fff): the first full one, else the first limited one.

    Raises Unreachable when there is none.
    """
    for wanted in (0x8000 | _DEFAULT_BASE, _DEFAULT_BASE):
        if wanted in pkeys:
            return pkeys.index(wanted)
    raise Unreachable(
        "the local port has no P_Key of the default partition (base 0x7fff), which queries to the SA and to other "
        f"ports need; choose another entry with {given('--pkey-idx')}"
    )

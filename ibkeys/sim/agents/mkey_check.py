"""The M_Key check at a simulated port: `ibkeys.keys.mkey.check_m_key` with the port's state and the lease timer.

Order of operations (Linux qib and hfi1 SMAs, which agree): expire the lease, compare, stop the timer on a right key,
else decide by method and ProtectBits, count, start the timer, send trap 256.
"""

from __future__ import annotations

from typing import Final

from ibkeys.keys.mkey import check_m_key
from ibkeys.mad import offsets as at
from ibkeys.mad.const import GET, AttributeID
from ibkeys.sim.nodes import KEY, SimPort
from ibkeys.sim.traps import Traps

REFUSED: Final = 0
ACCEPTED: Final = 1
ACCEPTED_KEY_HIDDEN: Final = 2

_NO_KEY: Final = bytes(8)
_SHOW_KEYS: Final = frozenset({AttributeID.PORT_INFO, AttributeID.SM_INFO})


def check(port: SimPort, mad: bytes, traps: Traps) -> int:
    """Check the M_Key of one Get, Set or TrapRepress at *port*, apply the consequences, and return the verdict."""
    info = port.info
    key = info[KEY]
    if key == _NO_KEY or key == mad[at.M_KEY]:
        if port.lease_deadline is not None:
            expire(port)
            _stop_timer(port)
        return ACCEPTED
    if port.lease_deadline is not None:
        expire(port)
    method, attribute, protect_bits = mad[at.METHOD], int.from_bytes(mad[at.ATTRIBUTE_ID]), port.protect_bits
    verdict = check_m_key(
        method, attribute, protect_bits, int.from_bytes(key), int.from_bytes(mad[at.M_KEY]), port.lease_period
    )
    if verdict.accepted:
        # At level 1 SM_Key reads as 0, as M_Key does.
        hidden = attribute in _SHOW_KEYS and method == GET and protect_bits == 1 and key != mad[at.M_KEY]
        return ACCEPTED_KEY_HIDDEN if hidden else ACCEPTED
    if verdict.count_violation:
        _count_violation(port, mad, verdict.start_lease, traps)
    return REFUSED


def expire(port: SimPort) -> None:
    """Apply a lease that has run out: ProtectBits become 0, the key stays. A deadline equal to now has run out."""
    if port.lease_deadline is not None and port.node.history.now >= port.lease_deadline:
        port.lease_deadline = None
        port.protect_bits = 0
        port.record("lease-expired")


def _stop_timer(port: SimPort) -> None:
    if port.lease_deadline is not None:
        port.lease_deadline = None
        port.touch()
        port.record("lease-stopped")


def _count_violation(port: SimPort, mad: bytes, start_lease: bool, traps: Traps) -> None:
    port.m_key_violations = min(port.m_key_violations + 1, 0xFFFF)
    port.record("m-key-violation", method=mad[at.METHOD], attribute=int.from_bytes(mad[at.ATTRIBUTE_ID]))
    if start_lease and port.lease_deadline is None:
        port.lease_deadline = port.node.history.now + port.lease_period
        port.record("lease-started", deadline=port.lease_deadline)
    traps.send_bad_m_key(port, mad)

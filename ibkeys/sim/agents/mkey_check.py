"""The M_Key check at a simulated port: `ibkeys.keys.mkey.check_m_key` with the port's state and the lease timer.

The order is that of the Linux qib and hfi1 SMAs. First the lease expires if it has run out; then the keys are compared.
A right key stops the lease timer. For a wrong key, method and ProtectBits decide whether the SMP is accepted. If not,
the violation is counted, the timer started unless M_KeyLeasePeriod is 0, and trap 256 sent, unless a security trap was
sent shortly before.
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
    """Check the M_Key of the Get, Set or TrapRepress *mad* at *port*, change counter and lease, and return the verdict:
    `REFUSED`, `ACCEPTED` or `ACCEPTED_KEY_HIDDEN`."""
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
        # At level 1 a Get with a wrong key shows 0 for the SM_Key too, not only for the M_Key.
        hidden = attribute in _SHOW_KEYS and method == GET and protect_bits == 1 and key != mad[at.M_KEY]
        return ACCEPTED_KEY_HIDDEN if hidden else ACCEPTED
    if verdict.count_violation:
        _count_violation(port, mad, verdict.start_lease, traps)
    return REFUSED


def expire(port: SimPort) -> None:
    """If the M_Key lease of *port* has run out, set ProtectBits to 0. The key stays. At its deadline a lease has
    run out already."""
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

"""M_Key, level and lease of a port: they travel in one Set (IBA 14.2.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ibkeys.keys.mkey import MKey

SWEEPS_OF_A_LEASE: Final = 3
"""A lease should be a few multiples of the SM's sweep interval: only a sweep stops it, and one may be late or lost."""


def least_lease(sweep_interval: int) -> int:
    """Return the shortest lease that is advised where the SM sweeps every *sweep_interval* seconds."""
    return SWEEPS_OF_A_LEASE * sweep_interval


@dataclass(frozen=True, slots=True)
class KeySetting:
    """M_Key, M_KeyProtectBits and M_KeyLeasePeriod (seconds) that a port has or should have."""

    key: MKey
    protect: int
    lease: int

    def fields(self) -> dict[str, int]:
        """Return the two that are not secret, by their names in PortInfo."""
        return {"m_key_protect_bits": self.protect, "m_key_lease_period": self.lease}

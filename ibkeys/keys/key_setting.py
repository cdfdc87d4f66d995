"""M_Key, level and lease of a port, which are written by one Set (IBA 14.2.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ibkeys.errors import UsageError
from ibkeys.keys.mkey import MKey

SWEEPS_OF_A_LEASE: Final = 3
"""The shortest advised lease, as a number of sweep intervals of the SM. A running lease timer stops at an SMP with the
port's M_Key. The SM sends such SMPs in its sweeps, and a sweep may be late or lost."""


def least_lease(sweep_interval: int) -> int:
    """Return the shortest advised lease in seconds if the SM sweeps every *sweep_interval* seconds."""
    return SWEEPS_OF_A_LEASE * sweep_interval


@dataclass(frozen=True, slots=True)
class KeySetting:
    """M_Key, M_KeyProtectBits and M_KeyLeasePeriod (seconds) that a port has or should have."""

    key: MKey
    protect: int
    lease: int

    def fields(self) -> dict[str, int]:
        """Return the two fields that are not secret, by their names in PortInfo."""
        return {"m_key_protect_bits": self.protect, "m_key_lease_period": self.lease}

    def with_values(self, key: MKey | None, protect: int | None, lease: int | None) -> KeySetting:
        """Return a copy of this setting with *key*, *protect* and *lease* in place of its own values; None keeps a
        value.
        """
        return KeySetting(
            self.key if key is None else key,
            self.protect if protect is None else protect,
            self.lease if lease is None else lease,
        )


def check_level_and_lease(protect: int | None, lease: int | None) -> None:
    """Raise UsageError for a level or lease that PortInfo cannot have; None is accepted."""
    if protect is not None and not 0 <= protect <= 3:
        raise UsageError(f"ProtectBits {protect} is not in 0..3")
    if lease is not None and not 0 <= lease <= 0xFFFF:
        raise UsageError(f"lease {lease} s is not in 0..65535")

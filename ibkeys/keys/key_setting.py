"""M_Key, level and lease of a port: they travel in one Set (IBA 14.2.4)."""

from __future__ import annotations

from dataclasses import dataclass

from ibkeys.keys.mkey import MKey


@dataclass(frozen=True, slots=True)
class KeySetting:
    """M_Key, M_KeyProtectBits and M_KeyLeasePeriod (seconds) that a port has or should have."""

    key: MKey
    protect: int
    lease: int

    def fields(self) -> dict[str, int]:
        """Return the two that are not secret, by their names in PortInfo."""
        return {"m_key_protect_bits": self.protect, "m_key_lease_period": self.lease}

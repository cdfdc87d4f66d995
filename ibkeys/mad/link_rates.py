"""The rate of a port's link in Gb/s (IBA 14.2.5.6)."""

from __future__ import annotations

from typing import Final

from ibkeys.mad.attributes import PortInfo, SpeedsAboveNdr
from ibkeys.mad.const import CapabilityMask

_LANES: Final = {1: 1, 2: 4, 4: 8, 8: 12, 16: 2}
"""LinkWidthActive → lanes."""
_SPEEDS: Final = {1: 2.5, 2: 5.0, 4: 10.0}
"""LinkSpeedActive → Gb/s of a lane: SDR, DDR, QDR."""
_EXTENDED: Final = {1: 14.0, 2: 25.0, 4: 50.0, 8: 100.0}
"""LinkSpeedExtActive → Gb/s of a lane: FDR, EDR, HDR, NDR."""
_XDR: Final = 200.0


def link_rate(info: PortInfo) -> float | None:
    """Return the current rate of the link in Gb/s; None for a width or speed without a known meaning."""
    lanes = _LANES.get(info.link_width_active)
    speed = _speed(info)
    return None if lanes is None or speed is None else lanes * speed


def _speed(info: PortInfo) -> float | None:
    if info.capability_mask & CapabilityMask.IS_EXTENDED_SPEEDS_SUPPORTED:
        if SpeedsAboveNdr(info.raw).link_speed_ext_active2:
            return _XDR
        if info.link_speed_ext_active:
            return _EXTENDED.get(info.link_speed_ext_active)
    return _SPEEDS.get(info.link_speed_active)

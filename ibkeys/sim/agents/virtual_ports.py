"""Virtual ports of a simulated port. Only VirtualizationInfo is simulated: no query for their state is publicly
known."""

from __future__ import annotations

from ibkeys.mad.attributes import PortInfo
from ibkeys.mad.const import CapabilityMask, CapabilityMask2
from ibkeys.mad.virtualization import VirtualizationInfo
from ibkeys.sim.nodes import SimPort


def place(port: SimPort, info: VirtualizationInfo | None) -> None:
    """Set IsVirtualizationSupported of a CA port, and let it answer *info* to Get(VirtualizationInfo); None: it refuses
    the attribute as unknown."""
    port.capability_mask |= CapabilityMask.IS_CAPABILITY_MASK2_SUPPORTED
    _set_capability_bit(port, CapabilityMask2.IS_VIRTUALIZATION_SUPPORTED)
    port.virtualization = None if info is None else info.raw
    port.touch()


def remove(port: SimPort) -> None:
    """Clear IsVirtualizationSupported of a port, which then does not know VirtualizationInfo either."""
    _set_capability_bit(port, 0)
    port.virtualization = None
    port.touch()


def _set_capability_bit(port: SimPort, bit: int) -> None:
    other_bits = PortInfo.capability_mask2.decode(port.info) & ~CapabilityMask2.IS_VIRTUALIZATION_SUPPORTED
    PortInfo.capability_mask2.patch(port.info, other_bits | bit)

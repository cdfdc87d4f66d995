"""Checks of virtual ports: what is public of them was never seen on a device."""

from __future__ import annotations

from typing import Final

from ibkeys.errors import MadStatusError
from ibkeys.hardware.check import Answer, as_assumed, check, not_checked, seen
from ibkeys.hardware.look import Look
from ibkeys.mad.virtualization import VirtualizationInfo, VPortInfo


def _info(look: Look) -> VirtualizationInfo | None:
    """Return VirtualizationInfo of the local port, None where it has none."""
    look.handle.read_port_info()
    if not look.handle.port.can_have_virtual_ports:
        return None
    try:
        return VirtualizationInfo(look.handle.get(VirtualizationInfo))
    except MadStatusError:
        return None


@check("virtual-ports.local", "unknown", "VirtualizationInfo of the local port is recorded")
def local(look: Look) -> Answer:
    """Whether the local port has virtual ports, and how many."""
    info = _info(look)
    if info is None:
        return not_checked("the local port does not say that it has virtual ports")
    return seen(
        f"enabled {info.virtualization_enable}, up to {info.vport_cap}, highest index {info.vport_index_top}",
        **info.to_json(),
    )


@check("virtual-ports.index-0", "guess", "VPortInfo with AttributeModifier 0 is that of the port itself")
def index_0(look: Look) -> Answer:
    """Compare its GUID with that of the port."""
    info = _info(look)
    if info is None or not info.virtualization_enable:
        return not_checked("the local port has no virtual ports")
    try:
        port = VPortInfo(look.handle.get(VPortInfo, 0))
    except MadStatusError as error:
        return as_assumed(False, f"status 0x{error.status:04x}")
    is_own = port.vport_guid == look.local.port_guid
    return as_assumed(is_own, "the GUID is " + ("that of the port" if is_own else "another one"))


CHECKS: Final = (
    local,
    index_0,
)

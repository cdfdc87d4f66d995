"""Checks of traps, as far as reading attributes can show them."""

from __future__ import annotations

from ibkeys.errors import MadStatusError
from ibkeys.hardware.check import CheckAnswer, as_assumed, check, not_checked, seen
from ibkeys.hardware.reading import FabricReading
from ibkeys.mad.const import CapabilityMask
from ibkeys.mad.notice import Notice
from ibkeys.printable import counted


@check("traps.supported", "simulator", "every end port says IsTrapSupported")
def supported(reading: FabricReading) -> CheckAnswer:
    """Return how many end ports lack IsTrapSupported, and how many have IsNoticeSupported."""
    masks = [info.capability_mask for info in reading.port_infos]
    if not masks:
        return not_checked("no PortInfo was read")
    without = sum(not mask & CapabilityMask.IS_TRAP_SUPPORTED for mask in masks)
    notices = sum(bool(mask & CapabilityMask.IS_NOTICE_SUPPORTED) for mask in masks)
    return as_assumed(
        not without,
        f"{counted(len(masks), 'port')}, {without} without the bit; IsNoticeSupported: {notices}",
        without=without,
        notices=notices,
    )


@check("traps.waiting", "unknown", "what the local port answers to Get(Notice) is recorded")
def waiting(reading: FabricReading) -> CheckAnswer:
    """Return number and type of the trap that waits at the local port, or that none waits."""
    try:
        notice = Notice(reading.handle.get(Notice))
    except MadStatusError as error:
        return seen(f"status 0x{error.status:04x}")
    if not any(notice.raw):
        return seen("no trap waits")
    return seen(f"trap {notice.trap_number} of type {notice.type}", trap=notice.trap_number)

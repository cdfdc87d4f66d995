"""Building a Set(PortInfo) that changes the wanted fields and nothing else.

Set(PortInfo) writes the whole attribute, and many of its fields act when written. So a Set starts from a Get of the
same run and puts "no change" into every field that would act. Source: IBA 14.2.5.6; ibportstate, opensm, Linux qib.
"""

from __future__ import annotations

from typing import Any, Final

from ibkeys.keys.mkey import MKey
from ibkeys.mad.attributes import PortInfo
from ibkeys.mad.const import MAX_UNICAST_LID

KEEP_COUNTER: Final = 0xFFFF
"""The value that leaves a violation counter as it is. It ignores any value but 0; a 0 that was read and written back
would clear violations that were counted in the meantime."""

STAND_IN_LID: Final = 0x1234


_NO_CHANGE: Final = {
    "port_state": 0,
    "port_physical_state": 0,
    "link_down_default_state": 0,
    "link_width_enabled": 0,
    "link_speed_enabled": 0,
    "link_speed_ext_enabled": 0,
    "operational_vls": 0,
    "client_reregister": 0,
    "m_key_violations": KEEP_COUNTER,
    "p_key_violations": KEEP_COUNTER,
    "q_key_violations": KEEP_COUNTER,
}
_VOLATILE: Final = (
    *_NO_CHANGE,
    "link_width_active",
    "link_speed_active",
    "link_speed_ext_active",
    "diag_code",
    "capability_mask",
)


def set_image(read: PortInfo, m_key: MKey, **changes: Any) -> PortInfo:
    """Return the PortInfo to send so that only *changes* take effect on the port that *read* came from.

    *m_key* is the key that the port should have afterwards. It is always filled in: a Get at level 1 reads it as 0, and
    writing that back would erase it.
    """
    return read.replace(**{**_NO_CHANGE, "m_key": m_key.reveal(), **changes})


def with_valid_lids(image: PortInfo) -> PortInfo:
    """Return *image* with a stand-in for LID and MasterSMLID where they are not unicast LIDs.

    A port that no SM has configured reads 0 there, and agents refuse a Set with it. ibportstate sends the
    same stand-in.
    """
    fields = {
        attr: STAND_IN_LID for attr in ("lid", "master_sm_lid") if not 1 <= getattr(image, attr) <= MAX_UNICAST_LID
    }
    return image.replace(**fields)


def without_key(info: PortInfo) -> bytes:
    """Return the 64 bytes with M_Key zeroed, for the journal."""
    return info.masked().raw


def without_volatile_fields(info: PortInfo) -> bytes:
    """Return the 64 bytes with 0 in the fields that may change by themselves between two reads, such as states, link
    widths and speeds, counters and CapabilityMask, and in the fields that a Set leaves alone."""
    return info.replace(**dict.fromkeys(_VOLATILE, 0)).raw

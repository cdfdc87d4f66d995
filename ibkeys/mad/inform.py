"""The attributes for subscribing to traps and receiving them: InformInfo, and the Notice of a Report (IBA 13.4.8,
13.4.11, 15.2.5).

Source: OpenSM's ib_inform_info_t and ib_mad_notice_attr_t, and MADs that OpenSM accepted and sent.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, Self

from ibkeys.mad.const import AttributeID
from ibkeys.mad.fields import Layout, field
from ibkeys.mad.notice import Notice
from ibkeys.mad.records import SaRecord

ALL_LIDS: Final = 0xFFFF
ALL_TRAPS: Final = 0xFFFF
ALL_TYPES: Final = 0xFFFF
ALL_PRODUCERS: Final = 0xFF_FFFF
"""Values of LIDRangeBegin, TrapNumber, Type and ProducerType in InformInfo that match everything."""


class InformInfo(Layout):
    """InformInfo (IBA 13.4.8.3): the traps that a subscriber wants.

    If IsGeneric is 0, TrapNumber is the DeviceID and ProducerType the VendorID. If GID is 0, the LID range selects the
    ports.
    """

    size = 36
    name = "InformInfo"
    attribute_id = 0x0003
    # fmt: off
    #                       name           byte width
    gid             = field("GID",            0, 128, hex=True)
    lid_range_begin = field("LIDRangeBegin", 16,  16)
    lid_range_end   = field("LIDRangeEnd",   18,  16)
    is_generic      = field("IsGeneric",     22,   8)
    subscribe       = field("Subscribe",     23,   8)
    type            = field("Type",          24,  16)
    trap_number     = field("TrapNumber",    26,  16)
    qpn             = field("QPN",           28,  24)
    resp_time_value = field("RespTimeValue", 31,   5, bit=3)
    producer_type   = field("ProducerType",  33,  24)
    # fmt: on


class InformInfoRecord(SaRecord):
    """InformInfoRecord (IBA 15.2.5.12): one subscription that the SA has. OpenSM shows it to trusted requesters
    only."""

    size = 60
    name = "InformInfoRecord"
    attribute_id = 0x00F3
    inner = InformInfo, 24
    # fmt: off
    #                        name            byte width
    subscriber_gid   = field("SubscriberGID",   0, 128, hex=True)
    inform_info_enum = field("InformInfoEnum", 16,  16)
    # fmt: on
    components: ClassVar[dict[str, int]] = {"subscriber_gid": 0, "inform_info_enum": 1}


class ReportNotice(SaRecord):
    """The Notice of a Report (IBA 13.4.8.2, 13.4.9): the Notice of the trap, then the GID of the port that sent the
    trap."""

    size = 80
    name = "ReportNotice"
    attribute_id = int(AttributeID.NOTICE)
    inner = Notice, 0
    #                             name            byte width
    issuer_gid = field("IssuerGID", 64, 128, hex=True)

    @property
    def notice(self) -> Notice:
        """The Notice of the trap. That of the traps 256 and 1600 includes a key, which `Notice.masked` removes."""
        return Notice(self.raw[:64])

    def to_json(self, show_keys: bool = False) -> dict[str, Any]:
        """Return the fields of the Notice with its ``data_details``, and ``issuer_gid``, as JSON."""
        return {**self.notice.to_json(show_keys), "issuer_gid": f"0x{self.raw[64:].hex()}"}

    def masked(self) -> Self:
        """Return a copy without keys: the M_Key of trap 256, or the key of trap 1600."""
        return type(self)(self.notice.masked().raw + self.raw[64:])


def inform_info(trap: int, subscribe: bool, *, kind: int = ALL_TYPES, qpn: int = 1) -> InformInfo:
    """Return the InformInfo that subscribes to the trap number *trap* of all ports; with *subscribe* false, that ends
    the subscription.

    *trap* may be `ALL_TRAPS`. *kind*: only traps of this `NoticeType`, by default of any. *qpn*: the queue pair for the
    Reports, which must be the same when the subscription is ended. Raises EncodeError for a number that does not fit.
    """
    return InformInfo.new(
        lid_range_begin=ALL_LIDS,
        is_generic=1,
        subscribe=int(subscribe),
        type=kind,
        trap_number=trap,
        qpn=qpn,
        resp_time_value=_RESP_TIME,
        producer_type=ALL_PRODUCERS,
    )


_RESP_TIME: Final = 19
"""The time in which the subscriber answers: 4.096 us * 2^19, about 2 s, as in other programs."""

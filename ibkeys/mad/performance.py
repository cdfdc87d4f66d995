"""Attributes of the performance management class (IBA 16.1): PortCounters and PortCountersExtended.

They begin at byte 64 of a GMP of class 0x04, as does `ibkeys.mad.attributes.ClassPortInfo`. AttributeModifier: 0.
Sources: libibmad's field table for offsets and widths; the Linux kernel's ib_pma.h and perfquery's reset mask for the
bits of CounterSelect.
"""

from __future__ import annotations

from typing import Final

from ibkeys.mad.fields import Layout, field

DATA_OFFSET: Final = 64
CLASS_PORT_INFO: Final = 0x0001
PORT_COUNTERS: Final = 0x0012
PORT_COUNTERS_EXTENDED: Final = 0x001D

EXTENDED_WIDTH: Final = 1 << 9
XMIT_WAIT: Final = 1 << 12
"""Bits of ClassPortInfo.CapabilityMask in this class: the port has PortCountersExtended, or PortXmitWait (IBA
16.1.3.1)."""


class PortCounters(Layout):
    """PortCounters (IBA 16.1.3.5). A counter stays at its largest value until a Set that selects it clears it. Data
    counts words of four octets.
    """

    size = 44
    name = "PortCounters"
    # fmt: off
    #                                       name                          byte width
    port_select                     = field("PortSelect",                    1,  8)
    counter_select                  = field("CounterSelect",                 2, 16)
    symbol_error_counter            = field("SymbolErrorCounter",            4, 16)
    link_error_recovery_counter     = field("LinkErrorRecoveryCounter",      6,  8)
    link_downed_counter             = field("LinkDownedCounter",             7,  8)
    port_rcv_errors                 = field("PortRcvErrors",                 8, 16)
    port_rcv_remote_physical_errors = field("PortRcvRemotePhysicalErrors",  10, 16)
    port_rcv_switch_relay_errors    = field("PortRcvSwitchRelayErrors",     12, 16)
    port_xmit_discards              = field("PortXmitDiscards",             14, 16)
    port_xmit_constraint_errors     = field("PortXmitConstraintErrors",     16,  8)
    port_rcv_constraint_errors      = field("PortRcvConstraintErrors",      17,  8)
    counter_select2                 = field("CounterSelect2",               18,  8)
    local_link_integrity_errors     = field("LocalLinkIntegrityErrors",     19,  4)
    excessive_buffer_overrun_errors = field("ExcessiveBufferOverrunErrors", 19,  4, bit=4)
    qp1_dropped                     = field("QP1Dropped",                   20, 16)
    vl15_dropped                    = field("VL15Dropped",                  22, 16)
    port_xmit_data                  = field("PortXmitData",                 24, 32)
    port_rcv_data                   = field("PortRcvData",                  28, 32)
    port_xmit_pkts                  = field("PortXmitPkts",                 32, 32)
    port_rcv_pkts                   = field("PortRcvPkts",                  36, 32)
    port_xmit_wait                  = field("PortXmitWait",                 40, 32)
    # fmt: on


class PortCountersExtended(Layout):
    """PortCountersExtended (IBA 16.1.4.11): counters of data and packets with 64 bits. Data counts words of four
    octets."""

    size = 72
    name = "PortCountersExtended"
    # fmt: off
    #                                name                   byte width
    port_select              = field("PortSelect",             1,  8)
    counter_select           = field("CounterSelect",          2, 16)
    port_xmit_data           = field("PortXmitData",           8, 64)
    port_rcv_data            = field("PortRcvData",           16, 64)
    port_xmit_pkts           = field("PortXmitPkts",          24, 64)
    port_rcv_pkts            = field("PortRcvPkts",           32, 64)
    port_unicast_xmit_pkts   = field("PortUnicastXmitPkts",   40, 64)
    port_unicast_rcv_pkts    = field("PortUnicastRcvPkts",    48, 64)
    port_multicast_xmit_pkts = field("PortMulticastXmitPkts", 56, 64)
    port_multicast_rcv_pkts  = field("PortMulticastRcvPkts",  64, 64)
    # fmt: on


_LAST: Final = "qp1_dropped"
SELECTED: Final = (
    *(name for name in PortCounters.rows if "select" not in name and name != _LAST),
    _LAST,
)
"""The counters of PortCounters in the order of their bits: bit n of CounterSelect selects number n, and CounterSelect2
continues with number 16. That is the order of the table, except for QP1Dropped, which was defined last.
"""
SELECTED_EXTENDED: Final = tuple(name for name in PortCountersExtended.rows if "select" not in name)
"""The counters of PortCountersExtended: bit n of its CounterSelect selects number n."""

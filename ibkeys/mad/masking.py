"""Removing keys from MADs, for logs and captures: only fields that are known to be no keys stay, and every other bit
becomes zero.

Devices and C libraries do not clear unused bytes, such as the end of a path, a table or a text. These may have old
memory, even a key. So a byte stays only if a table says that it is no key.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from ibkeys.mad import offsets as at
from ibkeys.mad import performance
from ibkeys.mad.attributes import ClassPortInfo, PortInfo, SpeedsAboveNdr
from ibkeys.mad.classes.gmp import KEY_CLASS_OF
from ibkeys.mad.classes.key_info import NeighborRecord, NeighborsInfo
from ibkeys.mad.classes.notices import details_of
from ibkeys.mad.const import MAD_SIZE, MAX_HOPS, SMP_CLASSES, Method, MgmtClass
from ibkeys.mad.decode import SA_ATTRIBUTES, SMP_ATTRIBUTES
from ibkeys.mad.fields import Layout, TextRow
from ibkeys.mad.inform import ReportNotice
from ibkeys.mad.notice import DETAILS_AT, VENDOR_TRAP_NUMBER, BadMKeyDetails, Notice
from ibkeys.mad.records import LinkRecord, MCMemberRecord, PathRecord, PortInfoRecord
from ibkeys.mad.sa import ACTIVE, LAST, RMPP_OVERHEAD, SA_HEADER_SIZE, RmppType, SaHeader
from ibkeys.mad.smp import DATA_OFFSET, HEADER_SIZE, CommonHeader, DirectedRouteSmp, LidRoutedSmp

_SA: Final[dict[int, type[Layout]]] = {**SA_ATTRIBUTES, LinkRecord.attribute_id: LinkRecord}
_PERFORMANCE: Final[dict[int, type[Layout]]] = {
    performance.CLASS_PORT_INFO: ClassPortInfo,
    performance.PORT_COUNTERS: performance.PortCounters,
    performance.PORT_COUNTERS_EXTENDED: performance.PortCountersExtended,
}
# Bytes that the standard or newer devices define, but for which the table has no row.
_ALSO_DEFINED: Final[dict[type[Layout], tuple[range, ...]]] = {
    PortInfo: (range(SpeedsAboveNdr.link_speed_ext_active2.byte, SpeedsAboveNdr.link_speed_ext_active2.stop),),
    PortInfoRecord: (range(60, 61),),  # the byte of SpeedsAboveNdr
    PathRecord: (range(8), range(44, 58)),  # IBA 15.2.5.16: ServiceID; RawTraffic to Preference
    MCMemberRecord: (range(38, 39), range(42, 44)),  # IBA 15.2.5.17: selectors, PacketLifeTime
}
_HOPS: Final = slice(at.HOP_POINTER, at.HOP_COUNT + 1)


def masked(raw: bytes) -> bytes:
    """Return a copy of a MAD in which only known fields that are no keys stay, and all other bits are zero.

    Zeroed are the keys (M_Key, SM_Key, the keys of classes, attributes and traps), reserved fields, both paths of a
    directed route beyond its hops, the data of an SMP with the method Get, the data of an unknown attribute, and the
    bytes after a known attribute.

    Any bytes are accepted, of any version: shorter than a MAD (the 24 bytes that the kernel returns after a timeout, a
    short answer of the SA), or longer (an RMPP answer that the kernel assembled from its segments). Fewer than 24 bytes
    are all zeroed.
    """
    if len(raw) < HEADER_SIZE:
        return bytes(len(raw))
    mgmt_class, attribute_id = raw[1], int.from_bytes(raw[CommonHeader.attribute_id.span])
    if mgmt_class in SMP_CLASSES:
        shown = _masked_smp(raw, attribute_id)
    elif mgmt_class == MgmtClass.SUBN_ADM:
        shown = _known_fields(SaHeader, raw) + _masked_sa_data(raw, _SA.get(attribute_id))
    elif mgmt_class == MgmtClass.PERF_MGMT:
        shown = _masked_mad(raw, DATA_OFFSET, _PERFORMANCE.get(attribute_id))
    elif mgmt_class in KEY_CLASS_OF:
        of = KEY_CLASS_OF[mgmt_class]
        shown = _masked_mad(raw, of.data_offset, of.attributes.get(attribute_id))
    else:
        shown = _masked_header(raw)
    return shown[: len(raw)].ljust(len(raw), b"\0")


def _masked_header(raw: bytes) -> bytes:
    """Return the first 24 bytes of a MAD, in which the bytes that belong to the class are zero."""
    header = bytearray(_known_fields(CommonHeader, raw))
    header[at.STATUS] = raw[at.STATUS]
    return bytes(header)


def _masked_mad(raw: bytes, offset: int, layout: type[Layout] | None) -> bytes:
    """Return the common header, and the known fields of the attribute at *offset*."""
    return _masked_header(raw).ljust(offset, b"\0") + _masked_attribute(layout, raw[offset:], raw[1])


def _masked_smp(raw: bytes, attribute_id: int) -> bytes:
    """Return the known fields of an SMP."""
    directed = raw[1] == MgmtClass.SUBN_DIRECTED_ROUTE
    layout = SMP_ATTRIBUTES.get(attribute_id)
    shown = bytearray(_known_fields(DirectedRouteSmp if directed else LidRoutedSmp, raw))
    shown[:HEADER_SIZE] = _masked_header(raw)
    # The data of a Get has no meaning.
    data = b"" if raw[3] == Method.GET else _masked_attribute(layout, raw[DATA_OFFSET : DATA_OFFSET + 64], raw[1])
    shown[DATA_OFFSET:] = data.ljust(MAD_SIZE - DATA_OFFSET, b"\0")
    if directed:
        shown[_HOPS] = raw[_HOPS]
        pointer, hops = raw[_HOPS]
        if hops <= MAX_HOPS:
            # Each hop of the request writes one more entry of the return path.
            returned = hops if DirectedRouteSmp.d.decode(raw) or raw[3] & 0x80 else min(pointer, hops)
            for path, length in ((DirectedRouteSmp.initial_path_bytes, hops), (_RETURN, returned)):
                first = path.byte + 1  # entry 0 is not used
                entries = raw[first : first + length]
                shown[first : first + len(entries)] = entries
    return bytes(shown)


_RETURN: Final = DirectedRouteSmp.return_path_bytes


def _masked_sa_data(raw: bytes, layout: type[Layout] | None) -> bytes:
    """Return the known fields in the data of an SA MAD: of one record, or of all records in an answer or in a segment
    of it."""
    segment = 1
    data = raw[SA_HEADER_SIZE:]
    if layout is None:
        return b""
    if len(raw) >= SA_HEADER_SIZE and SaHeader.rmpp_version.decode(raw) and raw[26] & ACTIVE:
        if SaHeader.rmpp_type.decode(raw) != RmppType.DATA:
            return b""
        if len(raw) <= MAD_SIZE:
            segment = SaHeader.segment_number.decode(raw)
            if raw[26] & LAST:
                data = data[: max(SaHeader.payload_length.decode(raw) - RMPP_OVERHEAD, 0)]
    stride = 8 * SaHeader.attribute_offset.decode(raw)
    if raw[3] != Method.GET_TABLE_RESP or stride < layout.size:  # one record
        return _masked_attribute(layout, data, raw[1]) if segment == 1 else b""
    # A text that began in the segment before is zeroed, because it is not known whether it ended there.
    before = max(segment - 1, 0) * (MAD_SIZE - SA_HEADER_SIZE) % stride
    stream = bytes(before) + data
    records = (stream[start : start + stride] for start in range(0, len(stream), stride))
    return b"".join(_masked_attribute(layout, each, raw[1]).ljust(len(each), b"\0") for each in records)[before:]


def _masked_attribute(layout: type[Layout] | None, data: bytes, mgmt_class: int) -> bytes:
    """Return the known fields of the attribute in *data*, with the length of *data* or of the attribute, whichever is
    shorter.
    """
    if layout is None:
        return b""
    data = data[: layout.size]
    if layout is NeighborsInfo:
        step = NeighborRecord.size
        records = (data[start : start + step] for start in range(0, len(data), step))
        return b"".join(_known_fields(NeighborRecord, each) for each in records)[: len(data)]
    shown = _known_fields(layout, data)
    if layout in (Notice, ReportNotice):
        shown = _with_details(shown, data, mgmt_class)
    return shown[: len(data)]


def _with_details(shown: bytes, data: bytes, mgmt_class: int) -> bytes:
    """Return *shown*, the known fields of a Notice or ReportNotice, with the known fields of its details added. *data*:
    all of its bytes.
    """
    whole = data[: Notice.size].ljust(Notice.size, b"\0")
    notice = Notice(whole)
    details = details_of(notice, mgmt_class) if mgmt_class in KEY_CLASS_OF else notice.details
    if details is None:
        return shown
    known = bytearray(_known_fields(type(details), whole))
    if isinstance(details, BadMKeyDetails):
        # Some senders begin the path at entry 0, others at entry 1.
        end = min(BadMKeyDetails.dr_notice_return_path.byte + details.dr_hop_count + 1, Notice.size)
        known[end:] = bytes(Notice.size - end)
    if not notice.is_generic:
        known[VENDOR_TRAP_NUMBER] = whole[VENDOR_TRAP_NUMBER]
    return shown[:DETAILS_AT] + bytes(known[DETAILS_AT:]) + shown[Notice.size :]


def _known_fields(layout: type[Layout], data: bytes) -> bytes:
    """Return *data*, padded to the size of *layout*, with only those fields that are no keys. A text ends at its first
    NUL."""
    whole = data[: layout.size].ljust(layout.size, b"\0")
    shown = (int.from_bytes(whole) & _known_bits(layout)).to_bytes(layout.size)
    for row in layout.rows.values():
        if isinstance(row, TextRow):
            text = shown[row.span].partition(b"\0")[0]
            shown = shown[: row.byte] + text.ljust(row.stop - row.byte, b"\0") + shown[row.stop :]
    return shown


@cache
def _known_bits(layout: type[Layout]) -> int:
    """Return the bits of all fields of *layout* that are no keys, as one big-endian number."""
    known = hidden = 0
    for row in layout.rows.values():
        bits = row.bits << 8 * (layout.size - row.stop)
        if row.secret:
            hidden |= bits
        else:
            known |= bits
    for places in _ALSO_DEFINED.get(layout, ()):
        known |= ((1 << 8 * len(places)) - 1) << 8 * (layout.size - places.stop)
    return known & ~hidden

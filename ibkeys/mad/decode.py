"""Decoding MADs and attributes into JSON, and the tables of known attributes by class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ibkeys.errors import MalformedMad, UsageError
from ibkeys.mad.attributes import (
    ClassPortInfo,
    GUIDInfo,
    LinearForwardingTable,
    NodeDescription,
    NodeInfo,
    PKeyTable,
    PortInfo,
    SMInfo,
    SwitchInfo,
)
from ibkeys.mad.classes.gmp import KEY_CLASS_OF, KEY_CLASSES, ClassKeyHeader
from ibkeys.mad.classes.key_info import NeighborRecord
from ibkeys.mad.classes.notices import details_of
from ibkeys.mad.const import MAD_SIZE, MgmtClass, describe_status, method_name
from ibkeys.mad.fields import Layout
from ibkeys.mad.inform import InformInfo, InformInfoRecord, ReportNotice
from ibkeys.mad.notice import DETAILS_AT, Notice
from ibkeys.mad.records import MCMemberRecord, NodeRecord, PathRecord, PKeyTableRecord, PortInfoRecord
from ibkeys.mad.sa import ACTIVE, SA_HEADER_SIZE, RmppType, describe_rmpp_status
from ibkeys.mad.smp import DATA_OFFSET, DirectedRouteSmp, LidRoutedSmp, Mad, parse
from ibkeys.mad.virtualization import VIRTUAL_ATTRIBUTES

SMP_ATTRIBUTES: Final[dict[int, type[Layout]]] = {
    cls.attribute_id: cls
    for cls in (
        *(NodeDescription, NodeInfo, SwitchInfo, GUIDInfo, PortInfo, PKeyTable, LinearForwardingTable, SMInfo, Notice),
        *VIRTUAL_ATTRIBUTES,
    )
}
SA_ATTRIBUTES: Final[dict[int, type[Layout]]] = {
    0x0001: ClassPortInfo,
    0x0002: ReportNotice,
    InformInfo.attribute_id: InformInfo,
    **{
        cls.attribute_id: cls
        for cls in (NodeRecord, PortInfoRecord, PKeyTableRecord, PathRecord, MCMemberRecord, InformInfoRecord)
    },
}
CLASS_ATTRIBUTES: Final[dict[str, type[Layout]]] = {
    cls.name: cls
    for of in KEY_CLASSES.values()
    for cls in (of.key_info, *of.others, *((NeighborRecord,) if of.name == "n2n" else ()))
}
"""The attributes of the management classes with keys of their own (`KEY_CLASSES`), by name."""
ATTRIBUTES_BY_NAME: Final[dict[str, type[Layout]]] = {
    cls.name: cls for cls in (*SMP_ATTRIBUTES.values(), *SA_ATTRIBUTES.values(), *CLASS_ATTRIBUTES.values())
}


def _names_of(attributes: Mapping[int, type[Layout]]) -> dict[int, str]:
    return {number: layout.name for number, layout in attributes.items()}


_SMP_NAMES: Final = {
    0x0001: "ClassPortInfo",
    0x0017: "SLtoVLMappingTable",
    0x0018: "VLArbitrationTable",
    0x001A: "RandomForwardingTable",
    0x001B: "MulticastForwardingTable",
    0x0030: "VendorDiag",
    0x0031: "LedInfo",
    0x0032: "CableInfo",
    0x0033: "PortInfoExtended",
    **_names_of(SMP_ATTRIBUTES),
}
_SA_NAMES: Final = {
    0x0014: "SwitchInfoRecord",
    0x0018: "SMInfoRecord",
    0x0020: "LinkRecord",
    0x0030: "GUIDInfoRecord",
    0x0031: "ServiceRecord",
    **_names_of(SA_ATTRIBUTES),
    0x0002: "Notice",
}
_NAMES_BY_CLASS: Final[dict[int, dict[int, str]]] = {
    MgmtClass.SUBN_LID_ROUTED: _SMP_NAMES,
    MgmtClass.SUBN_DIRECTED_ROUTE: _SMP_NAMES,
    MgmtClass.SUBN_ADM: _SA_NAMES,
    MgmtClass.PERF_MGMT: {0x0001: "ClassPortInfo", 0x0012: "PortCounters", 0x001D: "PortCountersExtended"},
    **{mgmt_class: _names_of(of.attributes) for mgmt_class, of in KEY_CLASS_OF.items()},
}


def attribute_name(attribute_id: int, mgmt_class: int = MgmtClass.SUBN_LID_ROUTED) -> str | None:
    """Return the standard's name of an attribute in the class *mgmt_class*; None if it is not known."""
    return _NAMES_BY_CLASS.get(mgmt_class, {}).get(attribute_id)


def attribute_of(mad: Mad) -> Layout | None:
    """Return the attribute or first record in *mad*, as a view of a copy of its data.

    None if its table is not known here (no attribute of performance management is), or if the MAD is an RMPP packet
    that does not begin with a record.
    """
    if isinstance(mad, LidRoutedSmp | DirectedRouteSmp):
        layout, offset = SMP_ATTRIBUTES.get(mad.attribute_id), DATA_OFFSET
    elif mad.mgmt_class == MgmtClass.SUBN_ADM:
        if _rmpp_words(mad) not in ("", " segment 1"):
            return None  # an RMPP packet without data, or a segment that may begin inside a record
        layout, offset = SA_ATTRIBUTES.get(mad.attribute_id), SA_HEADER_SIZE
    elif mad.mgmt_class in KEY_CLASS_OF:
        of = KEY_CLASS_OF[mad.mgmt_class]
        layout, offset = of.attributes.get(mad.attribute_id), of.data_offset
    else:
        return None
    return layout(mad.raw[offset : offset + layout.size]) if layout else None


def _rmpp_words(mad: Mad) -> str:
    """Return the RMPP header of an SA MAD in words, such as " segment 3"; "" if RMPP is not in use."""
    raw = mad.raw
    if not (raw[24] and raw[26] & ACTIVE):
        return ""
    number = int.from_bytes(raw[28:32])
    if raw[25] == RmppType.DATA:
        return f" segment {number}"
    if raw[25] == RmppType.ACK:
        return f" RMPP ACK of {number}, window to {int.from_bytes(raw[32:36])}"
    kind = {3: "STOP", 4: "ABORT"}.get(raw[25], f"type {raw[25]}")
    return f" RMPP {kind} {describe_rmpp_status(raw[27])}"


def mad_to_json(mad: Mad, show_keys: bool = False) -> dict[str, Any]:
    """Return the header of *mad* as the ``mad`` part of the ``decode`` document.

    The fields of SMPs and of directed routes are None in MADs without them; ``class_key`` exists only in MADs of
    classes with a key of their own. The header of an SA MAD from byte 24 on (RMPP, SM_Key, ComponentMask) is left out.
    Both paths of a directed route have HopCount + 1 entries, including the unused entry 0. Unless *show_keys*, keys are
    None, and ``NAME_masked`` is true.
    """
    directed = mad if isinstance(mad, DirectedRouteSmp) else None
    smp = mad if isinstance(mad, LidRoutedSmp | DirectedRouteSmp) else None
    document: dict[str, Any] = {
        **{name: getattr(mad, name) for name in ("base_version", "mgmt_class", "class_version", "method", "status")},
        **{name: getattr(directed, name) if directed else None for name in ("d", "hop_pointer", "hop_count")},
        "transaction_id": f"0x{mad.transaction_id:016x}",
        "attribute_id": mad.attribute_id,
        "attribute_modifier": mad.attribute_modifier,
        "m_key": f"0x{smp.m_key:016x}" if smp and show_keys else None,
    }
    if smp and not show_keys:
        document["m_key_masked"] = True
    if mad.mgmt_class in KEY_CLASS_OF:
        key = ClassKeyHeader(mad.raw[: ClassKeyHeader.size]).class_key
        document["class_key"] = f"0x{key:016x}" if show_keys else None
        if not show_keys:
            document["class_key_masked"] = True
    document |= {name: getattr(directed, name) if directed else None for name in ("dr_slid", "dr_dlid")}
    document |= {name: list(getattr(directed, name)) if directed else None for name in ("initial_path", "return_path")}
    return document


def decode(raw: bytes, attribute: str | None = None, show_keys: bool = False) -> dict[str, Any]:
    """Return the ``decode`` document (without ``schema``) of a whole MAD, or of the bytes of one attribute.

    256 bytes are a MAD; *attribute* names the attribute in it, by default the one of its header. Fewer bytes are the
    attribute *attribute* itself. Without *attribute* they are an SA MAD that its sender cut off after the data, with at
    least 56 bytes. ``fields`` is None if the table of the attribute is not known or its bytes are not complete. Keys
    are masked unless *show_keys*. Raises MalformedMad, and UsageError for an unknown name in *attribute*.
    """
    layout = ATTRIBUTES_BY_NAME.get(attribute) if attribute else None
    if attribute and layout is None:
        raise UsageError(f"there is no attribute {attribute!r}; choose from {', '.join(sorted(ATTRIBUTES_BY_NAME))}")
    if layout is None and _is_short_sa_mad(raw):
        known = SA_ATTRIBUTES.get(int.from_bytes(raw[16:18]))
        layout = known if known and len(raw) >= SA_HEADER_SIZE + known.size else None
        document = decode(raw.ljust(MAD_SIZE, b"\0"), None, show_keys)
        return document if layout else {**document, "fields": None}
    if len(raw) == MAD_SIZE:
        mad = parse(raw)
        offset = _data_offset(mad.mgmt_class)
        payload = layout(raw[offset : offset + layout.size]) if layout else attribute_of(mad)
        name = attribute or attribute_name(mad.attribute_id, mad.mgmt_class)
        return {
            "mad": mad_to_json(mad, show_keys),
            "attribute": name,
            "fields": _fields_of(payload, mad.mgmt_class, show_keys) if payload else None,
        }
    if layout is None:
        names = ", ".join(sorted(ATTRIBUTES_BY_NAME))
        raise MalformedMad(
            f"{len(raw)} bytes are not a MAD (256 bytes); to decode a bare payload, name its attribute: {names}"
        )
    if len(raw) != layout.size:
        raise MalformedMad(f"{attribute} is {layout.size} bytes (a whole MAD is 256), but {len(raw)} were given")
    return {"mad": None, "attribute": attribute, "fields": layout(raw).to_json(show_keys)}


def _data_offset(mgmt_class: int) -> int:
    if mgmt_class in KEY_CLASS_OF:
        return KEY_CLASS_OF[mgmt_class].data_offset
    return SA_HEADER_SIZE if mgmt_class == MgmtClass.SUBN_ADM else DATA_OFFSET


def _is_short_sa_mad(raw: bytes) -> bool:
    """Return whether *raw* is an SA MAD that is cut off after its header or in its data."""
    return SA_HEADER_SIZE <= len(raw) < MAD_SIZE and raw[:3] == bytes((1, MgmtClass.SUBN_ADM, 2))


def summary(raw: bytes) -> str:
    """Return one line about a MAD, without any key: method, attribute, modifier, route, RMPP part, status and
    TransactionID; or the reason why *raw* is malformed.
    """
    try:
        mad = parse(raw)
    except MalformedMad as error:
        return f"malformed MAD: {error}"
    name = attribute_name(mad.attribute_id, mad.mgmt_class) or f"attribute 0x{mad.attribute_id:04x}"
    line = f"{method_name(mad.method)}({name}, modifier 0x{mad.attribute_modifier:x})"
    if isinstance(mad, DirectedRouteSmp):
        line += " route " + ",".join(map(str, mad.initial_path))
    if mad.mgmt_class == MgmtClass.SUBN_ADM:
        line += _rmpp_words(mad)
    if mad.is_response:
        line += f" status {describe_status(mad.status, mad.mgmt_class)}"
    return f"{line} tid 0x{mad.transaction_id:x}"


def _fields_of(payload: Layout, mgmt_class: int, show_keys: bool) -> dict[str, Any]:
    """Return the fields of *payload*, the attribute in a MAD of *mgmt_class*.

    The meaning of a Notice's details depends on the class. In a class with keys of its own, the details of an unknown
    trap may have a key, so they are shown only with *show_keys*.
    """
    document = payload.to_json(show_keys)
    if isinstance(payload, Notice) and mgmt_class in KEY_CLASS_OF:
        details = details_of(payload, mgmt_class)
        hidden = {"raw": payload.raw[DETAILS_AT:].hex() if show_keys else None}
        document["data_details"] = details.to_json(show_keys) if details is not None else hidden
    return document

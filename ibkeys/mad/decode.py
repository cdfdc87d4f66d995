"""MADs and attributes in words: the registry of what is known, the JSON form of a MAD, and its copy without keys."""

from __future__ import annotations

from typing import Any, Final

from ibkeys.errors import MalformedMad
from ibkeys.mad.attributes import (
    ClassPortInfo,
    GUIDInfo,
    MCMemberRecord,
    NodeDescription,
    NodeInfo,
    PathRecord,
    PKeyTable,
    PortInfo,
    SMInfo,
    SwitchInfo,
)
from ibkeys.mad.const import SMP_CLASSES, MgmtClass, describe_status, method_name
from ibkeys.mad.fields import Layout
from ibkeys.mad.notice import Notice
from ibkeys.mad.smp import DATA_OFFSET, DirectedRouteSmp, LidRoutedSmp, Mad, parse

SA_SM_KEY_OFFSET: Final = 36
SA_DATA_OFFSET: Final = 56

SMP_ATTRIBUTES: Final[dict[int, type[Layout]]] = {
    cls.attribute_id: cls
    for cls in (NodeDescription, NodeInfo, SwitchInfo, GUIDInfo, PortInfo, PKeyTable, SMInfo, Notice)
}
SA_ATTRIBUTES: Final[dict[int, type[Layout]]] = {
    0x0001: ClassPortInfo,
    0x0002: Notice,
    0x0035: PathRecord,
    0x0038: MCMemberRecord,
}
ATTRIBUTES_BY_NAME: Final[dict[str, type[Layout]]] = {
    str(cls.name): cls  # type: ignore[attr-defined]
    for cls in (*SMP_ATTRIBUTES.values(), ClassPortInfo, MCMemberRecord, PathRecord)
}

_SMP_NAMES: Final = {
    0x0001: "ClassPortInfo",
    0x0002: "Notice",
    0x0010: "NodeDescription",
    0x0011: "NodeInfo",
    0x0012: "SwitchInfo",
    0x0014: "GUIDInfo",
    0x0015: "PortInfo",
    0x0016: "P_KeyTable",
    0x0017: "SLtoVLMappingTable",
    0x0018: "VLArbitrationTable",
    0x0019: "LinearForwardingTable",
    0x001A: "RandomForwardingTable",
    0x001B: "MulticastForwardingTable",
    0x0020: "SMInfo",
    0x0030: "VendorDiag",
    0x0031: "LedInfo",
    0x0032: "CableInfo",
    0x0033: "PortInfoExtended",
}
_SA_NAMES: Final = {
    0x0001: "ClassPortInfo",
    0x0002: "Notice",
    0x0003: "InformInfo",
    0x0011: "NodeRecord",
    0x0012: "PortInfoRecord",
    0x0014: "SwitchInfoRecord",
    0x0018: "SMInfoRecord",
    0x0020: "LinkRecord",
    0x0030: "GUIDInfoRecord",
    0x0031: "ServiceRecord",
    0x0033: "P_KeyTableRecord",
    0x0035: "PathRecord",
    0x0038: "MCMemberRecord",
    0x00F3: "InformInfoRecord",
}
_NAMES_BY_CLASS: Final[dict[int, dict[int, str]]] = {
    MgmtClass.SUBN_LID_ROUTED: _SMP_NAMES,
    MgmtClass.SUBN_DIRECTED_ROUTE: _SMP_NAMES,
    MgmtClass.SUBN_ADM: _SA_NAMES,
    MgmtClass.PERF_MGMT: {0x0001: "ClassPortInfo", 0x0012: "PortCounters", 0x001D: "PortCountersExtended"},
}


def attribute_name(attribute_id: int, mgmt_class: int = MgmtClass.SUBN_LID_ROUTED) -> str | None:
    """Return the standard's name of an attribute of *mgmt_class*, or None when it is not known."""
    return _NAMES_BY_CLASS.get(mgmt_class, {}).get(attribute_id)


def attribute_of(mad: Mad) -> Layout | None:
    """Return the attribute that *mad* carries as a view on its data, or None when no table is known for it."""
    if isinstance(mad, LidRoutedSmp | DirectedRouteSmp):
        layout, offset = SMP_ATTRIBUTES.get(mad.attribute_id), DATA_OFFSET
    elif mad.mgmt_class == MgmtClass.SUBN_ADM:
        layout, offset = SA_ATTRIBUTES.get(mad.attribute_id), SA_DATA_OFFSET
    else:
        return None
    return layout(mad.raw[offset : offset + layout.size]) if layout else None


def mad_to_json(mad: Mad, show_keys: bool = False) -> dict[str, Any]:
    """Return the header of *mad* as the ``mad`` part of the ``decode`` document. Fields that its class lacks are None.

    Both paths hold HopCount + 1 entries, the unused entry 0 included.
    """
    directed = mad if isinstance(mad, DirectedRouteSmp) else None
    has_m_key = isinstance(mad, LidRoutedSmp | DirectedRouteSmp)
    document: dict[str, Any] = {
        "base_version": mad.base_version,
        "mgmt_class": mad.mgmt_class,
        "class_version": mad.class_version,
        "method": mad.method,
        "status": mad.status,
        "d": directed.d if directed else None,
        "hop_pointer": directed.hop_pointer if directed else None,
        "hop_count": directed.hop_count if directed else None,
        "transaction_id": f"0x{mad.transaction_id:016x}",
        "attribute_id": mad.attribute_id,
        "attribute_modifier": mad.attribute_modifier,
        "m_key": f"0x{mad.m_key:016x}" if has_m_key and show_keys else None,
    }
    if has_m_key and not show_keys:
        document["m_key_masked"] = True
    document["dr_slid"] = directed.dr_slid if directed else None
    document["dr_dlid"] = directed.dr_dlid if directed else None
    document["initial_path"] = list(directed.initial_path) if directed else None
    document["return_path"] = list(directed.return_path) if directed else None
    return document


def decode(raw: bytes, attribute: str | None = None, show_keys: bool = False) -> dict[str, Any]:
    """Return the ``decode`` document (without ``schema``) of a whole MAD, or of a bare payload of *attribute*.

    256 bytes are a MAD; with *attribute* given its data is read as that attribute. Fewer bytes are the payload of
    *attribute*, which must be given. Raises MalformedMad.
    """
    layout = ATTRIBUTES_BY_NAME[attribute] if attribute else None
    if len(raw) == 256:
        mad = parse(raw)
        offset = SA_DATA_OFFSET if mad.mgmt_class == MgmtClass.SUBN_ADM else DATA_OFFSET
        payload = layout(raw[offset : offset + layout.size]) if layout else attribute_of(mad)
        name = attribute or attribute_name(mad.attribute_id, mad.mgmt_class)
        return {
            "mad": mad_to_json(mad, show_keys),
            "attribute": name,
            "fields": payload.to_json(show_keys) if payload else None,
        }
    if layout is None:
        known = ", ".join(sorted(ATTRIBUTES_BY_NAME))
        raise MalformedMad(
            f"{len(raw)} bytes are no MAD (256 bytes); for a bare payload name its attribute: --attribute, one of {known}"
        )
    if len(raw) != layout.size:
        raise MalformedMad(f"{attribute} has {layout.size} bytes (a whole MAD 256), {len(raw)} given")
    return {"mad": None, "attribute": attribute, "fields": layout(raw).to_json(show_keys)}


def masked(raw: bytes) -> bytes:
    """Return a copy of a MAD with every key zeroed: M_Key, SM_Key, those inside the attribute, and that of trap 256.

    Bytes that are no whole MAD (the kernel's 24-byte timeout) are returned as they are: they hold no key.
    """
    if len(raw) < 32:
        return raw
    buffer = bytearray(raw)
    if raw[1] in SMP_CLASSES:
        buffer[24:32] = bytes(8)
    elif raw[1] == MgmtClass.SUBN_ADM:
        buffer[SA_SM_KEY_OFFSET : SA_SM_KEY_OFFSET + 8] = bytes(8)
    if len(raw) == 256 and raw[0] == 1:
        _mask_payload(buffer)
    return bytes(buffer)


def _mask_payload(buffer: bytearray) -> None:
    attribute_id = int.from_bytes(buffer[16:18])
    if buffer[1] in SMP_CLASSES:
        layout, offset = SMP_ATTRIBUTES.get(attribute_id), DATA_OFFSET
    elif buffer[1] == MgmtClass.SUBN_ADM:
        # PortInfoRecord and SMInfoRecord carry the attribute behind a record identifier.
        record = {0x0012: (PortInfo, 4), 0x0018: (SMInfo, 4)}.get(attribute_id)
        layout, offset = (record[0], SA_DATA_OFFSET + record[1]) if record else (SA_ATTRIBUTES.get(attribute_id), SA_DATA_OFFSET)
    else:
        return
    if layout is not None:
        span = slice(offset, offset + layout.size)
        buffer[span] = layout(bytes(buffer[span])).masked().raw


def summary(raw: bytes) -> str:
    """Return one line that names a MAD: method, attribute, modifier, route, status. It holds no key."""
    try:
        mad = parse(raw)
    except MalformedMad as error:
        return f"malformed MAD: {error}"
    name = attribute_name(mad.attribute_id, mad.mgmt_class) or f"attribute 0x{mad.attribute_id:04x}"
    line = f"{method_name(mad.method)}({name}, modifier 0x{mad.attribute_modifier:x})"
    if isinstance(mad, DirectedRouteSmp):
        line += " route " + ",".join(map(str, mad.initial_path))
    if mad.is_response:
        line += f" status {describe_status(mad.status, mad.mgmt_class)}"
    return f"{line} tid 0x{mad.transaction_id:x}"

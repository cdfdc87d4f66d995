"""What is shown of a MAD of the classes with keys of their own, and what is hidden in it."""

from __future__ import annotations

from typing import Any, Final

from ibkeys.mad.classes.gmp import KEY_CLASS_OF, ClassKeyHeader, KeyClass
from ibkeys.mad.classes.notices import details_of
from ibkeys.mad.fields import Layout
from ibkeys.mad.notice import Notice

_KEY: Final = ClassKeyHeader.class_key.span
_ATTRIBUTE_ID: Final = ClassKeyHeader.attribute_id.span
_DETAILS: Final = 10


def fields_of(payload: Layout, mgmt_class: int, show_keys: bool = False) -> dict[str, Any]:
    """Return the fields of what a MAD of *mgmt_class* carries. The details of a Notice depend on the class; of one that
    is not known they are shown with keys only."""
    document = payload.to_json(show_keys)
    if isinstance(payload, Notice) and mgmt_class in KEY_CLASS_OF:
        details = details_of(payload, mgmt_class)
        hidden = {"raw": payload.raw[_DETAILS:].hex() if show_keys else None}
        document["data_details"] = details.to_json(show_keys) if details is not None else hidden
    return document


def masked_class_mad(mad: bytes, of: KeyClass) -> bytes:
    """Return *mad*, of the class *of* and of any length, without the key of its header and those of its attribute.

    Bytes that no table describes may hold keys. So an unknown attribute is zeroed, and so are all bytes after a known
    one.
    """
    buffer = bytearray(mad)
    hidden = buffer[_KEY]
    buffer[_KEY] = bytes(len(hidden))
    start = of.data_offset
    layout = of.attributes.get(int.from_bytes(buffer[_ATTRIBUTE_ID]))
    size = layout.size if layout is not None else len(buffer)
    payload = bytes(buffer[start : start + size])
    whole = payload.ljust(size, b"\0")
    if layout is None:
        shown = b""
    elif layout is Notice:
        details = details_of(Notice(whole), of.mgmt_class)
        shown = details.masked().raw if details is not None else whole[:_DETAILS]
    else:
        shown = layout(whole).masked().raw
    buffer[start:] = shown[: len(payload)].ljust(max(len(buffer) - start, 0), b"\0")
    return bytes(buffer)

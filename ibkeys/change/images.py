"""The journal's images of Sets: making them, and listing the changes that they record."""

from __future__ import annotations

import struct
from typing import Final

from ibkeys.change.wanted import FieldValue
from ibkeys.keys.pkey import PKey
from ibkeys.mad.attributes import VIOLATION_COUNTERS, PortInfo
from ibkeys.mad.const import P_KEYS_PER_BLOCK
from ibkeys.store.journal import Image
from ibkeys.topology.enforcement import as_shown
from ibkeys.topology.nodes import Port

ImageRow = tuple[str, int | None, FieldValue, FieldValue]
"""Kind, index, before, after: as `ibkeys.change.plan.Change` has them."""
P_KEY_BLOCK: Final = struct.Struct(f">{P_KEYS_PER_BLOCK}H")
"""The entries in the 64 bytes of a block of a P_Key table."""
_FIELDS: Final = (
    "m_key_protect_bits",
    "m_key_lease_period",
    "partition_enforcement_inbound",
    "partition_enforcement_outbound",
)


def image_of(
    port: Port, attribute: str, modifier: int, before: bytes, after: bytes, key_name: str | None = None
) -> Image:
    """Return the journal's image of one Set to *port*."""
    return Image(
        node_guid=port.node.guid,
        port_guid=port.port_guid,
        node_desc=port.node.description or "",
        node_type=port.node.type_name,
        port=port.num,
        lid=port.lid or 0,
        attribute=attribute,
        attribute_modifier=modifier,
        before=before,
        after=after,
        key_name=key_name,
    )


def changes_of(image: Image, removes_key: bool = False) -> list[ImageRow]:
    """Return the values that differ between the images of one Set. Of an M_Key the row only says that it was set, or,
    with *removes_key*, that it was removed."""
    if image.attribute == "P_KeyTable":
        start = (image.attribute_modifier & 0xFFFF) * P_KEYS_PER_BLOCK
        pairs = zip(P_KEY_BLOCK.unpack(image.before), P_KEY_BLOCK.unpack(image.after), strict=True)
        return [
            ("pkey", index, str(PKey(old)) if old else None, str(PKey(new)) if new else None)
            for index, (old, new) in enumerate(pairs, start)
            if old != new
        ]
    before, after = PortInfo(image.before), PortInfo(image.after)
    rows: list[ImageRow] = [
        (name, None, as_shown(name, getattr(before, name)), as_shown(name, getattr(after, name)))
        for name in _FIELDS
        if getattr(before, name) != getattr(after, name)
    ]
    # A counter ignores every written value but 0.
    rows += [(row.attr, None, row.decode(before.raw), 0) for row in VIOLATION_COUNTERS if not row.decode(after.raw)]
    return rows if image.key_name is None else [("m_key", None, None, "zero" if removes_key else "set"), *rows]

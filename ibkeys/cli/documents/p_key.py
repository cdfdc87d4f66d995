"""The documents about the P_Key table of a port: pkey-show, pkey-set, pkey-add, pkey-remove."""

from __future__ import annotations

from typing import Final

from ibkeys.cli.documents.field import NUMBER, TEXT, CsvRows, Document, Field, list_field, object_of, or_null
from ibkeys.cli.documents.shared import ERRORS, P_KEY_ENTRY, P_KEYS, PORT, UNREACHED, changed_ports

_CAPACITY: Final = Field("capacity", or_null(NUMBER), "How many entries the table can have. Null: not read.")
_VIRTUAL_PORTS: Final = or_null(
    object_of(
        Field("state", TEXT, "Whether they are on: on, off or unknown."),
        Field("possible", or_null(NUMBER), "VPortCap: how many virtual ports the port can have. Null unless on."),
        Field("top_index", or_null(NUMBER), "VPortIndexTop: the highest index of a virtual port. Null unless on."),
    )
)
_VALUES: Final = (
    _CAPACITY,
    P_KEYS,
    Field(
        "virtual_ports",
        _VIRTUAL_PORTS,
        "The virtual ports behind the port; their P_Key tables cannot be read. Null: it cannot have any, or the table "
        "is from sysfs.",
    ),
)

PKEY_SHOW: Final = Document(
    "pkey-show",
    1,
    (
        list_field("ports", "The ports that were asked for.", *PORT, *_VALUES),
        ERRORS,
        UNREACHED,
        Field("source", TEXT, "sysfs: the table is what the driver has, not read from the port.", optional=True),
    ),
    CsvRows("entry; a port without entries has none", (*PORT, _CAPACITY, *P_KEY_ENTRY.fields)),
)
PKEY_SET: Final = changed_ports("pkey-set", 1)
PKEY_ADD: Final = changed_ports("pkey-add", 1)
PKEY_REMOVE: Final = changed_ports("pkey-remove", 1)

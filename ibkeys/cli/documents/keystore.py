"""The documents about the key store: keystore generate, list, import, export."""

from __future__ import annotations

from typing import Final

from ibkeys.cli.documents.field import (
    FLAG,
    NOTHING,
    NUMBER,
    TEXT,
    CsvRows,
    Document,
    Field,
    JsonType,
    by_name,
    list_field,
    list_of,
    object_of,
    one_of,
    or_null,
)
from ibkeys.cli.documents.shared import ERRORS, GUID, PORT_IDENTITY, PORT_NUMBER, TIME

_KEY: Final = JsonType(("string",), pattern="^0x[0-9a-f]{16}$")
_WITHOUT_K: Final = "Null: without -K."
_COUNTS: Final = by_name(NUMBER)
_LINKS: Final = Field("links", NUMBER, "How many links are known.")
_NOTE: Final = Field("note", or_null(TEXT), "Where it comes from. Null: no note.", "Note", empty="")
_SINCE: Final = Field("since", TIME, "Since when it is in this state.", "Since")

# --- generate ---------------------------------------------------------------------------------------------------------

KEYSTORE_GENERATE: Final = Document(
    "keystore-generate",
    1,
    (Field("m_keys", list_of(_KEY), "The keys."),),
    CsvRows("key", (Field("m_key", _KEY, "The key."),)),
    about="What `ibkeys keystore generate -f json` writes",
    page="keystore",
)

# --- list -------------------------------------------------------------------------------------------------------------

STORED_KEY: Final = (
    Field("node_guid", GUID, "The node. Null: not known.", "Node GUID", empty=NOTHING),
    Field("port_guid", GUID, "The port.", "Port GUID"),
    Field("port", PORT_NUMBER, "The number of the port. Null: not known.", "Port", empty=NOTHING),
    Field("state", TEXT, "current, pending, former or imported.", "State"),
    Field("m_key", or_null(TEXT), f"The M_Key. {_WITHOUT_K}", "M_Key", empty=NOTHING),
    Field("m_key_protect_bits", or_null(NUMBER), "M_KeyProtectBits. Null: not known.", "ProtectBits", empty=NOTHING),
    Field(
        "m_key_lease_period",
        or_null(NUMBER),
        "M_KeyLeasePeriod in seconds. Null: not known.",
        "Lease (s)",
        empty=NOTHING,
    ),
    _SINCE,
    _NOTE,
)

KEYSTORE_LIST: Final = Document(
    "keystore-list",
    1,
    (
        list_field("keys", "The M_Keys of ports.", *STORED_KEY),
        Field(
            "subnet_keys",
            list_of(object_of(Field("m_key", or_null(TEXT), f"The M_Key. {_WITHOUT_K}"), _SINCE, _NOTE)),
            "M_Keys of whole subnets, used for ports without a key of their own.",
        ),
        list_field(
            "sm_keys",
            "The SM_Keys and SA_Keys.",
            Field("kind", TEXT, "sm_key, sa_key or other."),
            Field("key", or_null(_KEY), f"The key. {_WITHOUT_K}"),
            Field("state", TEXT, "Its state, as for M_Keys."),
            _SINCE,
            _NOTE,
            Field("subnet", or_null(list_of(GUID)), "The port GUIDs of its subnet. Null: not known."),
        ),
        Field("class_keys", _COUNTS, "How many keys of each other class: `cc`, `vs`, `n2n`, `b`."),
        Field("encrypted", FLAG, "Whether the keys are encrypted."),
        _LINKS,
        Field(
            "links_seen",
            or_null(
                object_of(
                    Field("oldest", TIME, "When the oldest of them was seen."),
                    Field("newest", TIME, "When the newest of them was seen."),
                )
            ),
            "When links were seen. Null: none is known.",
        ),
        Field("lids", NUMBER, "How many LIDs are known."),
    ),
    CsvRows("M_Key of a port", STORED_KEY),
    about="What `ibkeys keystore list -f json` writes",
    page="keystore",
)

_PLACE: Final = object_of(
    Field("guid", GUID, "Its port GUID; of an external switch port the node GUID."),
    Field("port", NUMBER, "Its number."),
)
_BEHIND: Final = Field("behind", PORT_IDENTITY, "The near end of the link.")
_KNOWN: Final = Field("known", or_null(_PLACE), "The far end that the key store has. Null: none is known.")
KEYSTORE_SETTLE: Final = Document(
    "keystore-list-settle",
    1,
    (
        list_field(
            "moved",
            "Ports that are at another place.",
            Field("port_guid", GUID, "The port."),
            Field("port", NUMBER, "Its number."),
            Field("was_behind", or_null(_PLACE), "What it was linked to. Null: not known."),
            Field("now_behind", PORT_IDENTITY, "What it is linked to."),
            Field(
                "source",
                one_of("named", "answered"),
                "How that is known: named by a table or record, or it answered itself.",
            ),
        ),
        Field(
            "replaced",
            list_of(object_of(_BEHIND, _KNOWN, Field("now", or_null(_PLACE), "The far end that is there."))),
            "Links that lead elsewhere.",
        ),
        Field("vanished", list_of(GUID), "The GUIDs of ports that were not found; their keys stay."),
        Field("claimed_twice", list_of(GUID), "The GUIDs that several nodes report."),
        list_field("unidentified", "Places of which it is not known who is there.", _BEHIND, _KNOWN),
        Field("settled", FLAG, "Whether this was recorded."),
    ),
    about="What `ibkeys keystore list --settle -f json` writes",
    page="keystore",
)

# --- import, export ---------------------------------------------------------------------------------------------------

IMPORTED_PORT: Final = (
    Field("port_guid", GUID, "The port."),
    Field("result", TEXT, "new, known, changed or older."),
)
KEYSTORE_IMPORT: Final = Document(
    "keystore-import",
    1,
    (
        list_field("ports", "The ports whose M_Key is in the files.", *IMPORTED_PORT),
        Field("one_key_for_changed", FLAG, "Whether all ports with a different key have the same one."),
        Field("links", NUMBER, "Links that were read."),
        Field("lids", NUMBER, "LIDs that were read."),
        Field("class_keys", _COUNTS, "How many keys of each other class were read: `cc`, `vs`, `n2n`, `b`."),
        Field("subnet_key", or_null(FLAG), "Whether the m_key of opensm.conf was kept. Null: without --opensm-conf."),
        Field("warnings", list_of(TEXT), "What was left out of the files, and why."),
    ),
    CsvRows("port", IMPORTED_PORT),
    about="What `ibkeys keystore import -f json` writes",
    page="keystore",
)

_EXPORTED: Final = (
    Field("directory", TEXT, "The folder."),
    Field("keys", NUMBER, "Keys that were written."),
    Field("links", NUMBER, "Links that were written."),
    Field("lids", or_null(NUMBER), "LIDs that were written. Null: without --guid2lid."),
)
KEYSTORE_EXPORT: Final = Document(
    "keystore-export",
    1,
    (
        *_EXPORTED,
        Field(
            "opensm_conf",
            or_null(
                object_of(
                    Field("file", TEXT, "The opensm.conf."),
                    Field("written", FLAG, "Whether it was written."),
                    Field("problems", list_of(TEXT), "Why the keys would be lost with it."),
                )
            ),
            "The opensm.conf that was checked. Null: none.",
        ),
        ERRORS,
    ),
    CsvRows("export", _EXPORTED),
    about="What `ibkeys keystore export -f json` writes",
    page="keystore",
)

"""The documents about a snapshot that a command has written: snapshot, import."""

from __future__ import annotations

from typing import Final

from ibkeys.cli.documents.field import (
    FLAG,
    NUMBER,
    TEXT,
    CsvRows,
    Document,
    Field,
    list_field,
    list_of,
    or_null,
)
from ibkeys.cli.documents.shared import ERRORS, TIME, UNREACHED

_FILE: Final = Field("file", TEXT, "The snapshot.")
_NODES: Final = Field("nodes", NUMBER, "Nodes in it.")
_PORTS: Final = Field("ports", NUMBER, "Ports in it.")
_LINKS: Final = Field("links", NUMBER, "Links in it.")
_PKEYS: Final = Field("pkeys", NUMBER, "Entries of P_Key tables that are not empty.")

_TAKEN: Final = (
    _FILE,
    Field("started", TIME, "When reading began."),
    Field("finished", TIME, "When reading ended."),
    Field("has_keys", FLAG, "Whether it has the M_Keys in clear (-K), and not only their fingerprints."),
    _NODES,
    _PORTS,
    _LINKS,
    Field("port_counters_unread", NUMBER, "Switch ports that enforce partitions and whose PortCounters were not read."),
    Field(
        "class_keys",
        or_null(NUMBER),
        "Keys of other classes about which a port said something. Null: without --class-keys.",
    ),
    _PKEYS,
)
SNAPSHOT: Final = Document(
    "snapshot",
    2,
    (
        *_TAKEN,
        Field("removed", list_of(TEXT), "The files that were removed for their age (--keep)."),
        ERRORS,
        UNREACHED,
    ),
    CsvRows("snapshot", _TAKEN),
)

_IMPORTED: Final = (
    _FILE,
    _NODES,
    _PORTS,
    _LINKS,
    _PKEYS,
    Field("port_info_unknown", NUMBER, "Ports whose PortInfo is in no file."),
    Field("pkeys_unknown", NUMBER, "Ports whose P_Key table is in no file."),
    Field("m_keys", NUMBER, "How many M_Keys the files hold in clear."),
)
IMPORT: Final = Document(
    "import",
    1,
    (
        *_IMPORTED,
        list_field(
            "files",
            "The files that were read.",
            Field("file", TEXT, "The file."),
            Field("kind", TEXT, "Its kind, as in the list above."),
            Field(
                "modified",
                TIME,
                "When it was last modified, so copy files with `cp -p`; the snapshot has the time of the "
                "oldest and the newest one.",
            ),
            Field("sm_word", FLAG, "Whether it has what the SM says, and not the nodes."),
            Field("m_keys", NUMBER, "How many M_Keys it holds in clear."),
        ),
        Field("notes", list_of(TEXT), "What the user should know of the snapshot."),
    ),
    CsvRows("snapshot", _IMPORTED),
)

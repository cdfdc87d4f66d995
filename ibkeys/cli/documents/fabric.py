"""The documents about nodes, ports and links: discover, discover --names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ibkeys.cli.documents.field import (
    NOTHING,
    NUMBER,
    TEXT,
    CsvRows,
    Document,
    Field,
    JsonRow,
    list_field,
    list_of,
    object_of,
    or_null,
    parts_of,
)
from ibkeys.cli.documents.shared import (
    ERRORS,
    FAR_END,
    GUID,
    LID,
    MOVED,
    NODE_DESC,
    NODE_TYPE,
    PORT,
    PORT_NUMBER,
    UNREACHED,
)
from ibkeys.mad.const import PORT_PHYSICAL_STATE_NAMES, PORT_STATE_NAMES


def _state(row: JsonRow) -> Any:
    return PORT_STATE_NAMES.get(row["state"], row["state"])


def _phys_state(row: JsonRow) -> Any:
    return PORT_PHYSICAL_STATE_NAMES.get(row["phys_state"], row["phys_state"])


def _of_peer(part: str) -> Callable[[JsonRow], Any]:
    return lambda row: NOTHING if row["peer"] is None else row["peer"][part]


STATE: Final = Field(
    "state", or_null(NUMBER), "PortState: 1 Down, 2 Initialize, 3 Armed, 4 Active. Null: not read.", "State", _state
)
_PHYS_STATE: Final = Field(
    "phys_state", or_null(NUMBER), "PortPhysicalState as in IBA; 5 is LinkUp. Null: not read.", "Link", _phys_state
)
_PEER: Final = Field("peer", FAR_END)
_NUM_PORTS: Final = Field("num_ports", NUMBER, "NumPorts: how many ports the node has, without port 0 of a switch.")

DISCOVER: Final = Document(
    "discover",
    1,
    (
        list_field(
            "nodes",
            "The nodes in the order in which they were found, each named by its first port that was reached.",
            *PORT,
            _NUM_PORTS,
            Field(
                "ports",
                list_of(object_of(Field("port", PORT_NUMBER), Field("lid", LID), STATE, _PHYS_STATE, _PEER)),
                "Its ports, port 0 of a switch first.",
            ),
        ),
        Field("replaced", or_null(list_of(MOVED)), "The adapters likely replaced since --baseline. Null: without it."),
        ERRORS,
        UNREACHED,
    ),
    CsvRows("port", (*PORT, _NUM_PORTS, STATE, _PHYS_STATE, *parts_of(_PEER))),
)
LISTED_PORT: Final = (
    Field("node_desc", NODE_DESC, title="Node"),
    Field("node_guid", GUID, title="GUID"),
    Field("node_type", NODE_TYPE, title="Type"),
    Field("port", PORT_NUMBER, title="Port"),
    Field("lid", LID, title="LID"),
    STATE,
    _PHYS_STATE,
    Field("peer", FAR_END, title="Peer", text=_of_peer("node_desc")),
    Field("peer", FAR_END, title="Peer GUID", text=_of_peer("node_guid")),
    Field("peer", FAR_END, title="Peer port", text=_of_peer("port")),
)
"""The columns of the table of `discover`."""

_NAMED: Final = (
    Field("host", or_null(TEXT), "The name of the host, without the device. Null: not read."),
    _PEER,
)
DISCOVER_NAMES: Final = Document(
    "discover-names",
    1,
    (list_field("ports", "The end ports.", *PORT, *_NAMED), ERRORS, UNREACHED),
    CsvRows("port", (*PORT, _NAMED[0], *parts_of(_PEER))),
    about="What `ibkeys discover --names -f json` writes",
    page="discover",
)

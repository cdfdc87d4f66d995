"""The documents about changes between snapshots: diff, history."""

from __future__ import annotations

from typing import Final

from ibkeys.cli.documents.field import (
    FLAG,
    NUMBER,
    TEXT,
    CsvRows,
    Document,
    Field,
    JsonType,
    list_field,
    list_of,
    object_field,
    object_of,
    or_null,
    parts_of,
)
from ibkeys.cli.documents.reach import INBOUND_CHECK
from ibkeys.cli.documents.shared import LOOKED_AT, MOVED, P_KEY, PORT, PORT_IDENTITY, TIME, VALUE

_KIND: Final = Field("kind", TEXT, "What changed.")
_INDEX: Final = Field("index", or_null(NUMBER), "The index of a P_Key. Null: of other kinds.")
_PKEY: Final = Field(
    "pkey",
    or_null(P_KEY),
    "The P_Key that was added, removed or moved; of a membership the one that is there now. Null: of other kinds.",
)
_FIELD: Final = Field("field", or_null(TEXT), "The field, as m_key_lease_period. Null: of other kinds.")
_BEFORE: Final = Field("before", VALUE, "The earlier value. Null: there was none.")
_AFTER: Final = Field("after", VALUE, "The later value. Null: there is none.")
_M_KEYS_COMPARABLE: Final = Field(
    "m_keys_comparable", FLAG, "Whether two M_Keys that are set can be told apart: their fingerprints have one secret."
)

# --- diff -------------------------------------------------------------------------------------------------------------

_CHANGE: Final = (
    _KIND,
    _INDEX,
    _PKEY,
    _FIELD,
    _BEFORE,
    _AFTER,
    Field("delta", or_null(NUMBER), "By how much a counter rose. Null: of other kinds."),
)
_EXPLAINED: Final = Field("explained", FLAG, "Whether one of `moved` explains it; the words then leave it out.")
_NODE: Final = object_of(*PORT, _EXPLAINED)
_LINK: Final = object_of(
    Field("a", PORT_IDENTITY, "One end of the link."),
    Field("b", PORT_IDENTITY, "The other end of the link."),
    _EXPLAINED,
)


def _came_and_went(what: str, kind: JsonType) -> JsonType:
    return object_of(
        Field("added", list_of(kind), f"The {what} that are only in the later one."),
        Field("removed", list_of(kind), f"The {what} that are only in the earlier one."),
    )


def _without_reach(field: Field) -> Field:
    return field._replace(optional=True, about=f"{field.about or field.kind.about} Not with --reach.")


def _of_reach(field: Field) -> Field:
    return field._replace(optional=True, about=f"{field.about} Only with --reach.")


def _side(name: str, which: str) -> Field:
    """Return the field for one side of pairs: a list of ports; with --pairs one port."""
    ports = JsonType(("array", "object"), items=PORT_IDENTITY, fields=PORT)
    return Field(name, ports, f"The {which} ports of the pairs; with --pairs that of the pair.")


_A_SIDE: Final = _side("a", "first")
_B_SIDE: Final = _side("b", "second")
_WHAT_OF_REACH: Final = Field("change", TEXT, "gained, lost, one-way-gained, one-way-lost or unknown.")

DIFF: Final = Document(
    "diff",
    2,
    (
        Field("a", TEXT, "The earlier snapshot."),
        Field("b", TEXT, "The later snapshot."),
        _without_reach(LOOKED_AT),
        _without_reach(Field("nodes", _came_and_went("nodes", _NODE), "Nodes that came and went.")),
        _without_reach(Field("links", _came_and_went("links", _LINK), "Links that came and went.")),
        _without_reach(Field("moved", list_of(MOVED), "Moved cables, swapped hosts, replaced HCAs and new names.")),
        _without_reach(list_field("changes", "What changed at which port.", *PORT, *_CHANGE)),
        list_field(
            "unknown",
            "What was not compared. The exit status is then 3.",
            *PORT,
            Field("what", TEXT, "What was not compared."),
            Field("why", TEXT, "Why it was not."),
        ),
        _without_reach(_M_KEYS_COMPARABLE),
        _without_reach(
            Field("m_keys_hidden", list_of(PORT_IDENTITY), "The ports that hid their M_Key in one of the snapshots.")
        ),
        _of_reach(INBOUND_CHECK),
        _of_reach(Field("virtualized", list_of(PORT_IDENTITY), "The ports with virtual ports.")),
        _of_reach(Field("only_in_a", list_of(PORT_IDENTITY), "The end ports that are only in the earlier one.")),
        _of_reach(Field("only_in_b", list_of(PORT_IDENTITY), "The end ports that are only in the later one.")),
        _of_reach(
            object_field(
                "reach",
                "Who gained and lost connectivity.",
                Field("gained", NUMBER, "Pairs that can talk now."),
                Field("lost", NUMBER, "Pairs that can no longer talk."),
                Field("one_way_gained", NUMBER, "Pairs of which packets get through one way only now."),
                Field("one_way_lost", NUMBER, "Pairs of which that has ended."),
                Field("unknown", NUMBER, "Pairs for which the route decides."),
                list_field(
                    "changes",
                    "Groups of ports of which the same changed; with --pairs each pair.",
                    _WHAT_OF_REACH,
                    Field("pairs", NUMBER, "How many pairs these are; not with --pairs.", optional=True),
                    _A_SIDE,
                    _B_SIDE,
                ),
            )
        ),
    ),
    CsvRows("change of a port; what moved comes first, as text", (*PORT, *_CHANGE)),
    CsvRows(
        "pair, with --reach",
        (
            _WHAT_OF_REACH,
            *(
                part
                for side in (_A_SIDE, _B_SIDE)
                for part in parts_of(side)
                if part.name.endswith(("port_guid", "node_desc"))
            ),
        ),
    ),
)

# --- history ----------------------------------------------------------------------------------------------------------

_SINCE: Final = (
    Field("since", TIME, "When the last snapshot before the change was taken."),
    Field("taken", TIME, "When the first snapshot after the change was taken."),
)
_EVENT_KIND: Final = _KIND._replace(about=f"{_KIND.about[:-1]}; also appeared and disappeared.")

HISTORY: Final = Document(
    "history",
    2,
    (
        Field("folder", TEXT, "The folder of the snapshots."),
        Field("what", TEXT, "What was asked for."),
        Field("snapshots", NUMBER, "How many snapshots there are."),
        Field("first", TIME, "When the first one was taken."),
        Field("last", TIME, "When the last one was taken."),
        _M_KEYS_COMPARABLE,
        Field(
            "events",
            list_of(object_of(*PORT, *_SINCE, _EVENT_KIND, _BEFORE, _AFTER, _INDEX, _PKEY, _FIELD)),
            "The changes. Of cable-moved, `before` and `after` are switch ports in words.",
        ),
        Field(
            "unread",
            list_of(object_of(*PORT, Field("attribute", TEXT, "What of the port was not read."))),
            "What was not read in the newest snapshot. The exit status is then 3.",
        ),
    ),
    CsvRows("change", (*PORT, *_SINCE, _EVENT_KIND, _INDEX, _PKEY, _FIELD, _BEFORE, _AFTER)),
)

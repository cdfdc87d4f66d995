"""Kinds of values and fields that several documents share. `make docs` writes the kinds into common.json."""

from __future__ import annotations

from typing import Final

from ibkeys.cli.documents.field import (
    FLAG,
    NUMBER,
    OBJECT,
    TEXT,
    CsvRows,
    Document,
    Field,
    JsonType,
    either,
    list_field,
    list_of,
    object_of,
    one_of,
    or_null,
    shared,
)

# --- values -----------------------------------------------------------------------------------------------------------

GUID: Final = shared(
    "guid", "A GUID. Null: not read.", JsonType(("string", "null"), pattern="^0x[0-9a-f]{16}$"), "GUID or null"
)
P_KEY: Final = shared(
    "p_key",
    "A P_Key, a partition or another value of 16 bits.",
    JsonType(("string",), pattern="^0x[0-9a-f]{4}$"),
    "0x and 4 digits",
)
TIME: Final = shared(
    "time",
    "A time in UTC.",
    JsonType(("string",), pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"),
    "UTC time",
)
NODE_DESC: Final = shared(
    "node_desc", "The name of the node, from its NodeDescription or the node name map. Null: not read.", or_null(TEXT)
)
NODE_TYPE: Final = shared("node_type", "Null: not read.", one_of("ca", "switch", "router", None))
PORT_NUMBER: Final = shared("port", "The number of the port; 0 is the management port of a switch.", or_null(NUMBER))
LID: Final = shared("lid", "The LID of the port; for an external switch port that of port 0.", or_null(NUMBER))
M_KEY_STATE: Final = shared("m_key_state", "Null: not read.", one_of("zero", "set", "hidden", "unreadable", None))
MEMBERSHIP: Final = shared(
    "membership",
    "Both: with both P_Keys of the partition. Null: not a member.",
    one_of("full", "limited", "both", None),
)
PARTITION: Final = Field("partition", P_KEY, "The partition, without its membership bit.")
MESSAGE: Final = Field("message", TEXT, "The same in words.")
OPERATION: Final = Field("operation", or_null(NUMBER), "The operation in the journal. Null: none was begun.")
VALUE: Final = JsonType(("boolean", "integer", "string", "null"))
"""A value before or after a change: a number; true or false for enforcement; text for P_Keys and states."""

# --- ports ------------------------------------------------------------------------------------------------------------

PORT: Final = (
    Field("node_guid", GUID),
    Field("port_guid", GUID),
    Field("node_desc", NODE_DESC),
    Field("node_type", NODE_TYPE),
    Field("port", PORT_NUMBER),
    Field("lid", LID),
)
"""The fields by which every document names a port."""
PORT_IDENTITY: Final = shared("port_identity", "A port: by what it is found, in every document.", object_of(*PORT))
NOT_ACTIVE: Final = shared(
    "not_active",
    "An end of a link that is not Active, with its PortState.",
    object_of(*PORT, Field("state", or_null(NUMBER), "PortState, as the number in PortInfo. Null: not read.")),
)
FAR_END: Final = shared(
    "far_end",
    "The other end of the link: `node_guid`, `node_desc`, `node_type` and `port`. Null: none, or not known.",
    or_null(object_of(*(each for each in PORT if each.name not in ("port_guid", "lid")))),
    "object or null",
)
ERROR: Final = shared(
    "error",
    "What should have been read and was not: the port, and why.",
    object_of(*PORT, Field("error", TEXT, "Why it was not read.")),
)
ERRORS: Final = Field("errors", list_of(ERROR), "What should have been read and was not. The exit status is then 3.")
UNREACHED: Final = Field(
    "unreached", NUMBER, "How many CA and router ports were not read because they have no link to this subnet."
)
LOOKED_AT: Final = Field(
    "looked_at",
    shared(
        "looked_at",
        "How many of the ports were examined. Null: all.",
        or_null(
            object_of(
                Field("ports", NUMBER, "Ports that the filters select."), Field("of", NUMBER, "Ports that there are.")
            )
        ),
    ),
)
P_KEY_ENTRY: Final = shared(
    "p_key_entry",
    "An entry of a P_Key table.",
    object_of(
        Field("index", NUMBER, "Its place in the table, from 0.", title="Index"),
        Field("pkey", P_KEY, "The P_Key, with its membership bit.", title="P_Key"),
        Field("partition", P_KEY, "The P_Key without its membership bit.", title="Partition"),
        Field("membership", MEMBERSHIP, "What the membership bit says: full or limited.", title="Membership"),
    ),
)
P_KEYS: Final = Field(
    "pkeys", or_null(list_of(P_KEY_ENTRY)), "The entries that are not empty. Null: the table was not read."
)

# --- changes ----------------------------------------------------------------------------------------------------------

BEFORE: Final = Field("before", VALUE, "The value before. Null: there is none.")
AFTER: Final = Field("after", VALUE, "The value after. Null: there will be none.")
CHANGE: Final = (
    Field("kind", TEXT, "Which value: pkey, or the name of the field, as m_key_lease_period."),
    Field("index", or_null(NUMBER), "The index of a P_Key. Null: the value has none."),
    BEFORE,
    AFTER,
)
CHANGED_VALUE: Final = shared(
    "changed_value", "A value that changes. Null: there is or will be nothing.", object_of(*CHANGE)
)
CHANGES: Final = Field("changes", list_of(CHANGED_VALUE), "The values that change there. A key is never shown.")
CHANGED_PORT: Final = shared("changed_port", "A port, and the values that change there.", object_of(*PORT, CHANGES))
CHANGED_MEMBER: Final = shared(
    "changed_member",
    "A member of a partition that changes in a policy. Null: no member.",
    object_of(
        *PORT,
        PARTITION,
        Field("name", or_null(TEXT), "The name of the partition in the policy. Null: it has none."),
        Field("who", TEXT, "The member as the policy names it."),
        BEFORE,
        AFTER,
    ),
)
DRY_RUN: Final = Field("dry_run", FLAG, "Whether --dry-run was given.")
APPLIED: Final = Field("applied", FLAG, "Whether the change was made. False: dry run, or nothing to change.")
NOTES: Final = Field("notes", list_of(TEXT), "What the user should know of the change.")
INTERLOCKS: Final = Field("interlocks", list_of(TEXT), "The names of the interlocks that the change triggers.")


def changed_ports(name: str, number: int, *more: Field) -> Document:
    """Return the document *name* of a command that changes values of ports. *more*: further fields."""
    fields = (
        DRY_RUN,
        APPLIED,
        Field("ports", list_of(CHANGED_PORT), "The ports where something changes, or would."),
        NOTES,
        INTERLOCKS,
        *more,
    )
    return Document(name, number, fields, CsvRows("value that changes", (*PORT, *CHANGE)))


RUN_SUMMARY: Final = shared(
    "run_summary",
    "How a run over many ports ended.",
    object_of(
        UNREACHED,
        Field("via", TEXT, "How the ports are changed: direct or opensm."),
        OPERATION,
        Field("done", NUMBER, "Ports that were changed, and verified."),
        Field("skipped", NUMBER, "Ports that were left alone."),
        Field("failed", NUMBER, "Ports whose change failed."),
        Field("waiting", NUMBER, "Ports that are still to be changed."),
        Field("unread", NUMBER, "Skipped ports that could not be read or were not found, or have an unknown key."),
        Field("overtaken", NUMBER, "Skipped ports that another user or program has changed meanwhile."),
        Field("unresolved", NUMBER, "Failed ports that answer neither to the new key nor to the old one."),
        Field("replies_lost", NUMBER, "Sets that took effect although no reply came."),
        Field("sets_lost", NUMBER, "Sets that never arrived and were sent again."),
        Field("violations", NUMBER, "The most M_Key violations that probing after lost replies can have added."),
        Field("stopped", or_null(TEXT), "Why the run stopped before its end. Null: it did not."),
        Field("gone_back", FLAG, "Whether the run was not confirmed and its level was lowered."),
    ),
)
PHASE: Final = shared(
    "phase",
    "A phase of a change, in the order in which they are made.",
    object_of(
        Field("phase", TEXT, "Its name."),
        Field("ports", NUMBER, "Ports that it changes."),
        Field("sets", NUMBER, "Sets that it sends."),
    ),
)
BREAK: Final = shared(
    "break",
    "Pairs of ports that cannot talk for a time while a change is made.",
    object_of(
        Field("partition", P_KEY, "The partition that they share."),
        Field("ports", list_of(PORT_IDENTITY), "no-room: the ports whose tables are full; circle: those that move."),
        Field("pairs", list_of(list_of(GUID)), "The port GUIDs of each pair."),
        MESSAGE,
        Field("kind", TEXT, "Why: no-room (a table is full) or circle (ports wait for each other)."),
    ),
)

# --- groups, moves and findings ---------------------------------------------------------------------------------------

MULTICAST_GROUP: Final = shared(
    "multicast_group",
    "A multicast group that a policy makes.",
    object_of(
        Field("mgid", TEXT, "The MGID, written as an IPv6 address."),
        Field("mtu", NUMBER, "The MTU as IBA encodes it: 4 is 2048 bytes, 5 is 4096."),
        Field("rate", NUMBER, "The rate as IBA encodes it: 3 is 10 Gb/s."),
        Field("q_key", TEXT, "The Q_Key, 0x and 8 digits."),
        Field("sl", NUMBER, "The service level."),
        Field("t_class", TEXT, "The traffic class, in hex."),
        Field("flow_label", TEXT, "The flow label, in hex."),
    ),
)
_PLACE: Final = JsonType(("object", "string"), others=either(GUID, TEXT, NUMBER))
MOVED: Final = shared(
    "moved",
    "A port or node that is at another place than before.",
    object_of(
        *PORT,
        Field("kind", TEXT, "What happened: cable-moved, swapped, hca-replaced or renamed."),
        Field("before", _PLACE, "The switch port before; of hca-replaced the port that went, of renamed the name."),
        Field("after", _PLACE, "The switch port after; of hca-replaced the port that came, of renamed the name."),
        Field("same_name", or_null(FLAG), "Whether both HCAs have one name. Null: not read, or not of hca-replaced."),
        Field("places", or_null(list_of(PORT_IDENTITY)), "The switch ports of a replaced HCA. Null: of other kinds."),
        Field("with", or_null(PORT_IDENTITY), "The port with which it was swapped. Null: of other kinds."),
    ),
)
RULE_RESULT: Final = shared(
    "rule_result",
    "What a rule of the audit says, and about which ports.",
    object_of(
        Field("rule", TEXT, "The rule, as PK005."),
        Field("title", TEXT, "What it checks."),
        Field(
            "severity", TEXT, "critical, high, medium, low or info: the worst of those that fail, else the rule's own."
        ),
        Field("result", TEXT, "pass, fail, unknown, n/a or waived."),
        Field("note", or_null(TEXT), "Why the result is unknown or n/a. Null: another result."),
        Field("passed", NUMBER, "Ports or files that pass; 0 in an audit of a part of the fabric."),
        list_field(
            "subjects",
            "The ports and files that fail, are unknown or are waived. The port is null for a file.",
            *PORT,
            Field("result", TEXT, "What the rule says of this one: fail, unknown or waived."),
            Field("evidence", OBJECT, "What was read: for each attribute its fields. M_Keys are fingerprints."),
            MESSAGE,
            Field("time", TIME, "When it was read."),
            Field("m_key_used", or_null(FLAG), "Whether an M_Key was sent. Null: a file, not a port."),
            Field("waiver", or_null(TEXT), "Why it is waived, and until when. Null: it is not."),
            Field("severity", or_null(TEXT), "Its severity, where it is not the rule's own; else null."),
        ),
        Field("remedy", or_null(TEXT), "What to do. Null: --no-remedy."),
    ),
)
RULE_COUNTS: Final = shared(
    "rule_counts",
    "How many rules have which result.",
    object_of(*(Field(each, NUMBER, f"Rules with {each}.") for each in ("pass", "fail", "unknown", "n/a", "waived"))),
)
COVERAGE: Final = shared(
    "coverage",
    "What was read, and what should have been read and was not.",
    object_of(
        Field("nodes", NUMBER, "Nodes that were found."),
        Field("ports", NUMBER, "Ports that should have been read."),
        Field("read", NUMBER, "Ports all of whose attributes were read."),
        Field("unreadable", NUMBER, "Ports of which something was not read."),
        Field("silent", NUMBER, "Ports behind which nothing answered."),
        list_field(
            "troubles",
            "What was not read.",
            *PORT,
            Field("attribute", TEXT, "The attribute that was not read."),
            Field("reading", TEXT, "How it ended, as no-reply, or not-asked."),
            Field("error", TEXT, "Why it was not read."),
        ),
    ),
)
FINDING: Final = shared(
    "finding",
    "What a check of `doctor --report` assumed of devices, and what came back.",
    object_of(
        Field("id", TEXT, "The check: its subject and name."),
        Field("basis", one_of("standard", "simulator", "guess", "unknown"), "Why it is assumed."),
        Field("assumed", TEXT, "What is assumed."),
        Field("outcome", one_of("same", "differs", "seen", "not-checked"), "Seen: nothing was assumed."),
        Field("said", TEXT, "What came back, in words."),
        Field("values", OBJECT, "Differ from finding to finding."),
    ),
)
OUTCOMES: Final = shared(
    "outcomes",
    "How many findings have each outcome.",
    object_of(*(Field(each, NUMBER, f"Findings with {each}.") for each in ("same", "differs", "seen", "not-checked"))),
)

"""The documents of compare and compare --ipoib: whether policy, SM, SA and nodes agree."""

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
    by_name,
    list_field,
    list_of,
    object_field,
    object_of,
    or_null,
)
from ibkeys.cli.documents.shared import ERRORS, GUID, LOOKED_AT, MESSAGE, P_KEY, PARTITION, PORT, UNREACHED

_POLICY: Final = object_of(Field("file", TEXT, "The file of the policy."), Field("digest", TEXT, "Its SHA-256."))

# --- compare ----------------------------------------------------------------------------------------------------------

_READ: Final = "as it is now: read, not-read or unknown"
_SM_FILE: Final = object_of(
    Field("host", or_null(TEXT), "The host on which the master runs; empty for this one."),
    Field("pid", NUMBER, "Its process."),
    Field("port_guid", GUID, "Its port."),
    Field("file", or_null(TEXT), "Its policy file. Null: it has none."),
    Field("digest", or_null(TEXT), "The SHA-256 of that file. Null: there is none."),
    Field("read", TEXT, f"Whether it has read that file {_READ}."),
    Field("allow_both_pkeys", FLAG, "Its option allow_both_pkeys."),
    Field("part_enforce", or_null(TEXT), "Its option part_enforce. Null: not known."),
    Field("options_read", TEXT, f"Whether it has read its options file {_READ}."),
    Field("notes", list_of(TEXT), "What is not certain."),
)
_RECORDS: Final = ("PortInfoRecord", "P_KeyTableRecord")
_SA: Final = object_of(
    *(
        object_field(
            each,
            "How the SA answered to this record.",
            Field("outcome", TEXT, "answered, refused or failed."),
            Field("detail", or_null(TEXT), "Why. Null: it was answered."),
        )
        for each in _RECORDS
    )
)
_LEVEL: Final = (
    Field("m_key_protect_bits", or_null(NUMBER), "M_KeyProtectBits. Null: not known.", optional=True),
    Field("m_key_lease_period", or_null(NUMBER), "M_KeyLeasePeriod in seconds. Null: not known.", optional=True),
    Field("inbound", FLAG, "Whether packets that enter the switch are checked.", optional=True),
    Field("outbound", FLAG, "Whether packets that leave the switch are checked.", optional=True),
)
_SOURCE_VALUE: Final = JsonType(
    ("array", "object", "null"),
    items=P_KEY,
    fields=_LEVEL,
    word="list, object or null",
)


def _value_of_source(name: str, who: str, title: str) -> Field:
    about = f"What {who} says: a list of P_Keys, empty for no member; `inbound` and `outbound`; "
    return Field(
        name, _SOURCE_VALUE, f"{about}or `m_key_protect_bits` and `m_key_lease_period`. Null: not known.", title
    )


COMPARED: Final = (
    Field("what", TEXT, "What is compared: pkey, enforcement or m_key_protection.", "Value"),
    Field("partition", or_null(P_KEY), "The partition of a P_Key. Null: of other values."),
    Field("policy", or_null(list_of(P_KEY)), "What the policy requires. Null: nothing, or not known.", "Policy"),
    _value_of_source("sm_file", "the SM's own file", "SM's file"),
    _value_of_source("sa", "the SA", "SA"),
    _value_of_source("node", "the node", "Node says"),
    Field("state", TEXT, "agree, differs or unknown."),
    Field(
        "apart",
        list_of(TEXT),
        "Which of the sources differ from the SM's file; if that is not known from the policy, else from the SA.",
    ),
    Field("causes", list_of(TEXT), "Why, as under Causes.", "Cause"),
)

COMPARE: Final = Document(
    "compare",
    2,
    (
        LOOKED_AT,
        Field("policy", or_null(_POLICY), "The policy of --policy. Null: without it."),
        Field("sm_file", or_null(_SM_FILE), "The master's own files. Null: not known."),
        Field("sm_file_unknown", or_null(TEXT), "Why they are not known. Null: they are."),
        Field("sa", or_null(_SA), "How the SA answered. Null: it was not asked."),
        list_field("values", "The values that differ or are unknown; with --full all.", *PORT, *COMPARED),
        object_field(
            "summary",
            "How many of all values are what.",
            Field("agree", NUMBER, "Values that agree."),
            Field("differs", NUMBER, "Values that differ."),
            Field("unknown", NUMBER, "Values that are unknown."),
            Field("causes", by_name(NUMBER), "How many have each cause."),
        ),
        ERRORS,
        UNREACHED,
    ),
    CsvRows("value; - means no member, and an empty field means unknown", (*PORT, *COMPARED)),
)

# --- compare --ipoib --------------------------------------------------------------------------------------------------

_GROUP_VALUES: Final = (
    Field("pkey", P_KEY, "Its P_Key."),
    Field("mtu", NUMBER, "Its MTU as IBA encodes it: 4 is 2048 bytes, 5 is 4096."),
    Field("rate", NUMBER, "Its rate as IBA encodes it: 3 is 10 Gb/s."),
    Field("sl", NUMBER, "Its service level."),
    Field("q_key", TEXT, "Its Q_Key, 0x and 8 digits."),
    Field("t_class", TEXT, "Its traffic class, in hex."),
    Field("flow_label", TEXT, "Its flow label, in hex."),
)
_NAME: Final = Field("name", or_null(TEXT), "Its name in the policy. Null: it has none.")
_MGID: Final = Field("mgid", TEXT, "The MGID of the group, written as an IPv6 address.")
_BROADCAST: Final = Field("broadcast", FLAG, "Whether it is the IPv4 broadcast group of the partition.")
_STATES: Final = ("as-planned", "differs", "missing", "no-member", "unexpected", "unknown")
_STATE: Final = Field("state", TEXT, f"{', '.join(_STATES[:-1])} or {_STATES[-1]}, as under IPOIB GROUPS.")
_PLANNED: Final = Field("planned", or_null(object_of(*_GROUP_VALUES)), "What the policy says. Null: no such group.")
_FOUND: Final = Field("found", or_null(object_of(*_GROUP_VALUES)), "What the SA says. Null: it shows no such group.")

_JOINS: Final = object_of(
    PARTITION,
    _NAME,
    Field("ipoib", FLAG, "Whether the policy marks it ipoib."),
    Field("mgid", or_null(TEXT), "Its broadcast group. Null: the SA shows none."),
    Field("members", NUMBER, "Ports of channel adapters with its P_Key."),
    Field("unread", NUMBER, "How much of the fabric could not be read; there may be more members."),
    list_field(
        "refused",
        "The members that cannot join.",
        *PORT,
        Field("reason", or_null(TEXT), "Why it cannot join."),
        Field("certain", FLAG, "Whether that is certain."),
    ),
    Field("keeps_out", or_null(FLAG), "Whether no member can join. Null: not known."),
    MESSAGE,
)

COMPARE_IPOIB: Final = Document(
    "compare-ipoib",
    1,
    (
        Field("policy", _POLICY, "The policy of --policy."),
        list_field(
            "groups",
            "The groups of the policy in its order, then others.",
            _MGID,
            PARTITION,
            _NAME,
            _BROADCAST,
            _STATE,
            _PLANNED,
            _FOUND,
            Field("differences", list_of(TEXT), "Which values differ: pkey, mtu, rate, sl, and so on."),
            MESSAGE,
        ),
        Field(
            "summary",
            object_of(*(Field(each, NUMBER, "Groups in this state.") for each in _STATES)),
            "How many groups are in which state.",
        ),
        Field("joins", or_null(list_of(_JOINS)), "Who can join. Null: without --members, or the SA did not answer."),
        Field("asked_from", list_of(P_KEY), "The partitions of the local port."),
        Field("error", or_null(TEXT), "Why the SA did not answer. Null: it did."),
    ),
    CsvRows(
        "group",
        (
            *(PARTITION, _NAME, _MGID, _BROADCAST, _STATE),
            *(
                each._replace(name=f"{which.name}_{each.name}")
                for each in _GROUP_VALUES
                for which in (_PLANNED, _FOUND)
            ),
            MESSAGE,
        ),
    ),
    about="What `ibkeys compare --ipoib -f json` writes",
    page="compare",
)

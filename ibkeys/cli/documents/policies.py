"""The documents about partition policies: policy-check, policy-diff, policy-from, partition-add and its siblings."""

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
    object_field,
    object_of,
    or_null,
)
from ibkeys.cli.documents.shared import (
    AFTER,
    APPLIED,
    BEFORE,
    CHANGED_MEMBER,
    DRY_RUN,
    ERROR,
    ERRORS,
    GUID,
    INTERLOCKS,
    MEMBERSHIP,
    MESSAGE,
    MULTICAST_GROUP,
    NOTES,
    OPERATION,
    PARTITION,
    PORT,
    PORT_IDENTITY,
    UNREACHED,
)

_FILE: Final = Field("file", TEXT, "The policy.")
_DIGEST: Final = Field("digest", TEXT, "Its SHA-256.")
_KIND: Final = Field("kind", TEXT, "Its name.")

# --- policy-check -----------------------------------------------------------------------------------------------------

_PLACE: Final = (Field("line", NUMBER, "The line, from 1."), Field("column", NUMBER, "The column, from 1."))
_PROBLEM: Final = (
    *_PLACE,
    Field("severity", TEXT, "error, warning or note."),
    Field("code", TEXT, "Its name, as listed below."),
    MESSAGE,
)
_MEMBER: Final = object_of(
    Field("who", TEXT, "GUID, or the word of the policy: ALL, ALL_CAS, ALL_SWITCHES, ALL_ROUTERS or SELF."),
    Field("port_guid", GUID, "The port GUID. Null: a word."),
    Field("membership", MEMBERSHIP, "full, limited or both."),
    *_PLACE,
)

POLICY_CHECK: Final = Document(
    "policy-check",
    1,
    (
        _FILE,
        _DIGEST,
        Field("accepted", or_null(FLAG), "Whether OpenSM takes it. Null: not known (--dialect nvidia)."),
        list_field("problems", "What OpenSM would refuse or misread, in the order of the file.", *_PROBLEM),
        list_field(
            "partitions",
            "The partitions, in the order of the file.",
            PARTITION,
            Field("name", or_null(TEXT), "Its name. Null: it has none."),
            Field("automatic", FLAG, "Whether OpenSM picks its P_Key."),
            Field("indx0", FLAG, "Whether its P_Key is at index 0 of its members."),
            Field("ipoib", FLAG, "Whether it is marked ipoib."),
            Field("members", list_of(_MEMBER), "Its members, as the policy names them."),
            Field("groups", list_of(MULTICAST_GROUP), "The multicast groups that OpenSM makes for it."),
        ),
        Field("dialect", TEXT, "Whose OpenSM will read it: opensm or nvidia."),
    ),
    CsvRows("problem", (_FILE, *_PROBLEM)),
)

# --- policy-diff ------------------------------------------------------------------------------------------------------

_POLICY: Final = object_of(_FILE, _DIGEST)
_WHAT: Final = Field("what", TEXT, "joins, leaves or membership.")
_BEFORE: Final = BEFORE._replace(about="The membership by A: full, limited or both. Null: no member.")
_AFTER: Final = AFTER._replace(about="The membership by B: full, limited or both. Null: no member.")
_CHANGED: Final = (
    PARTITION,
    Field("name", or_null(TEXT), "Its name. Null: it has none.", "Name"),
    _WHAT._replace(about="joins, leaves, membership, index-0, name, or group and the MGID of one."),
    BEFORE,
    AFTER,
)

POLICY_DIFF: Final = Document(
    "policy-diff",
    1,
    (
        Field("a", _POLICY, "The first policy."),
        Field("b", _POLICY, "The second policy."),
        list_field(
            "partitions",
            "The partitions that differ.",
            PARTITION,
            Field("name_a", or_null(TEXT), "Its name by A. Null: no members, or no name."),
            Field("name_b", or_null(TEXT), "Its name by B. Null: no members, or no name."),
            list_field("members", "The ports that change.", *PORT, _WHAT, _BEFORE, _AFTER),
            Field("groups_a", list_of(MULTICAST_GROUP), "Its multicast groups by A."),
            Field("groups_b", list_of(MULTICAST_GROUP), "Its multicast groups by B."),
        ),
        list_field(
            "index_0",
            "The ports that have another P_Key at index 0.",
            *PORT,
            BEFORE._replace(about="The P_Key there by A. Null: the default P_Key."),
            AFTER._replace(about="The P_Key there by B. Null: the default P_Key."),
        ),
        object_field(
            "reach",
            "Who can talk from A to B.",
            Field("gained", NUMBER, "Pairs of end ports that gain connectivity."),
            Field("lost", NUMBER, "Pairs of end ports that lose connectivity."),
        ),
        object_field(
            "not_found",
            "The GUIDs of the policies that are not on the fabric.",
            Field("a", list_of(GUID), "GUIDs of A."),
            Field("b", list_of(GUID), "GUIDs of B."),
        ),
        ERRORS,
        UNREACHED,
    ),
    CsvRows("difference", (*PORT, *_CHANGED)),
)

# --- policy-from ------------------------------------------------------------------------------------------------------

POLICY_FROM: Final = Document(
    "policy-from",
    1,
    (
        Field("policy", TEXT, "The policy itself."),
        _DIGEST,
        Field("pending", FLAG, "Whether a plan of it would change something."),
        object_field(
            "options",
            "The options of ibkeys-plan(1) with which a plan of it changes least.",
            Field("enforce", TEXT, "--enforce: both, in, out or off."),
            Field("allow_both_pkeys", FLAG, "--allow-both-pkeys."),
        ),
        Field(
            "unsaid",
            list_of(object_of(_KIND, MESSAGE, Field("ports", list_of(PORT_IDENTITY), "The ports."))),
            "What the policy does not say of the fabric.",
        ),
        ERRORS,
        UNREACHED,
    ),
    CsvRows("port and what the policy does not say of it", (*PORT, _KIND, MESSAGE)),
)

# --- partition-show ---------------------------------------------------------------------------------------------------

_NAME: Final = Field("name", TEXT, "Its name.")

PARTITION_SHOW: Final = Document(
    "partition-show",
    1,
    (
        _FILE,
        _DIGEST,
        list_field(
            "partitions",
            "The partitions, in the order of the file.",
            PARTITION,
            _NAME,
            Field("automatic", FLAG, "Whether OpenSM picks its P_Key."),
            Field("indx0", FLAG, "Whether its P_Key is at index 0 of its members."),
            Field("ipoib", FLAG, "Whether it is marked ipoib."),
            Field(
                "members",
                list_of(object_of(*PORT, Field("membership", MEMBERSHIP, "full, limited or both."))),
                "The ports of the fabric to which OpenSM gives it.",
            ),
            Field("absent", list_of(GUID), "The port GUIDs that the policy names, and no port of the fabric has."),
            Field("groups", list_of(MULTICAST_GROUP), "The multicast groups that OpenSM makes for it."),
        ),
        ERRORS,
        UNREACHED,
    ),
    CsvRows("member", (*PORT, PARTITION, _NAME, Field("membership", MEMBERSHIP, "full, limited or both."))),
)

# --- partition-spread -------------------------------------------------------------------------------------------------

_SPREAD_FILE: Final = (
    Field("host", or_null(TEXT), "Its host. Null: this one."),
    Field("path", TEXT, "Its path."),
    Field("differs", FLAG, "Whether it had another content, and gets the master's."),
    Field("diff", TEXT, "From its content to the master's, as a unified diff."),
)

PARTITION_SPREAD: Final = Document(
    "partition-spread",
    1,
    (
        DRY_RUN,
        APPLIED,
        Field("complete", FLAG, "Whether all files that could be reached have the master's policy now."),
        OPERATION,
        Field("file", TEXT, "The policy of the master."),
        _DIGEST,
        list_field("files", "The policy files of the other OpenSMs.", *_SPREAD_FILE),
        NOTES,
        INTERLOCKS,
        Field("errors", list_of(ERROR), "What failed. Exit status 3."),
    ),
    CsvRows("policy file of another OpenSM", _SPREAD_FILE[:3]),
)

# --- partition-add, -remove, -delete, -rename, replace ---------------------------------------------------------------

_EDITED: Final = (
    _FILE,
    Field("out", TEXT, "The file that is written."),
    Field("written", FLAG, "Whether it was written."),
    Field("digest_before", TEXT, "The SHA-256 of the policy before."),
    Field("digest_after", TEXT, "The SHA-256 of the policy after."),
    Field("changes", list_of(CHANGED_MEMBER), "The members that change."),
    Field("unchanged", list_of(PORT_IDENTITY), "The ports that are already as requested."),
    Field("diff", TEXT, "The change of the file, as a unified diff."),
)
_MEMBERS: Final = CsvRows("member that changes", CHANGED_MEMBER.fields)
PARTITION_ADD: Final = Document("partition-add", 1, _EDITED, _MEMBERS)
PARTITION_REMOVE: Final = Document("partition-remove", 1, _EDITED, _MEMBERS)
PARTITION_DELETE: Final = Document("partition-delete", 1, _EDITED, _MEMBERS)
PARTITION_RENAME: Final = Document("partition-rename", 1, _EDITED, _MEMBERS)
_BESIDE: Final = object_of(_FILE._replace(about="The file."), _EDITED[-1])
REPLACE: Final = Document(
    "replace",
    1,
    (*_EDITED, Field("files", list_of(_BESIDE), "The node name map and the waivers, where they change too.")),
    _MEMBERS,
)

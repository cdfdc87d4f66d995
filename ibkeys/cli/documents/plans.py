"""The documents about changes of partitions: plan, apply, undo."""

from __future__ import annotations

from typing import Final

from ibkeys.cli.documents.field import (
    FLAG,
    NUMBER,
    TEXT,
    CsvRows,
    Document,
    Field,
    by_name,
    list_field,
    list_of,
    object_field,
    object_of,
    one_of,
    or_null,
)
from ibkeys.cli.documents.shared import (
    APPLIED,
    BREAK,
    CHANGE,
    DRY_RUN,
    ERROR,
    GUID,
    INTERLOCKS,
    NOTES,
    OPERATION,
    P_KEY,
    PHASE,
    PORT,
    PORT_NUMBER,
)

# --- plan -------------------------------------------------------------------------------------------------------------

_POLICY: Final = object_of(
    Field("file", TEXT, "Its name."),
    Field("digest", TEXT, "Its SHA-256; of the live policy empty where there was no file."),
    Field("encoding", one_of("utf-8", "base64", None), "How `text` has its bytes. Null: there is no text."),
    Field("text", or_null(TEXT), "Its content. Null: it has none, or a plan of version 1."),
)
_PEER: Final = object_of(Field("node_guid", GUID), Field("port", PORT_NUMBER))
_BOTH_BITS: Final = by_name(FLAG)
_P_KEYS: Final = by_name(P_KEY)
_TABLE: Final = object_of(
    *PORT,
    Field("capacity", or_null(NUMBER), "How many entries its table has. Null: not read."),
    Field("peer", or_null(_PEER), "The other end of its link. Null: none, or not known."),
    Field("before", _P_KEYS, "Its P_Keys by index, as they were read."),
    Field("after", _P_KEYS, "Its P_Keys by index, as they should be."),
)
_ENFORCEMENT: Final = object_of(
    *PORT,
    Field("peer", or_null(_PEER), "The other end of its link. Null: none, or not known."),
    Field("before", _BOTH_BITS, "`inbound` and `outbound`, as they were read."),
    Field("after", _BOTH_BITS, "`inbound` and `outbound`, as they should be."),
)
_MOVE: Final = object_of(
    *PORT,
    Field("pkey", P_KEY, "The P_Key."),
    Field("from", NUMBER, "Its index before."),
    Field("to", NUMBER, "Its index after."),
)
_OPTIONS: Final = object_of(
    Field("enforce", TEXT, "What leaf switch ports enforce: both, in, out or off."),
    Field("allow_both_pkeys", FLAG, "Whether a port may have both P_Keys of a partition."),
    Field("disconnect_unconfigured", FLAG, "Whether ports in no other partition lose the default P_Key."),
    Field("allow_index_moves", list_of(P_KEY), "The partitions whose P_Keys may move to another index."),
)
_SM_OPTIONS: Final = object_of(
    Field("allow_both_pkeys", FLAG, "allow_both_pkeys."),
    Field("part_enforce", TEXT, "part_enforce."),
    Field("no_partition_enforcement", FLAG, "no_partition_enforcement."),
    Field("keep_pkey_indexes", FLAG, "keep_pkey_indexes."),
)

PLAN: Final = Document(
    "plan",
    2,
    (
        object_field(
            "fabric",
            "What the plan was made from.",
            Field("digest", TEXT, "The digest of the values that were read and that the plan changes."),
            Field("sm_guid", GUID, "The port GUID of the master. Null: not known."),
            Field("sm_evidence", or_null(TEXT), "What is known of the master, in words. Null: nothing."),
        ),
        Field("policy", _POLICY, "The policy that is planned."),
        Field(
            "live_policy",
            or_null(_POLICY),
            "The policy file of the master's OpenSM. Null: it was not seen. Plans of earlier versions lack it.",
            optional=True,
        ),
        Field(
            "method",
            one_of("direct", "opensm", None),
            "The method of an apply, as the fabric was. Null: not known. Plans of earlier versions lack it.",
            optional=True,
        ),
        Field("digest", TEXT, "The digest of the plan."),
        Field("options", _OPTIONS, "The options with which it was planned."),
        Field("sm_options", or_null(_SM_OPTIONS), "The options of OpenSM that lead to these tables. Null: version 1."),
        Field("tables", list_of(_TABLE), "The P_Key tables that change; with --full all."),
        Field("enforcement", list_of(_ENFORCEMENT), "The switch ports whose enforcement changes; with --full all."),
        Field("index_moves", list_of(_MOVE), "The P_Keys that move to another index."),
        Field("breaks", list_of(BREAK), "Pairs that no order of writing keeps connected."),
        list_field(
            "problems",
            "What could not be planned, or should be known. The port is null where it concerns none.",
            *PORT,
            Field("kind", TEXT, "Its name, as under PROBLEMS."),
            Field("message", TEXT, "In words."),
        ),
        object_field(
            "partitions",
            "Partitions that come and go.",
            Field("born", list_of(P_KEY), "Those that no port has yet."),
            Field("dying", list_of(P_KEY), "Those that no port will have."),
        ),
        object_field(
            "reach",
            "Who gains and loses connectivity.",
            Field("gained", NUMBER, "Pairs of end ports that will be able to talk."),
            Field("lost", NUMBER, "Pairs of end ports that will no longer be able to talk."),
            Field("unknown", NUMBER, "Pairs for which the route decides."),
        ),
    ),
    CsvRows("entry and enforcement bit that changes", (*PORT, *CHANGE)),
    about="A plan: what `ibkeys plan --out FILE` and `-f json` write, and `ibkeys apply` reads",
)

# --- apply, undo ------------------------------------------------------------------------------------------------------

REHEARSAL: Final = or_null(
    object_of(
        Field("plan", TEXT, "The digest of the plan."),
        Field("verdict", one_of("identical", "differs", "refused"), "Its result, as in ibkeys-rehearse(1)."),
        Field("made", TEXT, "When it ended: UTC."),
        Field("snapshot", TEXT, "When the snapshot of the copy was taken: UTC."),
        Field("opensm", one_of("running", "named", "installed", "packed"), "Whose OpenSM, as in ibkeys-rehearse(1)."),
        Field("program", TEXT, "The path of its program."),
        Field("user", TEXT, "Who rehearsed."),
        Field("host", TEXT, "The name of the computer."),
    )
)
_OTHER_INDEX: Final = object_of(
    *PORT,
    Field("pkey", P_KEY, "The P_Key."),
    Field("index", NUMBER, "Its index now."),
    Field("expected", NUMBER, "Its index in the plan; of an undo: before the change."),
)
_MADE: Final = (
    DRY_RUN,
    APPLIED,
    Field("complete", FLAG, "Whether nothing is left to do."),
    Field(
        "gone_back",
        FLAG,
        "Whether the change was rolled back because it was not confirmed; errors has what could not be restored.",
    ),
    OPERATION,
    Field("digest", or_null(TEXT), "The digest of the plan. Null: it follows none."),
    Field("rehearsal", REHEARSAL, "The last rehearsal of this very plan. Null: none is in the journal."),
    Field("carrier", TEXT, "The method: direct, opensm or ufm."),
    Field("phases", list_of(PHASE), "What is done, in this order."),
    Field("left_for_later", NUMBER, "Steps that are left for ibkeys-resume(1)."),
    Field("removals", NUMBER, "P_Keys that are removed, full to limited included."),
    Field("breaks", list_of(TEXT), "Temporary losses of connectivity, in words."),
    Field(
        "waiting",
        list_of(TEXT),
        "Flags that the SM may take over later, in words, and absent members by GUID: not verified.",
    ),
    Field("other_indexes", list_of(_OTHER_INDEX), "P_Keys of end ports at other indexes than planned, or than before."),
    NOTES,
    INTERLOCKS,
    Field("errors", list_of(ERROR), "The ports that failed; the port is null where it was none. Exit status 3."),
)
_PHASES: Final = CsvRows("phase", PHASE.fields)
APPLY: Final = Document("apply", 1, _MADE, _PHASES)
UNDO: Final = Document("undo", 1, (*_MADE, Field("undoes", NUMBER, "The operation that it undoes.")), _PHASES)

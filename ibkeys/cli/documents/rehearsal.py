"""The document of rehearse: how the site's OpenSM made a change on a copy of the fabric."""

from __future__ import annotations

from typing import Final

from ibkeys.cli.documents.field import (
    DECIMAL,
    FLAG,
    NOTHING,
    NUMBER,
    TEXT,
    CsvRows,
    Document,
    Field,
    list_field,
    list_of,
    object_field,
    object_of,
    one_of,
    or_null,
)
from ibkeys.cli.documents.shared import PORT, PORT_IDENTITY, VALUE

_OPENSM: Final = object_of(
    Field("program", TEXT, "The path of its program."),
    Field(
        "source",
        one_of("running", "named", "installed", "packed"),
        "running: it runs on this host; named: by --opensm; installed: the one of this host, without arguments; "
        "packed: its options and files are from a bundle.",
    ),
    Field("options_file", or_null(TEXT), "Its options file. Null: it has none."),
    Field("port", PORT_IDENTITY, "The port of the copy on which it ran."),
)
_STEP: Final = or_null(
    object_of(
        Field("exit_code", NUMBER, "Its exit status, as under EXIT STATUS of its page."),
        Field("seconds", DECIMAL, "How long it ran."),
        Field("message", or_null(TEXT), "The last line that it wrote to standard error. Null: it succeeded."),
        Field("steps", NUMBER, "The steps in which it made the change."),
        Field("sets", NUMBER, "The Sets that OpenSM and ibkeys sent."),
        Field("sweeps", NUMBER, "The heavy sweeps that OpenSM made."),
        Field("most_cut", NUMBER, "The most pairs of end ports that were cut at once."),
        Field("most_open", NUMBER, "The most pairs of end ports that were open at once."),
    )
)


def _values(before: str, after: str) -> tuple[Field, ...]:
    return (
        Field("kind", TEXT, "Which value: pkey, or the name of the field, as m_key_protect_bits.", "Value"),
        Field("index", or_null(NUMBER), "The index of a P_Key. Null: the value has none.", "Index", empty=NOTHING),
        Field("before", VALUE, f"{before}. Null: nothing. Of an M_Key: zero or set.", "Before", empty=NOTHING),
        Field("after", VALUE, f"{after}. Null: nothing. Of an M_Key: zero, or another.", "After", empty=NOTHING),
    )


_CAUSE: Final = Field(
    "cause",
    TEXT,
    "The likely cause: policy, no-policy, packed, moved, enforcement, m-key, lid or standby-policy, as under CAUSES.",
    "Likely cause",
)
AT_START: Final = (*_values("The value in the snapshot", "The value after the start"), _CAUSE)
AT_TAKEOVER: Final = (*AT_START, Field("standby", TEXT, "The node of the standby.", "Standby"))
DIFFERS: Final = _values("The value as planned", "The value that OpenSM wrote")
LEFT: Final = _values("The value before the change", "The value after the undo")
_FAULT: Final = object_of(
    Field(
        "kind",
        one_of("opensm-killed", "silent-node", "ibkeys-killed"),
        "What went wrong: OpenSM was killed, a node did not answer any more, or the command was killed.",
    ),
    Field("set", or_null(NUMBER), "At which Set of the timeline, from 1. Null: there were fewer."),
    Field("node", or_null(PORT_IDENTITY), "The node that fell silent. Null: none."),
    Field("exit_code", NUMBER, "The exit status of the change; 137: killed."),
    Field("seconds", DECIMAL, "How long it ran."),
    Field("message", or_null(TEXT), "The last line that it wrote to standard error. Null: it succeeded, or none."),
    Field("way_back", or_null(TEXT), "The command that `ibkeys journal` named then. Null: nothing was left to do."),
    Field("back_exit_code", or_null(NUMBER), "Its exit status. Null: no command."),
    Field("back_seconds", or_null(DECIMAL), "How long it ran. Null: no command."),
    Field("back_message", or_null(TEXT), "The last line of its standard error. Null: it succeeded, or no command."),
    Field(
        "left",
        list_of(object_of(*PORT, *_values("The value as planned; after undo, as before", "The value that was found"))),
        "The values that were not right in the end.",
    ),
    Field("worked", FLAG, "Whether the way back succeeded and no value was left."),
    Field("most_cut", NUMBER, "The most pairs of end ports that were cut at once."),
    Field("seconds_cut", DECIMAL, "For how long any pair was cut."),
    Field("most_open", NUMBER, "The most pairs of end ports that were open at once."),
    Field("seconds_open", DECIMAL, "For how long any pair was open."),
    Field("cut", list_of(list_of(PORT_IDENTITY)), "The pairs when most were cut, at most 10."),
)
REHEARSE: Final = Document(
    "rehearse",
    1,
    (
        Field(
            "verdict",
            one_of("identical", "differs", "refused"),
            "identical: everything was as planned, and the undo restored every value; differs: it was not; refused: "
            "an interlock of ibkeys refused the change. With --now: whether a start changes nothing.",
        ),
        Field("command", or_null(TEXT), "The command that makes the change, without its arguments. Null: --now."),
        Field("plan", or_null(TEXT), "The digest of the plan. Null: the change follows none."),
        Field("pairs_gained", or_null(NUMBER), "Pairs of end ports that gain connectivity by the plan. Null: no plan."),
        Field("pairs_lost", or_null(NUMBER), "Pairs of end ports that lose connectivity by the plan. Null: no plan."),
        object_field(
            "snapshot",
            "The snapshot of the copy.",
            Field("file", or_null(TEXT), "Its file. Null: it was taken for the rehearsal."),
            Field("finished", TEXT, "When it was taken: UTC."),
        ),
        Field("opensm", _OPENSM, "The OpenSM of the rehearsal."),
        Field(
            "at_start",
            list_of(object_of(*PORT, *AT_START)),
            "What this OpenSM changes when it starts on the snapshot: a restart or a takeover would change it too.",
        ),
        Field(
            "at_takeover",
            list_of(object_of(*PORT, *AT_TAKEOVER)),
            "What each standby with a known command line changes when it takes over the snapshot.",
        ),
        Field("apply", _STEP, "The change. Null: --now."),
        list_field(
            "timeline",
            "Every Set of the change that changed P_Keys, enforcement or the M_Key of a port, in order.",
            *PORT,
            Field("seconds", DECIMAL, "When, from the start of the change."),
            Field("pairs_cut", NUMBER, "Pairs that can talk before and after the change, and not then."),
            Field("pairs_open", NUMBER, "Pairs that can talk neither before nor after it, and could then."),
        ),
        list_field("differences", "The values that were not as planned.", *PORT, *DIFFERS),
        Field(
            "unknown_indexes",
            list_of(PORT_IDENTITY),
            "The ports that get a P_Key of a partition that they are not in. The running OpenSM may remember "
            "another index for it, if others changed its policy or the port, and uses that one then.",
        ),
        Field("undo", _STEP, "The undo. Null: there was nothing to undo."),
        list_field("left_by_undo", "The values that the undo did not restore.", *PORT, *LEFT),
        Field("seed", or_null(NUMBER), "The seed of the faults. Null: none were tried."),
        Field(
            "faults",
            or_null(list_of(_FAULT)),
            "The faults that were tried, each on a copy of its own. Null: without --faults.",
        ),
        list_field(
            "opensm_errors",
            "The errors in OpenSM's log.",
            Field("error", TEXT, "The number, as 3111 of ERR 3111."),
            Field("count", NUMBER, "How often."),
        ),
        Field("notes", list_of(TEXT), "What the user should know of the rehearsal."),
    ),
    CsvRows(
        "value that differs",
        (
            Field("part", TEXT, "The list of the JSON document that has the value."),
            *PORT,
            *DIFFERS,
            Field("cause", or_null(TEXT), "The likely cause, of values of at_start and at_takeover."),
            Field("standby", or_null(TEXT), "The node of the standby, of values of at_takeover."),
        ),
    ),
)

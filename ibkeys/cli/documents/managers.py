"""The document about subnet managers: sm-show."""

from __future__ import annotations

from typing import Final

from ibkeys.cli.documents.field import (
    FLAG,
    NUMBER,
    TEXT,
    Document,
    Field,
    JsonType,
    list_field,
    list_of,
    object_of,
    or_null,
)
from ibkeys.cli.documents.shared import ERRORS, GUID, PORT, TIME, UNREACHED

_ON_HOST: Final = (
    Field("host", or_null(TEXT), "The host on which its OpenSM runs; empty for this one. Null: not known."),
    Field("pid", or_null(NUMBER), "The process there. Null: not known."),
)

_MANAGER: Final = object_of(
    *PORT,
    Field("sm_guid", GUID, "The port GUID of the subnet manager."),
    Field("state", or_null(TEXT), "SMState: master, standby, discovering or not active. Null: no answer to SMInfo."),
    Field("priority", or_null(NUMBER), "Its priority, 0 to 15. Null: no answer."),
    Field("act_count", or_null(NUMBER), "ActCount, which increases while it works. Null: no answer."),
    *_ON_HOST,
)

_CERTAIN: Final = Field("certain", FLAG, "Whether nothing that could be seen speaks against it.")
_SOURCE: Final = Field(
    "source", TEXT, "What says so: command line, options file, environment, default, sm.toml, process or not known."
)
_FILE: Final = object_of(
    Field("role", TEXT, "What it is: options, policy, log, output, dumps, cache or keys."),
    Field("path", or_null(TEXT), "As that OpenSM names it, absolute. Null: it has none, or not known."),
    Field("place", or_null(TEXT), "Where it is outside the root directory of that OpenSM. Null: as for `path`."),
    _SOURCE,
    _CERTAIN,
    Field("doubt", or_null(TEXT), "What speaks against it. Null: nothing, or an options file that changed."),
    Field("there", or_null(FLAG), "Whether it is there. Null: not known."),
    Field("mode", or_null(TEXT), "Its mode, octal. Null: not read."),
    Field("uid", or_null(NUMBER), "Its owner. Null: not read."),
    Field("written", or_null(TIME), "When it was last written. Null: not read."),
    Field("others_can_read", or_null(FLAG), "Whether others than its owner and root can read it. Null: not read."),
    Field("others_can_write", or_null(FLAG), "Whether others can write it. Null: not read."),
    Field("digest", or_null(TEXT), "The SHA-256 of a policy. Null: another file, or not read."),
    Field(
        "reading",
        TEXT,
        "Whether OpenSM has read it as it is now: as-at-start, told (an operation wrote it and told OpenSM), "
        "at-takeover (an operation wrote it for a standby), may-have-been-read, not-read, changed, unknown, absent, "
        "absent-since-start or not-judged.",
    ),
    Field("written_by", or_null(NUMBER), "The operation that wrote it, for told and at-takeover. Null: else."),
    Field("problem", or_null(TEXT), "Why it was not read. Null: it was."),
)
_OPTION: Final = object_of(
    Field("name", or_null(TEXT), "Its name in the options file."),
    Field(
        "value",
        JsonType(("boolean", "integer", "string", "null")),
        "Its value; of a key only zero, default or set. Null: none, or not known.",
    ),
    _SOURCE,
    _CERTAIN,
    Field("needs_restart", FLAG, "Whether a running OpenSM never reads a changed value."),
)
_VARIABLES: Final = ("OSM_TMP_DIR", "OSM_CACHE_DIR", "POSIXLY_CORRECT", "IBSIM_SOCKNAME")
_INSTANCE: Final = object_of(
    Field("pid", NUMBER, "Its process."),
    Field("unit", or_null(TEXT), "Its systemd unit. Null: none."),
    Field("program_known", FLAG, "Whether its program could be examined, and is OpenSM."),
    Field("started", or_null(TIME), "When it started. Null: not known."),
    Field("state", or_null(TEXT), "What its SMInfo says, as for managers. Null: not known."),
    Field("port_guid", GUID, "Its port. Null: not known."),
    Field("arguments", list_of(TEXT), "The options of its command line. A key is masked."),
    Field("not_understood", NUMBER, "How many arguments ibkeys does not know."),
    Field("cwd", or_null(TEXT), "Its working directory. Null: not readable by this user."),
    Field(
        "environment",
        or_null(object_of(*(Field(each, TEXT, "The variable.", optional=True) for each in _VARIABLES))),
        "Of its variables those that say where its files are. Null: not readable by this user.",
    ),
    Field("umask", or_null(TEXT), "Its umask, octal. Null: not read."),
    Field("last_sweep", or_null(TIME), "When its last heavy sweep without errors ended. Null: not known."),
    Field("files", list_of(_FILE), "Its files and directories."),
    Field(
        "options",
        list_of(_OPTION),
        "Its options that matter for keys and partitions, or that a file or the command line sets.",
    ),
)
_HOST: Final = object_of(
    Field("host", or_null(TEXT), "Its name; empty for this host."),
    Field("error", or_null(TEXT), "Why it could not be examined. Null: it was."),
    list_field(
        "ports",
        "Its InfiniBand ports.",
        Field("device", TEXT, "The RDMA device."),
        Field("port", NUMBER, "The number of the port."),
        Field("guid", GUID, "Its port GUID."),
        Field("is_sm", FLAG, "Whether its IsSM bit is set."),
    ),
    Field("instances", list_of(_INSTANCE), "The OpenSMs that run there."),
)
_DANGER: Final = object_of(
    Field("danger", TEXT, "Its name."),
    Field("subject", TEXT, "Whose it is, in words."),
    Field("seen", TEXT, "What was seen."),
    Field("means", TEXT, "What follows from it."),
    Field("remedy", or_null(TEXT), "What to do."),
    *_ON_HOST,
)

SM_SHOW: Final = Document(
    "sm-show",
    2,
    (
        Field(
            "managers",
            or_null(list_of(_MANAGER)),
            "Every port with the IsSM bit: the master first, then standbys, then those that did not answer. Null: the "
            "fabric was not read.",
        ),
        Field("hosts", list_of(_HOST), "The hosts that were examined."),
        Field("dangers", list_of(_DANGER), "The dangerous settings."),
        ERRORS,
        UNREACHED._replace(kind=or_null(NUMBER), about=f"{UNREACHED.about} Null: the fabric was not read."),
    ),
)

"""The documents about M_Keys of many ports (mkey-deploy, mkey-rotate, mkey-remove, mkey-recover), and of sm-repair."""

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
    JsonType,
    list_field,
    list_of,
    object_of,
    or_null,
)
from ibkeys.cli.documents.shared import CHANGES, DRY_RUN, ERRORS, GUID, INTERLOCKS, LID, NODE_DESC, PORT, RUN_SUMMARY

# --- mkey-deploy, mkey-rotate, mkey-remove ----------------------------------------------------------------------------

_RESULT: Final = (
    Field("result", TEXT, "done, skipped or failed; with --dry-run planned or skipped."),
    Field("reason", or_null(TEXT), "Why it was skipped or failed. Null: it was not."),
)
_RUN: Final = (
    DRY_RUN,
    Field("summary", RUN_SUMMARY),
    INTERLOCKS,
)
RESULTS: Final = CsvRows("port", (*PORT, *_RESULT))


def _run(command: str) -> Document:
    return Document(command, 2, _RUN, RESULTS)


def _line(command: str) -> Document:
    return Document(command, 2, (*PORT, *_RESULT, _PLANNED), is_line=True)


_PLANNED: Final = CHANGES._replace(optional=True, about=f"{CHANGES.about} Only with --dry-run.")
MKEY_DEPLOY: Final = _run("mkey-deploy")
MKEY_DEPLOY_LINE: Final = _line("mkey-deploy")
MKEY_ROTATE: Final = _run("mkey-rotate")
MKEY_ROTATE_LINE: Final = _line("mkey-rotate")
MKEY_REMOVE: Final = _run("mkey-remove")
MKEY_REMOVE_LINE: Final = _line("mkey-remove")
RUNS: Final = {each.name: each for each in (MKEY_DEPLOY, MKEY_ROTATE, MKEY_REMOVE)}

# --- mkey-recover -----------------------------------------------------------------------------------------------------


_OUTLOOK: Final = (
    Field("shown", NUMBER, "Ports with an unknown key that can be read."),
    Field("hidden", NUMBER, "Ports at level 1 that hide their key."),
    Field("never", NUMBER, "Those of them with lease 0, which never open."),
    Field("silent", NUMBER, "Ports without an answer."),
    Field("leases", list_of(NUMBER), "The leases that are known, in seconds."),
    Field("has_links", FLAG, "Whether the links behind silent switches are known."),
    Field("tries", NUMBER, "How many keys are tried on a port at most."),
    Field("violations", NUMBER, "The most M_Key violations that this can add at these ports, by the leases known now."),
    Field("blind_probes", NUMBER, "The most SMPs to ports about which nothing is known."),
    Field("seconds", DECIMAL, "After how many seconds a silent port is given up."),
)
_RECOVERED: Final = object_of(
    Field("done", NUMBER, "Ports that were recovered."),
    Field("skipped", NUMBER, "Ports without a key."),
    Field("failed", NUMBER, "Ports that were not recovered."),
    Field("smps", NUMBER, "SMPs that were sent."),
    Field("violations", NUMBER, "The most M_Key violations that this run can have added."),
    Field("seconds", DECIMAL, "How long it took."),
    Field("interrupted", FLAG, "Whether it was interrupted."),
)
MKEY_RECOVER: Final = Document(
    "mkey-recover",
    1,
    (
        *(each._replace(optional=True) for each in (DRY_RUN, *_OUTLOOK, INTERLOCKS)),
        Field("summary", _RECOVERED, "How it ended; with --dry-run there is all the rest instead.", optional=True),
    ),
    RESULTS,
    CsvRows("dry run", _OUTLOOK),
)
MKEY_RECOVER_LINE: Final = Document(
    "mkey-recover",
    1,
    (*PORT, *_RESULT),
    is_line=True,
)

# --- sm-repair --------------------------------------------------------------------------------------------------------

ANSWER: Final = (
    Field(
        "result",
        TEXT,
        "answered, or kept: its key is not known, and the file has what the key store says first.",
        "Result",
    ),
    Field(
        "key",
        or_null(TEXT),
        "What the key was in the key store: current, pending, imported, former, subnet (an m_key of opensm.conf), "
        "new (not in the key store) or none (the port has no key). Null: kept.",
        "Key was",
        empty=NOTHING,
    ),
    Field("m_key", or_null(TEXT), "The M_Key. Null: without -K, or kept.", "M_Key", empty=NOTHING),
    Field(
        "m_key_protect_bits",
        or_null(NUMBER),
        "M_KeyProtectBits, as the port said. Null: kept.",
        "ProtectBits",
        empty=NOTHING,
    ),
    Field(
        "m_key_lease_period",
        or_null(NUMBER),
        "M_KeyLeasePeriod in seconds, as the port said. Null: kept.",
        "Lease (s)",
        empty=NOTHING,
    ),
    Field(
        "m_key_violations",
        or_null(NUMBER),
        "M_KeyViolations, as the port said. Null: kept.",
        "M_KeyViolations",
        empty=NOTHING,
    ),
    Field("reason", or_null(TEXT), "Why it was kept; empty if it was not."),
)
REPAIRED_PORT: Final = (
    Field("node_desc", NODE_DESC, title="Node", empty=NOTHING),
    Field("port_guid", GUID, title="Port GUID", empty=NOTHING),
    Field("lid", LID, title="LID", empty=NOTHING),
)
"""The columns by which the table of sm-repair names a port."""
_CONF: Final = object_of(
    Field("file", TEXT, "The opensm.conf."),
    Field("holds", NUMBER, "How many ports have its m_key."),
    Field("ports", NUMBER, "How many ports have a key."),
    Field("is_most", FLAG, "Whether no other key is on more ports."),
    Field("own_has_it", FLAG, "Whether the local port has it."),
    Field("problems", list_of(TEXT), "Why no OpenSM should start with it."),
)
_PORTS: Final = Field(
    "ports",
    JsonType(("array", "integer"), items=object_of(*PORT, *ANSWER)),
    "The ports with what they answered; with --dry-run how many would be asked.",
)
_REPAIR_OUTLOOK: Final = (
    list_field(
        "orders",
        "How many ports are asked with which keys.",
        Field("keys", list_of(TEXT), "The keys, in the order in which they are tried."),
        Field("ports", NUMBER, "How many ports."),
    ),
    Field("protected", NUMBER, "Ports that may be at level 2 or 3."),
    Field("violations", NUMBER, "The most M_Key violations that this can add."),
    Field("leases", list_of(NUMBER), "The leases that are known, in seconds."),
    Field("unknown_leases", NUMBER, "Protected ports whose lease is not known."),
    Field("never", NUMBER, "Protected ports with lease 0, which never open."),
)
_DRY_ONLY: Final = "Only with --dry-run."
_NOT_DRY: Final = "Not with --dry-run."

SM_REPAIR: Final = Document(
    "sm-repair",
    1,
    (
        DRY_RUN,
        Field("cache_dir", TEXT, "OpenSM's cache folder."),
        _PORTS,
        Field("keys", NUMBER, f"How many keys guid2mkey has now. {_NOT_DRY}", optional=True),
        Field("links", NUMBER, f"How many links neighbors has now. {_NOT_DRY}", optional=True),
        Field("opensm_conf", list_of(_CONF), f"Each opensm.conf and how it fits. {_NOT_DRY}", optional=True),
        ERRORS._replace(
            about=f"Places where the key store knows no port, and that could not be read. {_NOT_DRY}", optional=True
        ),
        *(each._replace(about=f"{each.about} {_DRY_ONLY}", optional=True) for each in (*_REPAIR_OUTLOOK, INTERLOCKS)),
    ),
    CsvRows("port", (*PORT, *ANSWER)),
    CsvRows("dry run", (_PORTS, *_REPAIR_OUTLOOK[1:])),
)

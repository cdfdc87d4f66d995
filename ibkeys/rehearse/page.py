"""A rehearsal as one self-contained HTML page, for people who decide about a change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ibkeys.audit.formats.report_pages import ReportTable, Text, render_text
from ibkeys.change.wanted import value_in_words
from ibkeys.printable import counted
from ibkeys.rehearse.causes import IN_WORDS
from ibkeys.rehearse.fault_words import change_in_words, fault_in_words, loss_in_words, way_back_in_words

UNKNOWN: Final = (
    "the timing of real ports and the limits of their firmware",
    "the changes of a vendor's SM, virtual ports, and adaptive routing",
    "members of multicast groups",
    "indexes that the running OpenSM remembers and the journal does not know",
)
"""What a rehearsal does not know."""
_TONES: Final = {"identical": "good", "differs": "bad", "refused": "bad"}
_PORT: Final = ("Node", "GUID", "Port")
_AT_START: Final = (*_PORT, "Value", "Now", "After", "Likely cause")
_AT_TAKEOVER: Final = (*_AT_START, "Standby")
_FAULT: Final = ("Fault", "The change", "The way back", "Lost", "Worked")
_MORE: Final = "`ibkeys rehearse -f json` has all."


def render(document: Mapping[str, Any], verdict: str, *, version: str = "") -> str:
    """Return the page of a rehearsal. *document*: content of the document rehearse; *verdict*: its verdict in words.

    Raises UsageError if jinja2 is not installed.
    """
    text = Text(
        "Rehearsal of a change" if document["apply"] else "What a restart of OpenSM changes",
        str(document["verdict"]),
        [f"{verdict.removeprefix(document['verdict'] + ': ')}.", *_sentences(document)],
        dict(_facts(document)),
        _TONES[document["verdict"]],
    )
    tables = [each for each in _tables(document) if each.lines]
    return render_text(text, tables, version=version, stands_alone=True)


def _sentences(document: Mapping[str, Any]) -> Iterable[str]:
    apply = document["apply"]
    if apply is not None and apply["message"]:
        yield apply["message"]
    if document["at_start"]:
        values = counted(len(document["at_start"]), "value")
        yield f"A restart or a takeover of OpenSM would change {values}, whether this change is made or not."
    yield from document["notes"]


def _facts(document: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    opensm = document["opensm"]
    yield "Copy of the fabric at", document["snapshot"]["finished"]
    yield "OpenSM", f"{opensm['program']} ({opensm['source']}), options of {opensm['options_file'] or 'no file'}"
    yield "It runs on", f"{opensm['port']['node_desc']} port {opensm['port']['port']}"
    if document["plan"]:
        yield "Plan", document["plan"]
        yield "Pairs that gain connectivity", str(document["pairs_gained"])
        yield "Pairs that lose connectivity", str(document["pairs_lost"])
    for name in ("apply", "undo"):
        step = document[name]
        if step is not None:
            yield (
                f"ibkeys {document['command'] if name == 'apply' else name}",
                f"exit status {step['exit_code']}, {step['seconds']} s, {step['sets']} Sets, {step['sweeps']} heavy "
                f"sweeps, at most {step['most_cut']} pairs cut and {step['most_open']} open",
            )


def _tables(document: Mapping[str, Any]) -> Iterable[ReportTable]:
    for name, title, columns in (
        ("differences", "Not as planned", ("Planned", "Found")),
        ("left_by_undo", "Not restored by the undo", ("Before", "After the undo")),
    ):
        yield ReportTable(title, (*_PORT, "Value", *columns), list(map(_value_line, document[name])), _MORE)
    faults = [
        (fault_in_words(each), change_in_words(each), way_back_in_words(each), loss_in_words(each), _worked(each))
        for each in document["faults"] or ()
    ]
    yield ReportTable("Faults that were tried", _FAULT, faults, _MORE)
    changes = [(*_value_line(each), IN_WORDS[each["cause"]]) for each in document["at_start"]]
    yield ReportTable("What a restart of OpenSM changes in any case", _AT_START, changes, _MORE)
    taken = [(*_value_line(each), IN_WORDS[each["cause"]], each["standby"]) for each in document["at_takeover"]]
    yield ReportTable("What a takeover by a standby changes in any case", _AT_TAKEOVER, taken, _MORE)
    unknown = [tuple(_port(each)) for each in document["unknown_indexes"]]
    yield ReportTable("The index of a new P_Key may differ, if OpenSM remembers another", _PORT, unknown, _MORE)
    errors = [(each["error"], str(each["count"])) for each in document["opensm_errors"]]
    yield ReportTable("Errors in OpenSM's log", ("ERR", "Times"), errors, _MORE)
    yield ReportTable("What a rehearsal does not know", ("It does not know",), [(each,) for each in UNKNOWN], _MORE)
    moments = [
        (f"{each['seconds']:.3f} s", *_port(each), str(each["pairs_cut"]), str(each["pairs_open"]))
        for each in document["timeline"]
    ]
    yield ReportTable(
        "Each Set that changes a table or an M_Key, in order", ("After", *_PORT, "Pairs cut", "Open"), moments, _MORE
    )


def _worked(tried: Mapping[str, Any]) -> str:
    return "yes" if tried["worked"] else "no"


def _port(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["node_desc"] or "", row["node_guid"], str(row["port"])


def _value_line(row: Mapping[str, Any]) -> tuple[str, ...]:
    index = f"[{row['index']}]" if row["index"] is not None else ""
    return (*_port(row), f"{row['kind']}{index}", value_in_words(row["before"]), value_in_words(row["after"]))

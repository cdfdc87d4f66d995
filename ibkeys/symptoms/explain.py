"""Finding the rows of a pasted text, and filling its numbers into their commands."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Final

from ibkeys.audit.catalogue import find_rule
from ibkeys.change.consent import INTERLOCKS
from ibkeys.symptoms import own_texts, values
from ibkeys.symptoms.numbers import Number, NumberKind, Reading, read_numbers
from ibkeys.symptoms.opensm import FILES
from ibkeys.symptoms.row import Cause, Symptom
from ibkeys.symptoms.table import BY_NAME, TABLE

LONGEST: Final = 65_536
"""The most characters of a text that are looked at."""
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)")
_RECORD: Final = re.compile(
    r"\s*(?:[A-Z][a-z]{2}\s+\d{1,2}\s|\d{4}[-/]\d\d|\d\d:\d\d|\[|ib[a-z]*:|\S+:\s|-[IWE]-|\d+:)", re.ASCII
)
"""The beginning of a line that is not the rest of the line before it."""
_WRAPPED: Final = 60
"""A line that a terminal or mail program broke has at least so many characters."""
_NEAR: Final = 600
"""How far from the line that matches a number may be, in characters; numbers on that line come first."""
_IN_LINE: Final = 300
"""How much of a very long line belongs to the words that match, in characters on both sides."""
_ANY_ERR: Final = re.compile(r"\bERR\s+([0-9A-F]{4})\b", re.ASCII)
_RULE: Final = re.compile(r"(?<![A-Za-z0-9])([A-Za-z]{2}[0-9]{3})(?![A-Za-z0-9])", re.ASCII)
_EXIT: Final = re.compile(
    r"\b(?:exit(?:ed)?(?:\s+with)?(?:\s+(?:status|code))?|return(?:ed)?\s+code|rc|status=|\$\?)\s*[:=]?\s*([0-9]{1,3})\b",
    re.IGNORECASE | re.ASCII,
)
_INTERLOCK: Final = re.compile(
    rf"(?<![A-Za-z0-9-])({'|'.join(sorted(map(re.escape, INTERLOCKS), key=len, reverse=True))})(?![A-Za-z0-9-])", re.I
)
_ALONE: Final = re.compile(r"\s*(?:(?P<hex>0x[0-9a-f]{1,16})|(?P<long>[0-9a-f]{16})|(?P<number>[0-9]{1,20}))\s*", re.I)
_ONE_INTERLOCK_WORD: Final = frozenset(name for name in INTERLOCKS if "-" not in name)
"""Interlocks whose names are everyday words: they count only alone, or after the word interlock."""


@dataclass(frozen=True, slots=True)
class LikelyCause:
    """A cause, and the command that shows whether it is the right one, with its numbers filled in; None: no command, or
    a number for it is missing."""

    cause: Cause
    command: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Answer:
    """A row that fits a text. ``details``: the meaning of its values. ``numbers``: those near it, as they are printed.
    ``leaks``: the secret that the text holds by this row, "" for none."""

    symptom: Symptom
    causes: tuple[LikelyCause, ...]
    numbers: tuple[tuple[NumberKind, str], ...] = ()
    details: tuple[str, ...] = ()
    leaks: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answers to a text, the likeliest first, and how many keys were found in it."""

    answers: tuple[Answer, ...]
    keys: int


def explain(text: str) -> Explanation:
    """Return the answers to a pasted *text*. Only its first `LONGEST` characters are read.

    Nothing of the text itself is in the result, only numbers of known kinds, checked against their ranges. Any text is
    accepted.
    """
    text = cleaned(text[:LONGEST])
    hexes = values.read_hex(text)
    if hexes is not None:
        return Explanation((_of_hex(hexes),), int(hexes.has_key))
    reading = read_numbers(text)
    found = _rows_in(text)
    named = _by_name(text, reading, bool(found))
    answers = [_answer(row, reading, *_line_around(text, *span)) for row, span in found]
    if any(each.symptom.name.startswith("interlock-") for each in named):
        answers = [*named, *(each for each in answers if each.symptom.name != own_texts.REFUSED.name)]
    else:
        answers += named
    if not answers or all(each.symptom.rank > 1 for each in answers):
        answers += _values(text, reading)
    return Explanation(tuple(answers), reading.keys)


def cleaned(text: str) -> str:
    """Return *text* without control characters, with lines that were broken joined again."""
    text = _ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    text = "".join(char if char.isprintable() or char == "\n" else " " for char in text)
    lines = text.split("\n")
    width = max(map(len, lines))
    joined = [lines[0]]
    for before, line in pairwise(lines):
        if width >= _WRAPPED and len(before) == width and line and not _RECORD.match(line):
            joined[-1] += line
        else:
            joined.append(line)
    return "\n".join(joined)


@cache
def _patterns() -> list[tuple[Symptom, re.Pattern[str]]]:
    return [(row, pattern) for row in TABLE for pattern in row.compiled()]


def _rows_in(text: str) -> list[tuple[Symptom, tuple[int, int]]]:
    """Return the rows that fit *text* with the first place of each, by rank. Rows of rank 2 are left out if another row
    fits."""
    found: dict[str, tuple[int, int]] = {}
    for row, pattern in _patterns():
        match = pattern.search(text)
        if match is not None and (row.name not in found or match.start() < found[row.name][0]):
            found[row.name] = match.span()
    rows = sorted(found, key=lambda name: (BY_NAME[name].rank, found[name]))
    if rows and BY_NAME[rows[0]].rank < 2:
        rows = [name for name in rows if BY_NAME[name].rank < 2]
    return [(BY_NAME[name], found[name]) for name in rows]


def _answer(row: Symptom, reading: Reading, start: int, end: int) -> Answer:
    numbers = _near(reading, start, end)
    filled = _places(numbers)
    causes = tuple(LikelyCause(cause, cause.command(filled)) for cause in row.causes)
    shown = tuple(dict.fromkeys((each.kind, each.text) for each in numbers))[:8]
    return Answer(row, causes, shown, leaks=row.leaks if reading.keys else "")


def _line_around(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the line around a match, of a very long line at most `_IN_LINE` characters on both sides."""
    first, last = text.rfind("\n", 0, start) + 1, text.find("\n", end)
    return max(first, start - _IN_LINE), min(len(text) if last < 0 else last, end + _IN_LINE)


def _near(reading: Reading, start: int, end: int) -> list[Number]:
    """Return the numbers of *reading* that belong to the line from *start* to *end*: first those of the line, in their
    order, then those behind it, then those before it, the nearest first.
    """

    def place(number: Number) -> tuple[int, int]:
        if start <= number.at <= end:
            return 0, number.at
        return (1, number.at) if number.at > end else (2, -number.at)

    return sorted((each for each in reading.numbers if start - _NEAR <= each.at <= end + _NEAR), key=place)


def _places(numbers: list[Number]) -> dict[NumberKind, str]:
    """Return the numbers for the places of a command."""
    filled: dict[NumberKind, str] = {}
    for each in numbers:
        filled.setdefault(each.kind, each.text)
    lids = list(
        dict.fromkeys(each.text for each in numbers if each.kind in (NumberKind.LID, NumberKind.LID1, NumberKind.LID2))
    )
    if NumberKind.LID1 in filled or NumberKind.LID2 in filled:
        filled.setdefault(NumberKind.LID, filled.get(NumberKind.LID1) or filled[NumberKind.LID2])
        others = [each for each in lids if each not in (filled.get(NumberKind.LID1), filled.get(NumberKind.LID2))]
    else:
        others = lids.copy()
    for kind in (NumberKind.LID1, NumberKind.LID2):
        if len(lids) > 1 and kind not in filled and others:
            filled[kind] = others.pop(0)
    if filled.get(NumberKind.LID1) == filled.get(NumberKind.LID2):
        filled.pop(NumberKind.LID2, None)
    if NumberKind.LID1 not in filled or NumberKind.LID2 not in filled:
        filled.pop(NumberKind.LID1, None)
    for first, second in ((NumberKind.GUID, NumberKind.GUID2), (NumberKind.P_KEY, NumberKind.P_KEY2)):
        texts = list(dict.fromkeys(each.text for each in numbers if each.kind is first))
        if len(texts) > 1:
            filled[second] = texts[1]
    return filled


def _by_name(text: str, reading: Reading, others: bool) -> list[Answer]:
    """Return the answers about the rules and interlocks that the text names; without *others*, rows that fit, also
    about OpenSM's errors and exit codes."""
    answers = []
    if not others:
        for number in dict.fromkeys(_ANY_ERR.findall(text)):
            answers.append(_bare(_unknown_error(number)))
    for word in dict.fromkeys(_RULE.findall(text)):
        if (rule := find_rule(word)) is not None:
            answers.append(_bare(own_texts.rule_row(rule)))
    for match in _INTERLOCK.finditer(text):
        is_named = re.search("interlock|override", text[max(0, match.start() - 40) : match.start()], re.I) is not None
        if is_named or match[0] == text.strip() or (match[0] not in _ONE_INTERLOCK_WORD and not others):
            answers.append(_bare(own_texts.interlock_row(match[0].lower())))
    if not others and (code := _EXIT.search(text)) is not None and int(code[1]) in own_texts.EXIT_CODES:
        answers.append(_bare(own_texts.exit_code_row(int(code[1]))))
    return list({each.symptom.name: each for each in answers}.values())


def _bare(row: Symptom) -> Answer:
    return Answer(row, tuple(LikelyCause(cause, cause.command({})) for cause in row.causes))


def _unknown_error(number: str) -> Symptom:
    file = FILES.get(number[:2])
    return Symptom(
        name=f"opensm-{number}",
        title=f"ERR {number} of OpenSM",
        example=f"ERR {number}",
        meaning=f"An error that {file or 'another source file'} of OpenSM 3.3 logs. The table has no advice for it.",
        source=file or "not known",
        rank=1,
    )


def _of_hex(found: values.HexText) -> Answer:
    row = BY_NAME.get(f"trap-{found.trap}", values.MAD)
    causes = [LikelyCause(cause, cause.command(found.numbers)) for cause in row.causes]
    if row is not values.MAD:
        causes += [LikelyCause(cause, cause.command({})) for cause in values.MAD.causes]
    leaks = ""
    if found.has_key:
        leaks = row.leaks or "The MAD holds an M_Key. Whoever saw this text knows it: change it (ibkeys mkey-rotate)."
    return Answer(row, tuple(causes), tuple(found.numbers.items()), (found.words,), leaks)


_OF_KIND: Final = {NumberKind.P_KEY: values.P_KEY, NumberKind.Q_KEY: values.Q_KEY, NumberKind.GUID: values.GUID}


def _values(text: str, reading: Reading) -> list[Answer]:
    """Return the answers about the numbers: about the text if it is one number alone, else about its P_Keys, Q_Keys,
    GUIDs and LIDs."""
    alone = _ALONE.fullmatch(text)
    if alone is not None:
        return _number_alone(alone, reading)
    answers = []
    for each in reading.numbers:
        row = _OF_KIND.get(each.kind) or (
            values.LID if each.kind in (NumberKind.LID, NumberKind.LID1, NumberKind.LID2) else None
        )
        if row is not None:
            answers.append(_value(row, each))
    return list({each.symptom.name: each for each in reversed(answers)}.values())[::-1]


def _value(row: Symptom, number: Number) -> Answer:
    kind = NumberKind.LID if row is values.LID else number.kind
    filled = {kind: number.text}
    words = values.words_of(number.kind, number.value)
    causes = tuple(LikelyCause(cause, cause.command(filled)) for cause in row.causes)
    return Answer(row, causes, ((kind, number.text),), (words,) if words else ())


def _number_alone(alone: re.Match[str], reading: Reading) -> list[Answer]:
    """Return what a number without any word may be: a P_Key, Q_Key, LID, exit status, GUID or key."""
    digits = alone["hex"] or alone["long"] or alone["number"]
    value = int(digits, 16) if not alone["number"] else int(digits)
    guids = [each for each in reading.numbers if each.kind is NumberKind.GUID]
    if value > 0xFFFF_FFFF or alone["long"]:
        return [_value(values.GUID, guids[0])] if guids else [_bare_leaking(values.LONG_NUMBER)]
    if value > 0xFFFF:
        return [_value(values.Q_KEY, Number(NumberKind.Q_KEY, value, f"0x{value:08x}", 0))]
    answers = []
    if alone["number"] and value in own_texts.EXIT_CODES:
        answers.append(_bare(own_texts.exit_code_row(value)))
    if alone["number"] and 0 < value <= 0xBFFF:
        answers.append(_value(values.LID, Number(NumberKind.LID, value, str(value), 0)))
    if value & 0x7FFF and (alone["hex"] or value > 0x7FFF):
        answers.append(_value(values.P_KEY, Number(NumberKind.P_KEY, value, f"0x{value:04x}", 0)))
    return answers


def _bare_leaking(row: Symptom) -> Answer:
    return Answer(row, _bare(row).causes, leaks=row.leaks)

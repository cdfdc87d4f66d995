"""The options file of OpenSM, its opensm.conf, read as OpenSM reads it.

A line is a name, blanks and a value. ``#`` begins a comment anywhere, and quotes around a value are removed. Of several
valid lines for one option the last counts. A line whose value is not a number of the option's width changes nothing. A
flag is true for the exact word TRUE and false for every other word. Source: opensm osm_subnet.c
(osm_subn_parse_conf_file, clean_val, osm_subn_verify_config), and the behaviour of opensm 3.3.23 with such files. No
message of this module has a key, or a value that could not be parsed: it may be a key in a wrong place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from ibkeys.keys.mkey import MKey
from ibkeys.managers.opensm.option_table import BITS, OPTIONS, OptionKind, OptionValue
from ibkeys.store.opensm import c_number

MAX_LINE: Final = 1022
"""Most bytes that OpenSM reads at once: it takes the rest of a longer line as a line of its own."""
_ASSIGNMENT: Final = re.compile(rb"[ \t]*([^ \t]+)(?:[ \t](.*))?", re.DOTALL)
_NAME: Final = re.compile(rb"(?=.*_)[a-z][a-z0-9]*(_[a-z0-9]+)*|(?![a-f]+\Z)[a-z]{2,16}")
"""Text that looks like the name of an option; digits without an underscore may be a key."""
_SPACE: Final = b" \t\r\n\v\f"
_NUMBER: Final = re.compile(rb"[ \t\r\n\v\f]*([+-]?)([0-9].*)", re.DOTALL)

Complaint = Literal["unknown", "no-number", "not-true", "replaced", "no-newline"]
"""A fault in a line: OpenSM has no such option; the value is not a number of the option's width, so the line changes
nothing; a flag has a word that was probably meant as true and is false; OpenSM replaces the value by another; the file
ends without a newline, so its last line may be half written."""


class OptionLine(NamedTuple):
    """One line that sets an option: the option's name, its value as written, the offset of the value in the file, and
    the number of the line from 1."""

    name: bytes
    text: bytes
    start: int
    line: int


@dataclass(frozen=True, slots=True)
class Remark:
    """A fault in one line; ``option`` is empty if the line names no option of OpenSM."""

    line: int
    option: str
    complaint: Complaint


@dataclass(frozen=True, slots=True)
class OptionsFile:
    """The contents of an options file. ``values``: the value of each option that a valid line sets; ``remarks``: the
    faults of the file. Keys are masked when they are printed. ``unknown``: the options that OpenSM does not have, by
    name, or by the number of the line if the name may be a value in a wrong place."""

    values: Mapping[str, OptionValue] = field(default_factory=dict)
    remarks: tuple[Remark, ...] = ()
    unknown: tuple[str, ...] = ()

    def value(self, name: str) -> OptionValue:
        """Return the value of *name* in an OpenSM that starts with this file: the file's, else the default."""
        return self.values[name] if name in self.values else OPTIONS[name].default


def read_options(data: bytes) -> OptionsFile:
    """Return the options that OpenSM reads from the options file *data*. Any bytes are accepted."""
    values: dict[str, OptionValue] = {}
    lines: dict[str, int] = {}
    remarks: list[Remark] = []
    unknown: list[str] = []
    last = None
    for last in assignments(data):
        option = OPTIONS.get(last.name.decode("latin-1"))
        if option is None:
            remarks.append(Remark(last.line, "", "unknown"))
            unknown.append(last.name.decode() if _NAME.fullmatch(last.name) else f"line {last.line}")
            continue
        text = unquoted(last.text)
        value = _read(option.kind, text)
        if value is None and option.kind in BITS:
            remarks.append(Remark(last.line, option.name, "no-number"))
            continue
        if option.kind == "flag" and text.lower() in _MEANT_AS_TRUE and text != b"TRUE":
            remarks.append(Remark(last.line, option.name, "not-true"))
        values[option.name], lines[option.name] = value, last.line
    for name in [name for name in values if name in _REPLACED]:
        instead = corrected(name, values[name])
        if instead != values[name]:
            remarks.append(Remark(lines[name], name, "replaced"))
            values[name] = instead
    if values.get("no_partition_enforcement") is True:
        values["part_enforce"] = "off"
        lines["part_enforce"] = lines["no_partition_enforcement"]
    if last is not None and b"\n" not in data[last.start :]:
        remarks.append(Remark(last.line, "", "no-newline"))
    ordered = tuple(sorted(remarks, key=lambda remark: remark.line))
    return OptionsFile(values, ordered, tuple(dict.fromkeys(unknown)))


def corrected(name: str, value: OptionValue) -> OptionValue:
    """Return the value that OpenSM uses for *value* of the option *name*: the same unless it is out of range."""
    return _REPLACED[name](value) if name in _REPLACED else value


def assignments(data: bytes) -> Iterator[OptionLine]:
    """Yield each line of *data* that sets an option, known or not; lines without a value too."""
    start = 0
    line = 1
    while start < len(data):
        end = data.find(b"\n", start, start + MAX_LINE)
        end = min(start + MAX_LINE, len(data)) if end < 0 else end
        text = data[start:end].split(b"#", 1)[0].split(b"\0", 1)[0]
        found = _ASSIGNMENT.match(text)
        if found is not None:
            rest = found[2] or b""
            at = found.start(2) + len(rest) - len(rest.lstrip(_SPACE)) if found[2] is not None else found.end(1)
            yield OptionLine(found[1], rest.strip(_SPACE), start + at, line)
        is_whole = data[end : end + 1] == b"\n"
        start = end + 1 if is_whole else end
        line += is_whole


def unquoted(text: bytes) -> bytes:
    """Return *text* without a pair of quotes around it."""
    is_quoted = len(text) > 1 and text[:1] == text[-1:] and text[:1] in (b'"', b"'")
    return text[1:-1] if is_quoted else text


def number_of(text: bytes, bits: int) -> int | None:
    """Return the number that C's strtoull reads from the whole of *text*, None if it is none or does not fit into
    *bits* bits."""
    match = _NUMBER.fullmatch(text)
    value = c_number(match[2], 64) if match is not None and len(match[2]) <= 64 else None
    if match is None or value is None:
        return None
    value = -value % (1 << 64) if match[1] == b"-" else value
    return value if value < 1 << bits else None


# --- values -----------------------------------------------------------------------------------------------------------

_MEANT_AS_TRUE: Final = frozenset({b"true", b"yes", b"on", b"1", b"t", b"y", b"enable", b"enabled"})
CONSOLES: Final = frozenset({"off", "local", "loopback", "socket"})
"""The values of ``console``. ``socket`` works only if OpenSM was built with it, which cannot be determined from
outside; else it means off."""
_ENFORCEMENTS: Final = frozenset({"both", "in", "out", "off"})


def _read(kind: OptionKind, text: bytes) -> OptionValue:
    """Return the value of an option of this kind, None if *text* is not a valid one."""
    if kind == "flag":
        return text == b"TRUE"
    if kind == "text":
        return None if text == b"(null)" else text.decode("utf-8", "surrogateescape")
    number = number_of(text, 64) if kind in BITS else None
    if number is None or kind == "key":
        return None if number is None else MKey(number)
    if kind == "i32":
        number = number - (1 << 64) if number >> 63 else number
        return number if -(1 << 31) <= number < 1 << 31 else None
    return number if number < 1 << BITS[kind] else None


def _at_most(limit: int, instead: int) -> Callable[[OptionValue], OptionValue]:
    return lambda value: instead if isinstance(value, int) and value > limit else value


def _one_of(words: frozenset[str], instead: str) -> Callable[[OptionValue], OptionValue]:
    return lambda value: value if value in words else instead


_REPLACED: Final[dict[str, Callable[[OptionValue], OptionValue]]] = {
    "lmc": _at_most(7, 0),
    "sm_priority": _at_most(15, 0),
    "m_key_protection_level": _at_most(3, 2),
    "console": _one_of(CONSOLES, "off"),
    "part_enforce": _one_of(_ENFORCEMENTS, "both"),
}
"""Option → the replacement of an invalid value by osm_subn_verify_config."""

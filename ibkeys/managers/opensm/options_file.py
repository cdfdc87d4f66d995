"""The options file of OpenSM, its opensm.conf, read as OpenSM reads it.

A line is a name, blanks and a value. ``#`` begins a comment anywhere, and quotes around a value are removed. If an
option has several valid lines, the last counts. A line of a number option has no effect if its value is no number or
too large for the option. A flag is true for the exact word TRUE and false for every other word. Source: opensm
osm_subnet.c (osm_subn_parse_conf_file, clean_val, osm_subn_verify_config), and the behaviour of opensm 3.3.23 with such
files. No message of this module has a key, or a value that could not be parsed, since it may be a key in a wrong place.
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
"""The most bytes of a line that OpenSM reads at once. It reads the rest of a longer line as the next line."""
_ASSIGNMENT: Final = re.compile(rb"[ \t]*([^ \t]+)(?:[ \t](.*))?", re.DOTALL)
_NAME: Final = re.compile(rb"(?=.*_)[a-z][a-z0-9]*(_[a-z0-9]+)*|(?![a-f]+\Z)[a-z]{2,16}")
"""Text that may be shown because it looks like the name of an option. Text with digits and no underscore may be a key.
"""
_SPACE: Final = b" \t\r\n\v\f"
_NUMBER: Final = re.compile(rb"[ \t\r\n\v\f]*([+-]?)([0-9].*)", re.DOTALL)

Complaint = Literal["unknown", "no-number", "not-true", "replaced", "no-newline"]
"""A fault in a line, in this order: OpenSM has no such option; the value is no number or too large for the option, so
the line has no effect; a flag has a word that was probably meant as true but means false; OpenSM replaces the value by
another; the file ends without a newline, so its last line may be incomplete."""


class OptionLine(NamedTuple):
    """A line that sets an option. ``name``: the option; ``text``: the value as written; ``start``: the offset of the
    value in the file, in bytes; ``line``: the number of the line, from 1."""

    name: bytes
    text: bytes
    start: int
    line: int


@dataclass(frozen=True, slots=True)
class Remark:
    """A fault in a line. ``line``: its number, from 1; ``option``: the option that it sets; "" if that is none of
    OpenSM's, and for a missing newline."""

    line: int
    option: str
    complaint: Complaint


@dataclass(frozen=True, slots=True)
class OptionsFile:
    """The contents of an options file. ``values``: option name → value, for each option that a valid line sets, and
    part_enforce off if no_partition_enforcement is TRUE; a key is masked when it is printed. ``remarks``: the faults in
    the file, in the order of lines. ``unknown``: the names of options that OpenSM does not have; in place of a name
    that may be a key in a wrong place, the number of its line."""

    values: Mapping[str, OptionValue] = field(default_factory=dict)
    remarks: tuple[Remark, ...] = ()
    unknown: tuple[str, ...] = ()

    def value(self, name: str) -> OptionValue:
        """Return the value of the option *name* in an OpenSM that starts with this file: that in the file, or else the
        default."""
        return self.values[name] if name in self.values else OPTIONS[name].default


def read_options(data: bytes) -> OptionsFile:
    """Return the options that OpenSM would read from the options file *data*. Any bytes are accepted."""
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
        text = without_quotes(last.text)
        value = _parse_value(option.kind, text)
        if value is None and option.kind in BITS:
            remarks.append(Remark(last.line, option.name, "no-number"))
            continue
        if option.kind == "flag" and text.lower() in _MEANT_AS_TRUE and text != b"TRUE":
            remarks.append(Remark(last.line, option.name, "not-true"))
        values[option.name], lines[option.name] = value, last.line
    for name in [name for name in values if name in _REPLACED]:
        replacement = corrected(name, values[name])
        if replacement != values[name]:
            remarks.append(Remark(lines[name], name, "replaced"))
            values[name] = replacement
    if values.get("no_partition_enforcement") is True:
        values["part_enforce"] = "off"
        lines["part_enforce"] = lines["no_partition_enforcement"]
    if last is not None and b"\n" not in data[last.start :]:
        remarks.append(Remark(last.line, "", "no-newline"))
    ordered = tuple(sorted(remarks, key=lambda remark: remark.line))
    return OptionsFile(values, ordered, tuple(dict.fromkeys(unknown)))


def corrected(name: str, value: OptionValue) -> OptionValue:
    """Return the value that OpenSM uses if the option *name* has *value*: the same value, or another one if *value* is
    out of range."""
    return _REPLACED[name](value) if name in _REPLACED else value


def assignments(data: bytes) -> Iterator[OptionLine]:
    """Yield each line of the options file *data* that begins with a name, even if OpenSM has no such option, or the
    line has no value."""
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


def without_quotes(text: bytes) -> bytes:
    """Return *text* without a pair of quotes around it."""
    is_quoted = len(text) > 1 and text[:1] == text[-1:] and text[:1] in (b'"', b"'")
    return text[1:-1] if is_quoted else text


def number_of(text: bytes, bits: int) -> int | None:
    """Return the number that C's strtoull reads from *text*; None if not all of *text* is a number, or the number does
    not fit into *bits* bits."""
    match = _NUMBER.fullmatch(text)
    value = c_number(match[2], 64) if match is not None and len(match[2]) <= 64 else None
    if match is None or value is None:
        return None
    value = -value % (1 << 64) if match[1] == b"-" else value
    return value if value < 1 << bits else None


_MEANT_AS_TRUE: Final = frozenset({b"true", b"yes", b"on", b"1", b"t", b"y", b"enable", b"enabled"})
CONSOLES: Final = frozenset({"off", "local", "loopback", "socket"})
"""The values of ``console``. Whether OpenSM was built with support for ``socket`` cannot be determined here; without it
``socket`` means off."""
_ENFORCEMENTS: Final = frozenset({"both", "in", "out", "off"})


def _parse_value(kind: OptionKind, text: bytes) -> OptionValue:
    """Return the value that *text* means for an option of this *kind*; None if it is invalid, means no text, or is of
    the kind that is not parsed."""
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


def _at_most(limit: int, replacement: int) -> Callable[[OptionValue], OptionValue]:
    return lambda value: replacement if isinstance(value, int) and value > limit else value


def _one_of(words: frozenset[str], replacement: str) -> Callable[[OptionValue], OptionValue]:
    return lambda value: value if value in words else replacement


_REPLACED: Final[dict[str, Callable[[OptionValue], OptionValue]]] = {
    "lmc": _at_most(7, 0),
    "sm_priority": _at_most(15, 0),
    "m_key_protection_level": _at_most(3, 2),
    "console": _one_of(CONSOLES, "off"),
    "part_enforce": _one_of(_ENFORCEMENTS, "both"),
}
"""Option name → a function that returns the value which osm_subn_verify_config puts in place of an invalid one."""

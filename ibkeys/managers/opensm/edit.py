"""New values in an options file of OpenSM: each in its place, and every other byte stays.

OpenSM takes the last good line of an option, so the value in that line is replaced. How OpenSM reads a file:
`ibkeys.managers.opensm.options_file`. No key is in any message of this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ibkeys.errors import FileFormatError
from ibkeys.keys.mkey import MKey
from ibkeys.keys.smkey import SMKey
from ibkeys.managers.opensm.option_table import OPTIONS, OptionValue
from ibkeys.managers.opensm.options_file import assignments, read_options

NewValue = MKey | SMKey | int | bool | str
"""The value of an option: a number, a flag (written as TRUE or FALSE), a text, or a key."""
_FOLLOWS: Final = {"no_partition_enforcement": "part_enforce"}
"""Option → the other option whose value it decides."""


def with_options(data: bytes, values: Mapping[str, NewValue]) -> bytes:
    """Return the options file *data* with *values*, by option, each on a line; a line that has the value already stays.

    The value of an option's last line is replaced; an option without a line gets one at the end. Every other byte
    stays. The result is read as OpenSM would read it: raises FileFormatError if an option, one of *values* or any
    other, would then have another value than it should, or if OpenSM has no such option.
    """
    before = read_options(data).values
    after = data
    for name, value in values.items():
        if name not in before or before[name] != _read(value):
            after = _with_value(after, name.encode(), _text(value))
    _check(before, read_options(after).values, values)
    return after


def _check(before: Mapping[str, OptionValue], after: Mapping[str, OptionValue], values: Mapping[str, NewValue]) -> None:
    """Raise FileFormatError unless OpenSM reads *values* after the change and all else as *before*."""
    for name, value in values.items():
        if name not in OPTIONS:
            raise FileFormatError(f"OpenSM knows no option {name!r}, so no line for it was made")
        is_flag = OPTIONS[name].kind == "flag"
        if name not in after or after[name] != _read(value) or isinstance(value, bool) != is_flag:
            raise FileFormatError(
                f"its {name} cannot be changed (a line is too long for OpenSM, or its other text would "
                "change the new value): edit it by hand"
            )
    may_change = {*values, *(_FOLLOWS[name] for name in values if name in _FOLLOWS)}
    others = [name for name in {*before, *after} - may_change if before.get(name) != after.get(name)]
    if others:
        raise FileFormatError(
            f"changing {', '.join(values)} would also change how OpenSM reads {', '.join(sorted(others))} (a line is "
            "too long for it): edit it by hand"
        )


def _read(value: NewValue) -> OptionValue:
    """Return *value* as `read_options` gives it: every key is an M_Key there."""
    return MKey(value.reveal()) if isinstance(value, SMKey) else value


def _text(value: NewValue) -> bytes:
    if isinstance(value, bool):
        return b"TRUE" if value else b"FALSE"
    if isinstance(value, MKey | SMKey):
        return value.hex().encode()
    return str(value).encode("utf-8", "surrogateescape")


def _with_value(data: bytes, name: bytes, value: bytes) -> bytes:
    lines = [line for line in assignments(data) if line.name == name]
    if lines:
        last = lines[-1]
        before = data[: last.start]
        blank = b"" if last.text or before.endswith((b" ", b"\t")) else b" "
        return before + blank + value + data[last.start + len(last.text) :]
    newline = b"" if not data or data.endswith(b"\n") else b"\n"
    return data + newline + name + b" " + value + b"\n"

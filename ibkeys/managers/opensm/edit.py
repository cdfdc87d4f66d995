"""Putting new values into an options file of OpenSM without changing any other byte.

OpenSM uses the last valid line of an option, so the value in the last line is replaced.
`ibkeys.managers.opensm.options_file` reads a file as OpenSM does. No message of this module has a key.
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
_DECIDES: Final = {"no_partition_enforcement": "part_enforce"}
"""Option → another option whose value it changes too."""


def with_options(data: bytes, values: Mapping[str, NewValue]) -> bytes:
    """Return the contents of the options file *data* with new *values* (option name → value).

    The value in the last line of each option is replaced; an option without a line gets one at the end. If OpenSM reads
    the value from the file already, nothing is changed for that option. All other bytes stay. Raises FileFormatError if
    OpenSM has no such option, or would read another value than intended for any option of the result.
    """
    before = read_options(data).values
    after = data
    for name, value in values.items():
        if name not in before or before[name] != _as_read(value):
            after = _set_value(after, name.encode(), _text(value))
    _require_expected(before, read_options(after).values, values)
    return after


def _require_expected(
    before: Mapping[str, OptionValue], after: Mapping[str, OptionValue], values: Mapping[str, NewValue]
) -> None:
    """Raise FileFormatError unless *after*, the options that OpenSM reads from the changed file, has *values*, and for
    all other options, except those that they also decide (`_DECIDES`), the values of *before*."""
    for name, value in values.items():
        if name not in OPTIONS:
            raise FileFormatError(f"OpenSM knows no option {name!r}, so no line for it was made")
        is_flag = OPTIONS[name].kind == "flag"
        if name not in after or after[name] != _as_read(value) or isinstance(value, bool) != is_flag:
            raise FileFormatError(
                f"its {name} cannot be changed (a line is too long for OpenSM, or its other text would "
                "change the new value): edit it by hand"
            )
    may_change = {*values, *(_DECIDES[name] for name in values if name in _DECIDES)}
    side_effects = [name for name in {*before, *after} - may_change if before.get(name) != after.get(name)]
    if side_effects:
        raise FileFormatError(
            f"changing {', '.join(values)} would also change how OpenSM reads {', '.join(sorted(side_effects))} (a "
            "line is too long for it): edit it by hand"
        )


def _as_read(value: NewValue) -> OptionValue:
    """Return *value* as `read_options` would return it: there every key is an `MKey`."""
    return MKey(value.reveal()) if isinstance(value, SMKey) else value


def _text(value: NewValue) -> bytes:
    if isinstance(value, bool):
        return b"TRUE" if value else b"FALSE"
    if isinstance(value, MKey | SMKey):
        return value.hex().encode()
    return str(value).encode("utf-8", "surrogateescape")


def _set_value(data: bytes, name: bytes, value: bytes) -> bytes:
    lines = [line for line in assignments(data) if line.name == name]
    if lines:
        last = lines[-1]
        before = data[: last.start]
        blank = b"" if last.text or before.endswith((b" ", b"\t")) else b" "
        return before + blank + value + data[last.start + len(last.text) :]
    newline = b"" if not data or data.endswith(b"\n") else b"\n"
    return data + newline + name + b" " + value + b"\n"

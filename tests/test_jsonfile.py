"""JSON within bounds."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys import jsonfile
from ibkeys.errors import FileFormatError


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"[" * 1_000_000, "f: is nested too deeply"),
        (b'{"a":' * 1_000_000, "f: is nested too deeply"),
        (b"[" + b"0," * jsonfile.MOST_VALUES + b"0]", "f: more than 16000000 values, the limit for such a file"),
        (b"9" * 5000, "f: a number has more than 4300 digits"),
        (b"\xff", "f: is not UTF-8 text (byte 0)"),
        (b"NaN", "f: NaN is not a number of JSON"),
        (b'{"a":1,"b":2,"a":3}', "f: the name 'a' appears twice in one object"),
        (b"{", "f:1:2: is not JSON: "),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else value[:20],
)
def test_what_is_refused_in_one_line(data: bytes, message: str) -> None:
    with pytest.raises(FileFormatError) as raised:
        jsonfile.loads(data, "f")
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


def test_names_are_looked_at_once_each() -> None:
    """With a name that stands twice: to count each of them would take the square of their number."""
    hashed = 0

    class Name(str):
        __slots__ = ()

        def __hash__(self) -> int:
            nonlocal hashed
            hashed += 1
            return str.__hash__(self)

        def __eq__(self, other: object) -> bool:
            nonlocal hashed
            hashed += 1
            return str.__eq__(self, other)

    pairs = [(Name(number), 0) for number in range(1000)]
    with pytest.raises(FileFormatError, match="'999' appears twice"):
        jsonfile.object_of([*pairs, (Name(999), 0)])
    assert hashed < 10 * len(pairs)


VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(value=VALUES)
def test_what_json_writes_is_read(value: Any) -> None:
    assert jsonfile.loads(json.dumps(value).encode()) == value


@given(data=st.binary())
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(FileFormatError):
        jsonfile.loads(data)

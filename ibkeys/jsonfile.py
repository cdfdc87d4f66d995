"""JSON: read within bounds, so that a file made to exhaust the reader gives a one-line error, and written for grep."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ibkeys.errors import FileFormatError

MOST_VALUES: Final = 16_000_000
"""Values in one document, about 1 GiB; the plan of a full subnet with 20 P_Keys on each port has 4 million."""


def loads(data: bytes, name: str = "") -> Any:
    """Return the values of a JSON document in UTF-8; *name* is the file's, for messages.

    Raises FileFormatError, also for a name that appears twice in one object, NaN and the infinities.
    """
    if data.count(b",") + data.count(b"[") + data.count(b"{") > MOST_VALUES:
        raise FileFormatError(f"more than {MOST_VALUES} values, the limit for such a file", name)
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=object_of, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise FileFormatError(f"is not UTF-8 text (byte {error.start})", name) from None
    except json.JSONDecodeError as error:
        raise FileFormatError(f"is not JSON: {error.msg}", name, error.lineno, error.colno) from None
    except RecursionError:
        raise FileFormatError("is nested too deeply", name) from None
    except MemoryError:
        raise FileFormatError("does not fit into memory", name) from None
    except FileFormatError as error:  # a name that stands twice
        raise FileFormatError(error.fault, name) from None
    except ValueError:
        raise FileFormatError(f"a number has more than {sys.get_int_max_str_digits()} digits", name) from None


def dumps(document: Mapping[str, Any]) -> str:
    """Return a document as JSON, with each item of its lists on a line of its own: as good for grep as for a parser."""
    encode = json.JSONEncoder().encode  # as json.dumps, without a look at its options for each item

    def text(value: Any) -> str:
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return "[\n" + ",\n".join(map(encode, value)) + "\n]"
        return json.dumps(value)

    return "{" + ",\n".join(f"{json.dumps(name)}: {text(value)}" for name, value in document.items()) + "}"


def object_of(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return *pairs* of name and value as a JSON object. Raises FileFormatError when a name occurs twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for each, _ in pairs:
            if each in seen:
                raise FileFormatError(f"the name {each[:40]!r} appears twice in one object")
            seen.add(each)
    return found


def _no_constant(text: str) -> Any:
    raise FileFormatError(f"{text} is not a number of JSON")

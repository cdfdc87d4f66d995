"""Reading JSON within limits, so that a file cannot exhaust the memory of the reader, and writing JSON for grep."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ibkeys.errors import FileFormatError

MOST_VALUES: Final = 16_000_000
"""Most values in one document: they need about 1 GiB. The plan of a full subnet, 20 P_Keys on each port, has 4 million.
"""


def loads(data: bytes, name: str = "") -> Any:
    """Return the value of a JSON document in UTF-8. *name*: the name of the file, for messages.

    Raises FileFormatError, also for a name that appears twice in one object, for NaN, and for the infinities.
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
    except FileFormatError as error:  # from `object_of` or `_no_constant`, which do not know the file
        raise FileFormatError(error.fault, name) from None
    except ValueError:
        raise FileFormatError(f"a number has more than {sys.get_int_max_str_digits()} digits", name) from None


def dumps(document: Mapping[str, Any]) -> str:
    """Return a document as JSON. If one of its values is a list of objects, each object has a line of its own, so that
    grep finds it.
    """
    encode = json.JSONEncoder().encode  # faster than json.dumps, which examines its options for each item

    def text(value: Any) -> str:
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return "[\n" + ",\n".join(map(encode, value)) + "\n]"
        return json.dumps(value)

    return "{" + ",\n".join(f"{json.dumps(name)}: {text(value)}" for name, value in document.items()) + "}"


def object_of(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return *pairs* of name and value as a JSON object. Raises FileFormatError when a name occurs twice."""
    values = dict(pairs)
    if len(values) != len(pairs):
        seen: set[str] = set()
        for each, _ in pairs:
            if each in seen:
                raise FileFormatError(f"the name {each[:40]!r} appears twice in one object")
            seen.add(each)
    return values


def _no_constant(text: str) -> Any:
    raise FileFormatError(f"{text} is not a number of JSON")

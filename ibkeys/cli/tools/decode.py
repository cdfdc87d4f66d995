"""The command `decode`: MADs and attributes from hex."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any, Final

import click

from ibkeys.cli import exits, options, streams
from ibkeys.cli.documents.explained import DECODE
from ibkeys.cli.documents.field import NOTHING
from ibkeys.cli.exits import write, write_exact
from ibkeys.cli.help.command import command
from ibkeys.cli.render import write_details, write_document
from ibkeys.errors import EncodeError, MalformedMad, UsageError
from ibkeys.printable import counted

_HEX: Final = re.compile(r"[0-9a-fA-F]*")
_SEPARATORS: Final = str.maketrans(":,", "  ")
_MASKED: Final = "_masked"


@command("decode")
@click.argument("hexes", metavar="HEX|-", nargs=-1, required=True)
@click.option("--attribute", metavar="NAME", help="Attribute of a bare payload, such as PortInfo.")
@options.format
@options.show_keys
@options.common
def decode(hexes: tuple[str, ...], attribute: str | None, format: str, show_keys: bool) -> int:
    """Decode a MAD or a bare attribute, given in hex.

    256 bytes are a whole MAD; fewer are the payload of --attribute. Blanks, colons and 0x are ignored. With '-'
    each line of standard input is one hex string and each line of output one JSON document.
    """
    name = _attribute_named(attribute)
    if hexes == ("-",):
        return _decode_lines(name, show_keys)
    document = _document(" ".join(hexes), name, show_keys)
    if not write_document(format, DECODE, lambda: document, _csv_rows(document)):
        _write_text(document)
    return exits.DONE


def _attribute_named(name: str | None) -> str | None:
    """Return the name of an attribute as IBA spells it; None for None. Case and underscores in *name* do not matter.

    Raises UsageError for an unknown name.
    """
    if name is None:
        return None
    from ibkeys.mad.decode import ATTRIBUTES_BY_NAME

    def plain(text: str) -> str:
        return text.replace("_", "").lower()

    spelling = next((known for known in ATTRIBUTES_BY_NAME if plain(known) == plain(name)), None)
    if spelling is None:
        raise UsageError(f"there is no attribute {name!r}; choose from {', '.join(sorted(ATTRIBUTES_BY_NAME))}")
    return spelling


def _document(text: str, attribute: str | None, show_keys: bool) -> dict[str, Any]:
    from ibkeys.mad.decode import decode as decode_mad

    return decode_mad(_bytes_of_hex(text), attribute, show_keys)


def _bytes_of_hex(text: str) -> bytes:
    """Return the bytes that *text* has as hex digits. Blanks, colons, commas and 0x are ignored.

    Raises MalformedMad; its message does not repeat *text*, which may hold a key.
    """
    parts = [part[2:] if part[:2] in ("0x", "0X") else part for part in text.translate(_SEPARATORS).split()]
    if len(parts) > 1 and any(len(part) % 2 for part in parts):
        raise MalformedMad("a group of hex digits is not a whole number of bytes")
    digits = "".join(parts)
    if not digits:
        raise MalformedMad("nothing to decode: no hex digit")
    if not _HEX.fullmatch(digits):
        at = _HEX.match(digits)
        raise MalformedMad(f"not hex: {digits[at.end() if at else 0]!r} after {at.end() if at else 0} digits")
    if len(digits) % 2:
        raise MalformedMad(f"{len(digits)} hex digits are not a whole number of bytes")
    return bytes.fromhex(digits)


def _decode_lines(attribute: str | None, show_keys: bool) -> int:
    import json

    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(errors="replace")
    failed = 0
    for number, line in enumerate(sys.stdin, 1):
        if not line.strip():
            continue
        try:
            document = _document(line, attribute, show_keys)
        except (MalformedMad, EncodeError) as error:
            failed += 1
            document = {"error": f"line {number}: {error}"}
        write_exact(json.dumps({"schema": DECODE.schema, **document}))
        if streams.failure_of(sys.stdout) is not None:
            break  # the output has no reader, and the input may have no end
    if failed:
        exits.warn(f"{counted(failed, 'line')} could not be decoded", "error")
        return exits.WRONG_USAGE
    return exits.DONE


def _write_text(document: dict[str, Any]) -> None:
    mad = document["mad"]
    if mad is not None:
        write_details("MAD", _pairs(mad))
    if document["fields"] is not None:
        write_details(document["attribute"], _pairs(document["fields"]))
    elif mad is not None:
        write(f"{document['attribute'] or 'attribute'}: ibkeys does not know its layout")


def _csv_rows(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for part in ("mad", "fields"):
        for name, value in _pairs(document[part] or {}):
            yield {"part": part, "name": name, "value": value}


def _pairs(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if name.endswith(_MASKED):
            continue
        if isinstance(value, dict):
            yield from _pairs(value, f"{prefix}{name}.")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for number, each in enumerate(value):
                yield from _pairs(each, f"{prefix}{name}[{number}].")
        elif isinstance(value, list):
            yield prefix + name, " ".join(map(str, value))
        elif value is None:
            yield prefix + name, "masked (-K shows it)" if values.get(name + _MASKED) else NOTHING
        else:
            yield prefix + name, value

"""Parsing the words of a command: numbers, percentages, times, nodes and ports."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final, NamedTuple, TypeVar

from ibkeys.errors import AddressError, UsageError
from ibkeys.printable import shortened
from ibkeys.sim.nodes import SimNode, SimPort
from ibkeys.sim.subnet import Subnet

S = TypeVar("S", bound=str)

_TOKEN: Final = re.compile(r'(?:"[^"]*"|[^\s"#]|(?<!\s)#)+')
_PLACE: Final = re.compile(
    r'(?:"(?P<quoted>[^"]*)"|(?P<plain>.*?))(?:\[(?P<port>\d{1,3})\]|:(?P<colon>\d{1,3}))?', re.DOTALL
)
_MOST_SECONDS: Final = 1e9


class Token(NamedTuple):
    """A word of a line, and the column where it begins, from 1."""

    text: str
    column: int


class LineError(UsageError):
    """A line whose syntax is wrong, with the column of the wrong word."""

    def __init__(self, message: str, column: int = 1) -> None:
        self.column = column
        super().__init__(message)


def split_line(line: str) -> list[Token]:
    """Return the words of a line up to its comment. Raises LineError for a quote that is not closed."""
    if line.count('"') % 2:
        raise LineError("a double quote is not closed", line.rindex('"') + 1)
    tokens, at = [], 0
    while at < len(line):
        if line[at].isspace():
            at += 1
            continue
        if line[at] == "#":
            break
        match = _TOKEN.match(line, at)
        if match is None:
            raise LineError(f"{shortened(line[at:])} is not a word", at + 1)
        tokens.append(Token(match[0], at + 1))
        at = match.end()
    return tokens


def one_of(token: Token, allowed: Collection[S], separator: str = ", ") -> S:
    """Return the word of *allowed* that equals *token*. Raises LineError for another word; *separator* stands between
    the allowed words in the message."""
    for each in allowed:
        if each == token.text:
            return each
    raise LineError(f"{shortened(token.text)}: write {separator.join(allowed)}", token.column)


def is_first(token: Token, first: str, second: str) -> bool:
    """Return True if the word is *first*, False if it is *second*. Raises LineError for another word."""
    return one_of(token, (first, second), " or ") == first


def to_number(token: Token, text: str, what: str, highest: int) -> int:
    """Return the number in *text*, decimal or 0x, from 0 to *highest*. Raises LineError, whose message calls the number
    *what*. *token*: the word with *text*, for the column."""
    try:
        value = int(text, 16) if text[:2].lower() == "0x" else int(text)
    except ValueError:
        value = -1
    if not text.isascii() or not 0 <= value <= highest:
        raise LineError(
            f"{shortened(text)} is not a {what} (0 to {highest if highest < 0x10000 else hex(highest)})", token.column
        )
    return value


def to_share(token: Token) -> float:
    """Return the percentage in *token*, with or without %, as a share from 0 to 1. Raises LineError."""
    return _to_float(token, token.text.removesuffix("%"), 100, "percentage from 0 to 100") / 100


def to_seconds(token: Token, text: str) -> float:
    """Return the number of seconds in *text*, which is *token* or a part of it. Raises LineError."""
    return _to_float(token, text, _MOST_SECONDS, "number of seconds")


def _to_float(token: Token, text: str, highest: float, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= highest:
        raise LineError(f"{shortened(token.text)} is not a {what}", token.column)
    return value


def unquoted(token: Token) -> str:
    """Return the word without its double quotes."""
    return token.text.replace('"', "")


def find(subnet: Subnet, token: Token) -> tuple[SimNode, int | None]:
    """Return the node that the word names, and the number of the port, None if it names none. The port may not exist.

    Raises AddressError for an unknown node, LineError for a word that is no name.
    """
    match = _PLACE.fullmatch(token.text)
    if match is None:
        raise LineError(f'{shortened(token.text)}: write NODE[PORT] or "NODE"[PORT]', token.column)
    if match["quoted"] is None and match["colon"] is not None:
        try:
            return subnet.node(token.text), None  # The name of the node ends in a colon and a number.
        except AddressError:
            pass
    name = match["quoted"] if match["quoted"] is not None else match["plain"]
    number = match["port"] or match["colon"]
    return subnet.node(name), int(number) if number is not None else None


def find_node(subnet: Subnet, token: Token) -> SimNode:
    """Return the node that the word names. Raises UsageError if it names a port, AddressError for an unknown node."""
    node, number = find(subnet, token)
    if number is not None:
        raise UsageError(f"{token.text}: this command is about a whole node; omit the port number")
    return node


def find_port(subnet: Subnet, token: Token) -> SimPort:
    """Return the port that the word names. Raises UsageError if it names a node only, AddressError for an unknown node
    or port."""
    node, number = find(subnet, token)
    if number is None:
        raise UsageError(f"{token.text}: which port? Write {token.text}[1]")
    return subnet.port(node, number)


def find_end_port(subnet: Subnet, token: Token) -> SimPort:
    """Return the end port that the word names; for a node its default port (`Subnet.attach_port`). Raises UsageError if
    the port is not an end port, AddressError for an unknown node or port."""
    node, number = find(subnet, token)
    port = subnet.attach_port(node) if number is None else subnet.port(node, number)
    if not port.is_end_port:
        raise UsageError(
            f"{port} is not an end port: packets begin and end at CA and router ports and at switch port 0"
        )
    return port

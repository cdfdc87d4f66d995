"""All hosts or all switches of a fabric as one word: ``all 1,024 hosts``, ``all 40 hosts but 2: gpu-a[03,07] mlx5_0``,
``all 6 switches port 0``.

Hosts are counted by the first word of their names. If a name repeats or is missing, hosts cannot be counted, and the
word is ``all 582 HCAs``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ibkeys.topology.nodes import Node
    from ibkeys.topology.searched_fabric import SearchableFabric

Row = Mapping[str, Any]
Place = tuple[str, int]
Listed = Callable[[Iterable[Row]], list[str]]
"""A function that returns words for rows, with the name of each node."""

ALL: Final = "all "
"""The beginning of each of these words; no other name begins so."""
LONG: Final = 40
"""Names of at most so many characters, half a line of a terminal, are not shortened."""
_LEAST: Final = 3
"""Fewer nodes than this are named one by one."""
_EXCEPT: Final = 4
"""At most one node in so many may be an exception."""


class AllOfAType:
    """All hosts and all switches of a fabric.

    *sheet*: the ports that can be named; if it lacks a host's port, there is no word for all hosts. *is_name*: whether
    the name of a node identifies it.
    """

    def __init__(self, sheet: Mapping[Place, Row], fabric: SearchableFabric, is_name: Callable[[Row], bool]) -> None:
        self._sheet = sheet
        self._fabric = fabric
        self._is_name = is_name

    def hosts(self, rows: Sequence[Row], listed: Listed, exceptions: bool) -> str | None:
        """Return the word for the ports of all hosts in *rows*, such as ``all 40 hosts but 2: gpu-a[03,07] mlx5_0``.

        *listed*: returns the names of rows. *exceptions*: whether a few hosts may be left out; they are named after the
        word. Return None if *rows* lack other ports of hosts, if there are few hosts, if the names are short, if the
        word with the exceptions is not shorter than the names, or if a host and an exception have the same GUID.
        """
        own = {place_of(row) for row in rows if row["node_type"] == "ca"}
        hosts, missing = self._hosts, self._hosts - own
        out = _nodes(missing)
        if not hosts or (missing and not exceptions) or out & _nodes(own) or len(out) * _EXCEPT > len(_nodes(hosts)):
            return None
        length = length_of(listed(self._sheet[place] for place in own))
        if length <= LONG:
            return None
        is_named = all(self._is_name(self._sheet[place]) for place in hosts)
        names = {self._sheet[place]["node_desc"].partition(" ")[0] for place in hosts} if is_named else _nodes(hosts)
        word = f"{ALL}{len(names):,} {'hosts' if is_named else 'HCAs'}"
        if not missing:
            return word
        others = listed(self._sheet[place] for place in missing)
        word += f" but {len(out):,}: {others[0]}"
        return word if len(others) == 1 and len(word) < length else None

    def switches(self, rows: Sequence[Row], listed: Listed) -> str | None:
        """Return the word for the ports of switches in *rows*, without their numbers.

        None if the port numbers differ, if a switch has no port in *rows*, if the names themselves are short, if there
        are few switches, or if two nodes have one GUID.
        """
        own = [row for row in rows if row["node_type"] == "switch"]
        numbers: dict[str, set[int]] = {}
        for row in own:
            numbers.setdefault(row["node_guid"], set()).add(row["port"])
        are_equal = all(each == numbers[own[0]["node_guid"]] for each in numbers.values())
        if not are_equal or numbers.keys() != self._switches or length_of(listed(own)) <= LONG:
            return None
        return f"{ALL}{len(numbers):,} switches"

    @cached_property
    def _hosts(self) -> set[Place]:
        """The ports of all hosts in the sheet. Empty if a host's port is missing from the sheet, if there are few
        hosts, or if two nodes have one GUID.
        """
        found = {place for place, row in self._sheet.items() if row["node_type"] == "ca"}
        reached = {(_guid(port.node), port.num) for port in self._fabric.end_ports() if port.node.type_name == "ca"}
        return found if reached <= found and len(_nodes(found)) >= _LEAST and self._are_different else set()

    @cached_property
    def _switches(self) -> set[str]:
        found = {_guid(node) for node in self._fabric.nodes if node.is_switch}
        return found if len(found) >= _LEAST and self._are_different else set()

    @property
    def _are_different(self) -> bool:
        """Whether no two nodes report the same GUID."""
        return len({node.guid for node in self._fabric.nodes}) == len(self._fabric.nodes)


def place_of(row: Row) -> Place:
    """Return NodeGUID and port number, as a row has them."""
    return row["node_guid"], row["port"]


def length_of(words: Iterable[str]) -> int:
    """Return the number of characters of *words*, each with a blank after it."""
    return sum(len(word) + 1 for word in words)


def _nodes(places: Iterable[Place]) -> set[str]:
    return {guid for guid, _ in places}


def _guid(node: Node) -> str:
    return f"0x{node.guid:016x}"

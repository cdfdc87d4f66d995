"""Short names for many ports together: ``stage[1-48] mlx5_0``, ``leaf1 port 1-18``.

A word names ports: folded host names (ClusterShell's sets), the device part of the node description, and the port
numbers where the nodes have several ports here. Where a name repeats, is missing, or holds what a folded set cannot,
the GUIDs of the nodes stand beside it. So every port is named, and unfolding gives each of them back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ibkeys.printable import clean
from ibkeys.topology.name_patterns import folded

Row = Mapping[str, Any]
"""The keys that every port carries in every document (`Port.identity`), whatever stands beside them."""

_TAME: Final = re.compile(r"(?!.* port \d)[A-Za-z0-9._:;/+-]+(?: [A-Za-z0-9._:;/+ -]+)?")
"""Node descriptions that a folded set can hold; a node may call itself anything."""
_TAME_DEVICE: Final = re.compile(r"[A-Za-z0-9._-]+")
"""Devices of which a folded set can hold several."""
_DIGITS: Final = re.compile(r"(\d+)")


class FoldedNames:
    """How the ports of a sheet are called. *rows*: all of them, so that what repeats is known."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._nodes: dict[str, set[str]] = {}
        self._ports: dict[str, set[int]] = {}
        for row in rows:
            self._nodes.setdefault(row["node_desc"] or "", set()).add(row["node_guid"])
            self._ports.setdefault(row["node_guid"], set()).add(row["port"])

    def words(self, rows: Iterable[Row]) -> list[str]:
        """Return *rows* as few words, hosts before switches, in natural order; every port is in one of them."""
        ports: dict[str, set[int]] = {}
        first: dict[str, Row] = {}
        for row in sorted(rows, key=in_order):
            ports.setdefault(row["node_guid"], set()).add(row["port"])
            first.setdefault(row["node_guid"], row)
        sets: dict[tuple[bool, str, str], list[str]] = {}
        alone: dict[tuple[bool, str, str], list[str]] = {}
        for guid, row in first.items():
            numbers = self._numbers(row, ports[guid])
            name = row["node_desc"] or ""
            if _TAME.fullmatch(name) and len(self._nodes[name]) == 1:
                host, _, device = name.partition(" ")
                sets.setdefault((row["node_type"] == "switch", device, numbers), []).append(host)
            else:
                alone.setdefault((row["node_type"] == "switch", clean(name), numbers), []).append(guid)
        return _named(sets) + [
            f"{name} ({','.join(guids)})".strip() + numbers for (_, name, numbers), guids in alone.items()
        ]

    def called(self, row: Row) -> str:
        """Return what the node of a port is called: its name, with its GUID beside it where the name repeats."""
        name, guid = row["node_desc"] or "", row["node_guid"]
        if not name:
            return str(guid)
        return clean(name) if len(self._nodes.get(name, ())) < 2 else f"{clean(name)} ({guid})"

    def port(self, row: Row) -> str:
        """Return what one port is called: its node and its number."""
        return f"{self.called(row)} port {row['port']}"

    def _numbers(self, row: Row, ports: set[int]) -> str:
        if row["node_type"] != "switch" and self._ports[row["node_guid"]] == ports and len(ports) == 1:
            return ""
        return f" port {ranges(sorted(ports))}"


def _named(sets: Mapping[tuple[bool, str, str], Sequence[str]]) -> list[str]:
    """Return words for hosts by (whether they are switches, device, port numbers): devices that the same hosts have,
    all of them with the same numbers, are one word."""
    devices: dict[tuple[bool, str, tuple[str, ...], str], list[str]] = {}
    for (is_switch, device, numbers), hosts in sets.items():
        apart = "" if _TAME_DEVICE.fullmatch(device) else device
        devices.setdefault((is_switch, numbers, tuple(hosts), apart), []).append(device)
    return [
        f"{_folded(hosts)} {_folded(alike)}".rstrip() + numbers for (_, numbers, hosts, _), alike in devices.items()
    ]


def _folded(names: Sequence[str]) -> str:
    return folded(names) if len(names) > 1 else names[0]


def in_order(row: Row) -> tuple[Any, ...]:
    """Return what sorts ports for people: hosts before switches, names in natural order."""
    rank = 0 if row["node_type"] != "switch" else 1
    return rank, natural(row["node_desc"] or ""), row["node_guid"], row["port"]


def natural(name: str) -> list[tuple[int, int, str]]:
    """Return what sorts *name* as people do: 2 before 10."""
    return [(0, int(part), part) if part.isdecimal() else (1, 0, part) for part in _DIGITS.split(name) if part]


def ranges(numbers: Sequence[int]) -> str:
    """Return numbers as ``1-3,7``."""
    from ClusterShell.RangeSet import RangeSet

    return str(RangeSet.fromlist([str(number) for number in numbers]))

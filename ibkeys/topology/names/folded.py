"""Short names for many ports together: ``stage[1-48] mlx5_0``, ``leaf1 port 1-18``.

A word names ports: folded host names (`ibkeys.topology.names.sets`), the device part of the node description, and the
port numbers where the nodes have several ports here. Where a name repeats, is missing, or holds characters that a
folded set cannot, the GUIDs of the nodes follow it; of many GUIDs the common part is written once:
``0x78e7d1030022[9794,977c]``. Where the numbers of switch ports would be long, their links name them if that is
shorter: ``leaf ports of stage[1-48] mlx5_0`` are the switch ports that these hosts are linked to, ``stage[1-48] mlx5_0
and their leaf ports`` are both, and ``leaf[1-32] ports to switches`` are all such ports of the 32. So every port is
named, and unfolding gives each back. All hosts or all switches of a fabric have a word of their own
(`ibkeys.topology.names.all_of_a_type`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from ibkeys.grouping import grouped
from ibkeys.printable import clean
from ibkeys.topology.names import sets as name_sets
from ibkeys.topology.names.all_of_a_type import ALL, AllOfAType, Place, length_of, place_of

if TYPE_CHECKING:
    from ibkeys.topology.nodes import Node, Port
    from ibkeys.topology.searched_fabric import SearchableFabric

Row = Mapping[str, Any]
"""The keys that every port carries in every document (`Port.identity`), with any others."""

_LEAF_PORTS: Final = "leaf ports of "
_AND_ITS_LEAF_PORT: Final = " and its leaf port"
_AND_THEIR_LEAF_PORTS: Final = " and their leaf ports"
_TAME: Final = re.compile(
    r"(?!.*(?: port \d| ports (?:to|without|of) |leaf ports?)|all |(?:[0-9]+|0[xX][^ ]*)\Z)"
    r"[A-Za-z0-9._:;/+-]+(?: [A-Za-z0-9._:;/+# -]+)?"
)
"""The form of node descriptions that a folded set can hold; a node may have any text. One that reads as a LID or GUID
is not of this form."""
_TAME_DEVICE: Final = re.compile(r"[A-Za-z0-9._-]+")
"""The form of devices of which a folded set can hold several."""
_DIGITS: Final = re.compile(r"(\d+)")
_SHORT: Final = 160
"""Names of at most so many characters, two lines of a terminal, keep the numbers of switch ports."""
FEW_GUIDS: Final = 4
"""Up to so many GUIDs after a name are written in full."""
_VENDOR: Final = len("0x") + 6
"""The length of ``0x`` and the digits of a GUID that identify its vendor: only GUIDs with these in common are
folded."""


class FoldedNames:
    """The names of the ports in a sheet.

    *rows*: all ports, so that repeated names are known. *fabric*: their fabric: a name that repeats anywhere in it
    counts as repeated, and its links may name switch ports.
    """

    def __init__(self, rows: Iterable[Row], fabric: SearchableFabric | None = None) -> None:
        self._nodes: dict[str, set[str]] = {}
        self._ports: dict[str, set[int]] = {}
        self._sheet: dict[Place, Row] = {}
        for row in rows:
            self._sheet[place_of(row)] = row
            self._nodes.setdefault(row["node_desc"] or "", set()).add(row["node_guid"])
            self._ports.setdefault(row["node_guid"], set()).add(row["port"])
        self._fabric = fabric
        for node in fabric.nodes if fabric is not None else ():
            self._nodes.setdefault(node.description or "", set()).add(f"0x{node.guid:016x}")

    def words(self, rows: Iterable[Row]) -> list[str]:
        """Return *rows* as few words, hosts before switches, in natural order; every port is named by one of them."""
        forms = self.forms(rows)
        numbered = next(forms)
        return numbered if length_of(numbered) <= _SHORT else min((numbered, *forms), key=length_of)

    def forms(self, rows: Iterable[Row]) -> Iterator[list[str]]:
        """Yield *rows* as words in every available form: first with all numbers and GUIDs, then, if the fabric is
        known, in forms that are shorter where nodes and ports are many."""
        ordered = sorted(rows, key=in_order)
        hosts, left, switches = self._split(ordered)
        yield [*hosts, *self.with_numbers(left, ",".join), *switches]
        if self._fabric is None:
            return
        for first, others, last in ((hosts, left, switches), *self._links.by_hosts(ordered)):
            yield [*first, *self.with_numbers(others, _folded_guids), *last]
            yield [*first, *self._words(others, self._kinds, _folded_guids), *last]

    def whole_or_named(self, rows: Iterable[Row]) -> list[str]:
        """Return the words for *rows*, in order, where the word for all hosts has no exceptions."""
        hosts, left, switches = self._split(list(rows), exceptions=False)
        return [*hosts, *self.with_numbers(left, _folded_guids), *switches]

    def _split(self, rows: Sequence[Row], exceptions: bool = True) -> tuple[list[str], list[Row], list[str]]:
        """Return the word for all hosts, if *rows* have them, the rows that no word names, and the word for all
        switches.

        *exceptions*: a few hosts may be left out.
        """
        if self._everyone is None:
            return [], list(rows), []
        hosts = self._everyone.hosts(rows, self._listed, exceptions)
        switches = self._everyone.switches(rows, self._listed)
        numbers = ranges(sorted({row["port"] for row in rows if _is_switch(row)})) if switches is not None else ""
        named = {"ca": hosts, "switch": switches}
        left = [row for row in rows if named.get(row["node_type"]) is None]
        return (
            [hosts] if hosts is not None else [],
            left,
            [f"{switches} port {numbers}"] if switches is not None else [],
        )

    def _listed(self, rows: Iterable[Row]) -> list[str]:
        return self.with_numbers(sorted(rows, key=in_order), _folded_guids)

    @cached_property
    def _everyone(self) -> AllOfAType | None:
        return AllOfAType(self._sheet, self._fabric, self._is_alone) if self._fabric is not None else None

    def _is_alone(self, row: Row) -> bool:
        """Return whether no other node has the name of a port's node, and a folded set can hold that name."""
        name = row["node_desc"] or ""
        return _TAME.fullmatch(name) is not None and len(self._nodes[name]) == 1

    def with_numbers(self, rows: Iterable[Row], guids_of: Callable[[Sequence[str]], str]) -> list[str]:
        """Return *rows*, in order, as words in which every port of a switch has its number.

        *guids_of*: returns GUIDs in the form that follows a name.
        """
        return self._words(rows, self._numbers, guids_of)

    def called(self, row: Row) -> str:
        """Return the name of a port's node, followed by its GUID if the name repeats; its GUID if it has no name."""
        name, guid = row["node_desc"] or "", row["node_guid"]
        if not name:
            return str(guid)
        return clean(name) if len(self._nodes.get(name, ())) < 2 else f"{clean(name)} ({guid})"

    def port(self, row: Row) -> str:
        """Return the name of one port: its node and its number."""
        return f"{self.called(row)} port {row['port']}"

    def _words(
        self,
        rows: Iterable[Row],
        labels: Callable[[Row, set[int]], Iterable[str]],
        guids_of: Callable[[Sequence[str]], str],
    ) -> list[str]:
        """Return *rows*, in order, as words.

        *labels*: returns the words after the name of a node for these of its ports; *guids_of*: returns GUIDs in the
        form that follows a name.
        """
        ports: dict[str, set[int]] = {}
        first: dict[str, Row] = {}
        for row in rows:
            ports.setdefault(row["node_guid"], set()).add(row["port"])
            first.setdefault(row["node_guid"], row)
        sets: dict[tuple[bool, str, str], list[str]] = {}
        alone: dict[tuple[bool, str, str], list[str]] = {}
        for guid, row in first.items():
            name, is_switch = row["node_desc"] or "", _is_switch(row)
            for label in labels(row, ports[guid]):
                if self._is_alone(row):
                    host, _, device = name.partition(" ")
                    sets.setdefault((is_switch, device, label), []).append(host)
                else:
                    alone.setdefault((is_switch, _quoted(name), label), []).append(guid)
        return _named(sets) + [
            f"{name} ({guids_of(guids)})".strip() + label for (_, name, label), guids in alone.items()
        ]

    def _numbers(self, row: Row, ports: set[int]) -> Iterator[str]:
        """Yield the numbers of *ports* of a node as text; "" if the node is no switch and has just this port."""
        is_one = not _is_switch(row) and self._ports[row["node_guid"]] == ports and len(ports) == 1
        yield "" if is_one else f" port {ranges(sorted(ports))}"

    def _kinds(self, row: Row, ports: set[int]) -> Iterator[str]:
        """Yield the kinds of link whose ports of a switch are all in *ports*, then the numbers of the other ports."""
        left = set(ports)
        if "," in ranges(sorted(ports)):
            for kind, own in self._links.kinds.get(row["node_guid"], {}).items():
                if own <= left:
                    left -= own
                    yield f" ports {kind}"
        if left:
            yield from self._numbers(row, left)

    @cached_property
    def _links(self) -> _Links:
        assert self._fabric is not None  # without a fabric no form uses links
        return _Links(self._fabric)


class _Links:
    """The neighbours of the external ports of switches. Nodes whose GUID another node reports too are left out.

    ``kinds``: switch → kind of neighbour → all of its ports of that kind.
    """

    def __init__(self, fabric: SearchableFabric) -> None:
        nodes = fabric.nodes
        reported = Counter(node.guid for node in nodes)
        self._known = {node for node in nodes if reported[node.guid] == 1}
        self._hosts: dict[Place, Row] = {}
        self.kinds: dict[str, dict[str, set[int]]] = {}
        for node in nodes:
            if node.is_switch and node in self._known:
                self._add(node)
        ports = (port for node in nodes for port in node.ports.values())
        self._names = FoldedNames(
            (port.identity() for port in ports if (port.num == 0 if port.node.is_switch else port.peer is not None)),
            fabric,
        )

    def _add(self, switch: Node) -> None:
        guid = f"0x{switch.guid:016x}"
        kinds = self.kinds[guid] = {}
        for number in range(1, switch.num_ports + 1):
            port = switch.ports.get(number)
            kind = _kind(port) if port is not None else None
            if kind is not None:
                kinds.setdefault(kind, set()).add(number)
            peer = port.peer if port is not None else None
            if peer is not None and not peer.node.is_switch and peer.node in self._known and peer.peer is port:
                self._hosts[guid, number] = peer.identity()

    def by_hosts(self, rows: Sequence[Row]) -> Iterator[tuple[list[str], list[Row], list[str]]]:
        """Yield at most one triple: words for the leaf ports in *rows*, by the hosts that they are linked to; the
        remaining rows; an empty list.

        A word also names these hosts if they are among *rows*. Nothing is yielded if there is no leaf port.
        """
        facing = {place_of(host): host for row in rows if (host := self._hosts.get(place_of(row))) is not None}
        if not facing:
            return
        both = {place for row in rows if (place := place_of(row)) in facing}
        hosts = sorted(facing.values(), key=in_order)
        words = [
            word + (_AND_THEIR_LEAF_PORTS if re.search(rf"[\[,]|^{ALL}", word) else _AND_ITS_LEAF_PORT)
            for word in self._names.whole_or_named(host for host in hosts if place_of(host) in both)
        ]
        words += [
            _LEAF_PORTS + word
            for word in self._names.whole_or_named(host for host in hosts if place_of(host) not in both)
        ]
        yield words, [row for row in rows if place_of(row) not in both and place_of(row) not in self._hosts], []


def _kind(port: Port) -> str | None:
    """Return the kind of neighbour that a port has; None if the neighbour is not known."""
    if port.peer is not None:
        return "to switches" if port.peer.node.is_switch else "to hosts"
    return "without a link" if port.info is not None and not port.is_linked else None


def _quoted(name: str) -> str:
    """Return the name of a node whose GUID follows it, quoted so that it cannot be read as other ports."""
    return f"'{clean(name)}'" if name.startswith((_LEAF_PORTS, ALL)) else clean(name)


def _folded_guids(guids: Sequence[str]) -> str:
    """Return GUIDs as text. Many GUIDs of one vendor become one set: ``0x78e7d1030022[9794,977c]``."""
    if len(guids) <= FEW_GUIDS:
        return ",".join(guids)
    vendors = grouped(sorted(guids), lambda guid: guid[:_VENDOR])
    return ",".join(map(_one_set, vendors.values()))


def _one_set(guids: Sequence[str]) -> str:
    """Return *guids*, sorted and all different, as one set."""
    if len(guids) == 1:
        return guids[0]
    first, last = guids[0], guids[-1]
    shared = first[: next(at for at, pair in enumerate(zip(first, last, strict=True)) if len(set(pair)) > 1)]
    return f"{shared}[{','.join(guid[len(shared) :] for guid in guids)}]"


def _named(sets: Mapping[tuple[bool, str, str], Sequence[str]]) -> list[str]:
    """Return the words for *sets*, which has names of hosts by (whether they are switches, device, port numbers).
    Devices with the same hosts and the same port numbers are joined to one word."""
    devices: dict[tuple[bool, str, tuple[str, ...], str], list[str]] = {}
    for (is_switch, device, numbers), hosts in sets.items():
        apart = "" if _TAME_DEVICE.fullmatch(device) else device
        devices.setdefault((is_switch, numbers, tuple(hosts), apart), []).append(device)
    return [
        f"{_folded(hosts)} {_folded(alike)}".rstrip() + numbers for (_, numbers, hosts, _), alike in devices.items()
    ]


def _folded(names: Sequence[str]) -> str:
    return name_sets.fold(names) if len(names) > 1 else names[0]


def _is_switch(row: Row) -> bool:
    return bool(row["node_type"] == "switch")


def in_order(row: Row) -> tuple[Any, ...]:
    """Return the sort key of a port: hosts before switches, names in natural order."""
    rank = 1 if _is_switch(row) else 0
    return rank, natural(row["node_desc"] or ""), row["node_guid"], row["port"]


def natural(name: str) -> list[tuple[int, int, str]]:
    """Return the sort key of *name* in natural order: 2 before 10."""
    return [(0, int(part), part) if part.isdecimal() else (1, 0, part) for part in _DIGITS.split(name) if part]


def ranges(numbers: Iterable[int]) -> str:
    """Return numbers as ``1-3,7``."""
    return name_sets.ranges({str(number) for number in numbers})

"""Looking up the end ports of a fabric by GUID, LID, host name, or the switch port that they are linked to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from ibkeys.client.address import parse_guid, parse_guids, parse_lid
from ibkeys.errors import AddressError
from ibkeys.keys.guid import is_spelled_as_guid
from ibkeys.printable import clean, counted, named
from ibkeys.similar_names import did_you_mean_any, did_you_mean_one_of, split_description
from ibkeys.topology.model import Topology
from ibkeys.topology.names.folded import natural
from ibkeys.topology.names.patterns import is_wild, parse_pattern, wildcard
from ibkeys.topology.names.sets import fold
from ibkeys.topology.nodes import Node, Port

_NEAR: Final = 5
_TWINS: Final = 8
_SWITCH_PORT: Final = re.compile(r"(.+):([0-9]{1,3})", re.DOTALL)
_TAME: Final = re.compile(r"[A-Za-z0-9._-]+")
"""The form of names that a folded set can hold; a NodeDescription may hold any text."""


def _place(port: Port) -> tuple[Any, ...]:
    node = port.node
    return node.is_switch, natural(node.description or ""), node.guid, port.num


class NoPortFound(AddressError):
    """No port was found for a word. ``words``: the words or names that were not found; ``hint``: the end of the
    message, with similar names."""

    def __init__(self, message: str, words: tuple[str, ...], hint: str = "") -> None:
        super().__init__(f"{message}{hint}")
        self.without_hint, self.words, self.hint = message, words, hint

    def advised(self, advice: str) -> NoPortFound:
        """Return this error with *advice* before the similar names."""
        return NoPortFound(f"{self.without_hint}; {advice}", self.words, self.hint)


class Directory:
    """The end ports of *fabric* that a link reaches, to be looked up by words. Sends nothing."""

    def __init__(self, fabric: Topology) -> None:
        self.fabric = fabric
        self.ports = sorted(fabric.end_ports(), key=_place)
        self.by_description: dict[str, list[Port]] = {}
        self.by_host: dict[str, list[Port]] = {}
        for port in self.ports:
            description = port.node.description
            if description:
                self.by_description.setdefault(description, []).append(port)
                self.by_host.setdefault(split_description(description)[0], []).append(port)

    def find(self, word: str) -> list[Port]:
        """Return the end ports that *word* names: hosts before switches, names in natural order.

        The form of *word* decides. ``0x`` with more than four digits, or groups of four digits as in sysfs, is a port
        or node GUID, or a set of GUIDs in the form that ibkeys prints. A decimal number is a LID. ``NAME:3`` is the end
        port linked to port 3 of the switch with that name or GUID, or port 0 of a switch that is linked there. Anything
        else is a name (`ibkeys.topology.names.patterns`). If *word* is a set, every name or GUID of the set must be
        found.

        A node chooses its description, so that does not get it a word of another form, and not alone a host's name that
        others have. Otherwise a whole description is taken as it is.

        Raises NoPortFound, with similar names; AddressError for an invalid GUID, LID or pattern, and for a name of
        several switches before ``:3``.
        """
        if is_spelled_as_guid(word) and (" " not in word or word not in self.by_description):
            return self._by_guids(word)
        if word.isascii() and word.isdigit():
            port = self.fabric.find_lid(parse_lid(word).lid)
            return self._or_not_found([port] if port is not None else [], word)
        behind = self._behind_switch_port(word)
        if behind is not None:
            return behind
        described = self.by_description.get(word)
        if described is None:
            return self._by_pattern(word)
        return sorted({*described, *self.by_host.get(word, ())}, key=_place)

    def find_all(self, words: Iterable[str]) -> dict[str, list[Port]]:
        """Return the ports of each of *words*. Raises NoPortFound, which names all words that were not found;
        AddressError."""
        found: dict[str, list[Port]] = {}
        missing: list[NoPortFound] = []
        for word in words:
            try:
                found[word] = self.find(word)
            except NoPortFound as error:
                missing.append(error)
        if missing:
            words_missing = tuple(word for error in missing for word in error.words)
            raise missing[0] if len(missing) == 1 else NoPortFound("; ".join(map(str, missing)), words_missing)
        return found

    def switch_port(self, port: Port) -> str | None:
        """Return a word with which `find` finds *port* by the switch port that it is linked to. The word has the
        switch's name, or its GUID if other nodes have the same name. None if *port* is linked to no switch.
        """
        peer = port.peer
        if peer is None or not peer.is_external:
            return None
        name = peer.node.description or ""
        is_unique = {each.node for each in self.by_description.get(name, ())} == {peer.node}
        return f"{name if is_unique else f'0x{peer.node.guid:016x}'}:{peer.num}"

    def _by_guids(self, word: str) -> list[Port]:
        found = {address: self.fabric.find_guid(address.guid) for address in parse_guids(word)}
        missing = [f"0x{address.guid:016x}" for address, ports in found.items() if not ports]
        if missing:
            raise self._not_found([], named(missing) if len(found) > 1 else word)
        return sorted(dict.fromkeys(port for ports in found.values() for port in ports), key=_place)

    def _by_pattern(self, word: str) -> list[Port]:
        pattern = parse_pattern(word)
        found: dict[Port, None] = {}
        missing = []
        for host in pattern.hosts:
            there = self._of_host(host)
            if pattern.devices is not None:
                devices = [wildcard(device) for device in pattern.devices]
                there = [port for port in there if _has_device(port, devices)]
            found.update(dict.fromkeys(there))
            if not there:
                missing.append(host)
        if missing:
            raise self._not_found(missing, _as_one_word(missing, word) if len(pattern.hosts) > 1 else word)
        order = {port: at for at, port in enumerate(self.ports)}
        return sorted(found, key=order.__getitem__)

    def _of_host(self, name: str) -> list[Port]:
        if not is_wild(name):
            return self.by_host.get(name, [])
        expression = wildcard(name)
        return [port for host, ports in self.by_host.items() if expression.fullmatch(host) for port in ports]

    def _behind_switch_port(self, word: str) -> list[Port] | None:
        """Return the end ports linked to the switch port that *word* names; None if it does not name a switch."""
        match = _SWITCH_PORT.fullmatch(word)
        if match is None:
            return None
        switches = self._switches(match[1])
        if not switches:
            return None
        if len(switches) > 1:
            raise AddressError(f"{match[1]!r} is the name of {len(switches)} switches: {guids_of(switches)}")
        port = switches[0].ports.get(int(match[2]))
        peer = port.peer if port is not None else None
        if port is None or port.num == 0 or peer is None:
            raise NoPortFound(f"{word!r}: nothing is linked to that port, or the far end was not read", (word,))
        return [peer.end_port]

    def _switches(self, name: str) -> list[Node]:
        if name.lower().startswith("0x") or is_spelled_as_guid(name):
            ports = self.fabric.find_guid(parse_guid(name).guid)
        else:
            ports = self.by_description.get(name) or self.by_host.get(name, [])
        return [port.node for port in ports if port.node.is_switch]

    def _or_not_found(self, ports: list[Port], word: str) -> list[Port]:
        if not ports:
            raise self._not_found([], word)
        return ports

    def _not_found(self, hosts: Sequence[str], word: str) -> NoPortFound:
        there = {port.node.description or "" for host in hosts for port in self.by_host.get(host, ())}
        if there:  # the host is there, and has no such device
            hint = did_you_mean_one_of(sorted(there, key=natural), _NEAR)
        else:
            hint = did_you_mean_any([] if is_wild(word) else hosts[:_NEAR], self.by_host, _NEAR)
        troubles = len(self.fabric.troubles)
        if troubles:
            hint += f" ({counted(troubles, 'port')} could not be read: see discover)"
        kind = "GUID" if word.startswith("0x") else "name"
        return NoPortFound(f"{clean(word)!r}: nothing that was read has this {kind}", tuple(hosts) or (word,), hint)


def require_distinct(ports: Iterable[Port]) -> None:
    """Raise AddressError if several nodes have the name of one of *ports*, so that it is not clear which node is meant.

    *ports*: all ports that a name was found to mean.
    """
    nodes: dict[str, dict[Node, None]] = {}
    for port in ports:
        nodes.setdefault(port.node.description or "", {})[port.node] = None
    for name, twins in nodes.items():
        if len(twins) > 1:
            raise AddressError(f"{clean(name)!r} is the name of {len(twins)} nodes: {guids_of(list(twins))}")


def guids_of(nodes: Sequence[Node]) -> str:
    """Return the GUIDs of *nodes* as text, for a message that asks which node was meant; with their names if they
    differ."""
    names = [f"{clean(node.description)!r} " if node.description else "" for node in nodes]
    if len({*names}) == 1:
        names = [""] * len(nodes)
    listed = ", ".join(
        f"{name}0x{node.guid:016x} ({node.type_name})" for name, node in list(zip(names, nodes, strict=True))[:_TWINS]
    )
    more = f" and {len(nodes) - _TWINS} more (all of them: names)" if len(nodes) > _TWINS else ""
    return f"{listed}{more}; name them by their GUIDs"


def _as_one_word(hosts: Sequence[str], word: str) -> str:
    """Return those *hosts* of the set of names *word* with the device that *word* has."""
    names = fold(hosts) if all(map(_TAME.fullmatch, hosts)) else named(hosts)
    device = split_description(word)[1]
    return names if device is None else f"{names} {device}"


def _has_device(port: Port, devices: Sequence[re.Pattern[str]]) -> bool:
    device = split_description(port.node.description or "")[1]
    return device is not None and any(expression.fullmatch(device) for expression in devices)

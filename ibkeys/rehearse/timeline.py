"""The order in which the tables of the copy change, and the pairs of ports that are cut off or connected meanwhile.

A pair of end ports counts as cut at a moment if its ports can talk before the change and after it, and cannot at that
moment; as open if they can at that moment only. The P_Keys of both ports and the checks of the switch ports that face
them decide, as in `ibkeys.reach`; enforcement on links between switches is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from ibkeys.keys.pkey import InboundCheck
from ibkeys.reach.forms import PortForms, Standing, forms_of, forms_passing_port
from ibkeys.rehearse.tables import PortTables, Tables, tables_of_port
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.subnet import Subnet
from ibkeys.topology.port_id import PortKey


class TableWrite(NamedTuple):
    """One Set that changed the P_Keys, the enforcement or the M_Key of a port. ``seconds``: on the clock of
    `time.monotonic`."""

    seconds: float
    key: PortKey
    tables: PortTables


class Moment(NamedTuple):
    """The state after one `TableWrite`. ``cut``, ``open``: how many pairs of end ports are cut or open then."""

    seconds: float
    key: PortKey
    cut: int
    open: int


def moments(
    subnet: Subnet,
    before: Tables,
    writes: Sequence[TableWrite],
    started: float,
    check: InboundCheck,
    after: Tables | None = None,
) -> list[Moment]:
    """Return the state after each of *writes*, which follow on *before*. *started*: when the change began, on the clock
    of `time.monotonic`; *check*: how switches compare memberships inbound. *after*: the tables to which the change
    leads; None: those after the last write."""
    first, last = (_Pairs(subnet, tables, check) for tables in (before, after or written(before, writes)))
    now = _Pairs(subnet, before, check)
    cut = opened = 0
    found = []
    for write in writes:
        end = now.end_of.get(write.key)
        if end is not None:
            was, will = first.talking(end), last.talking(end)
            old = now.talking(end)
            now.write(write.key, write.tables)
            new = now.talking(end)
            cut += (was & will & ~new).bit_count() - (was & will & ~old).bit_count()
            opened += (new & ~was & ~will).bit_count() - (old & ~was & ~will).bit_count()
        found.append(Moment(round(write.seconds - started, 3), write.key, cut, opened))
    return found


def written(before: Tables, writes: Iterable[TableWrite]) -> dict[PortKey, PortTables]:
    """Return the tables *before* as *writes* leave them."""
    return {**before, **{write.key: write.tables for write in writes}}


def seconds_with(course: Sequence[Moment], name: Literal["cut", "open"], ended: float) -> float:
    """Return for how many seconds any pair was cut, or open. *ended*: the seconds from the start to the end."""
    ends = [*(each.seconds for each in course[1:]), ended]
    return sum(end - each.seconds for each, end in zip(course, ends, strict=False) if getattr(each, name))


def cut_pairs(
    subnet: Subnet, before: Tables, now: Tables, after: Tables, check: InboundCheck
) -> Iterator[tuple[PortKey, PortKey]]:
    """Yield the pairs of end ports that can talk by the tables *before* and *after*, and cannot *now*."""
    first, middle, last = (_Pairs(subnet, tables, check) for tables in (before, now, after))
    for end, key in enumerate(first.keys):
        cut = (first.talking(end) & last.talking(end) & ~middle.talking(end)) >> end
        yield from ((key, other) for offset, other in enumerate(first.keys[end:]) if cut >> offset & 1)


def largest_count(course: Iterable[Moment], name: Literal["cut", "open"]) -> int:
    """Return the largest number of pairs that were cut, or open, at once."""
    return max((getattr(each, name) for each in course), default=0)


class _Pairs:
    """Which end ports can talk, kept up to date with each write. A set of end ports is a number with a bit for each.

    ``end_of``: by end port, and by the switch port that faces one: the number of the end port.
    """

    def __init__(self, subnet: Subnet, tables: Tables, check: InboundCheck) -> None:
        self._tables, self._check = dict(tables), check
        self.end_of: dict[PortKey, int] = {}
        self._ports: list[tuple[PortKey, PortKey | None]] = []
        for node in {node.guid: node for node in reversed(subnet.nodes)}.values():
            for port in node.end_ports:
                key, leaf = (node.guid, port.number), None
                if port.peer is not None and port.peer.node.is_switch and not node.is_switch:
                    leaf = port.peer.node.guid, port.peer.number
                    self.end_of[leaf] = len(self._ports)
                self.end_of[key] = len(self._ports)
                self._ports.append((key, leaf))
        self._forms: list[dict[int, PortForms]] = [{} for _ in self._ports]
        self._members: dict[int, dict[PortForms, int]] = {}
        for end in range(len(self._ports)):
            self._place(end)

    @property
    def keys(self) -> list[PortKey]:
        """The end ports in the order of their numbers."""
        return [key for key, _ in self._ports]

    def write(self, key: PortKey, tables: PortTables) -> None:
        """Give the port *key* its new *tables*."""
        self._tables[key] = tables
        end = self.end_of[key]
        for partition, forms in self._forms[end].items():
            self._members[partition][forms] &= ~(1 << end)
        self._place(end)

    def talking(self, end: int) -> int:
        """Return the end ports with which the end port number *end* can talk, without itself."""
        found = 0
        for partition, mine in self._forms[end].items():
            for other, ports in self._members[partition].items():
                if mine.sends_to(other) and other.sends_to(mine):
                    found |= ports
        return found & ~(1 << end)

    def _place(self, end: int) -> None:
        key, leaf = self._ports[end]
        inbound = outbound = None
        if leaf is not None:
            at_leaf = self._tables[leaf]
            forms = forms_of(at_leaf.p_keys)
            inbound, outbound = (forms if on else None for on in at_leaf.enforcement)
        self._forms[end] = {
            partition: forms_passing_port(
                Standing(holds, _at(inbound, partition), _at(outbound, partition)), self._check
            )
            for partition, holds in forms_of(self._tables[key].p_keys).items()
        }
        for partition, forms_here in self._forms[end].items():
            members = self._members.setdefault(partition, {})
            members[forms_here] = members.get(forms_here, 0) | 1 << end


def _at(forms: dict[int, int] | None, partition: int) -> int | None:
    return None if forms is None else forms.get(partition, 0)


class TableWatch:
    """Notes every change of the P_Keys, the enforcement or the M_Key of a port of *subnet* from now on, an M_Key with
    its level and lease: call `look` after each MAD, in the thread that serves the subnet. ``writes``: the changes in
    their order."""

    def __init__(self, subnet: Subnet) -> None:
        self._subnet = subnet
        self._last = {(node.index, port.number): _state(port) for node in subnet.nodes for port in node.all_ports}
        self.writes: list[TableWrite] = []
        subnet.history.forget_fresh()

    def look(self, seconds: float) -> None:
        """Note the changes since the last call. *seconds*: the time now, on the clock of `time.monotonic`."""
        history = self._subnet.history
        if history.fresh_ports:
            self.writes += self._changed(seconds)
            history.forget_fresh()

    def _changed(self, seconds: float) -> Iterator[TableWrite]:
        for place in sorted(self._subnet.history.fresh_ports):
            node = self._subnet.nodes[place[0]]
            port = node.ports[place[1]]
            now = _state(port)
            if self._last[place] != now:
                self._last[place] = now
                yield TableWrite(seconds, (node.guid, port.number), tables_of_port(port))


def _state(port: SimPort) -> tuple[object, ...]:
    keys = (port.m_key, port.protect_bits, port.lease_period) if port.is_end_port else ()
    return port.p_key_bytes, port.inbound_enforcement, port.outbound_enforcement, *keys

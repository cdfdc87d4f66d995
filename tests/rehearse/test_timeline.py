"""The pairs that are cut or open while tables change, against the same by hand."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from ibkeys.rehearse.tables import PortTables, tables_of
from ibkeys.rehearse.timeline import Moment, TableWatch, TableWrite, cut_pairs, largest_count, moments
from ibkeys.sim.subnet import Subnet
from ibkeys.topology.port_id import PortKey
from tests.fabricsim import subnet

Tables = dict[PortKey, PortTables]
ENTRIES = [0, 0x8010, 0x0010, 0xFFFF, 0x7FFF]


def passes(key: int, table: tuple[int, ...]) -> bool:
    """Whether a table accepts a P_Key: IBA 10.9.3."""
    return any(key & 0x7FFF and not (key ^ each) & 0x7FFF and (key | each) & 0x8000 for each in table)


def talk(net: Subnet, tables: Tables) -> set[frozenset[PortKey]]:
    """Every pair of end ports, by sending each P_Key of one to the other in both directions."""
    ends = [port for node in net.nodes for port in node.end_ports]
    found = set()
    for a, b in combinations(ends, 2):
        ways = []
        for source, target in ((a, b), (b, a)):
            arrived = False
            for key in tables[source.node.guid, source.number].p_keys:
                gets = bool(key & 0x7FFF) and passes(key, tables[target.node.guid, target.number].p_keys)
                for port, inbound in ((source, True), (target, False)):
                    leaf = port.peer if port.peer is not None and not port.node.is_switch else None
                    if leaf is not None and tables[leaf.node.guid, leaf.number].enforcement[0 if inbound else 1]:
                        gets = gets and passes(key, tables[leaf.node.guid, leaf.number].p_keys)
                arrived = arrived or gets
            ways.append(arrived)
        if all(ways):
            found.add(frozenset({(a.node.guid, a.number), (b.node.guid, b.number)}))
    return found


def same_partition_only(entries: list[int]) -> tuple[int, ...]:
    return (*entries, *[0] * (64 - len(entries)))


@st.composite
def writes_of(draw: st.DrawFn) -> list[tuple[int, tuple[int, ...], tuple[bool, bool]]]:
    one = st.tuples(
        st.integers(0, 40),
        st.lists(st.sampled_from(ENTRIES), max_size=3).map(same_partition_only),
        st.tuples(st.booleans(), st.booleans()),
    )
    return draw(st.lists(one, max_size=8))


@given(writes_of())
def test_each_moment_is_as_by_hand(drawn: list[tuple[int, tuple[int, ...], tuple[bool, bool]]]) -> None:
    net = subnet("two-switch")
    before = tables_of(net)
    keys = sorted(before)
    state: Tables = dict(before)
    writes, states = [], []
    for number, entries, bits in drawn:
        key = keys[number % len(keys)]
        width = len(state[key].p_keys)
        state[key] = state[key]._replace(p_keys=entries[:width], enforcement=bits)
        writes.append(TableWrite(1.0, key, state[key]))
        states.append(dict(state))
    was, will = talk(net, before), talk(net, state)
    expected = [(len((was & will) - now), len(now - was - will)) for now in (talk(net, each) for each in states)]
    cut = {frozenset(pair) for pair in cut_pairs(net, before, states[0], state, "membership")} if states else set()
    assert cut == ((was & will) - talk(net, states[0]) if states else set())
    found = moments(net, before, writes, 0.5, "membership")
    assert [(each.cut, each.open) for each in found] == expected
    assert {each.seconds for each in found} <= {0.5}


def test_a_watch_notes_each_change_once_and_in_order() -> None:
    net = subnet("two-switch")
    port = net.port("node02 mlx4_0", 1)
    watch = TableWatch(net)
    watch.look(1.0)
    port.p_keys = [0xFFFF, 0x8010, *[0] * 62]
    port.touch()
    watch.look(2.0)
    port.lid = 77
    port.touch()
    watch.look(3.0)
    assert port.peer is not None
    port.peer.inbound_enforcement = True
    port.peer.touch()
    watch.look(4.0)
    leaf = port.peer.node.guid, port.peer.number
    port.m_key = 0x77
    watch.look(5.0)
    port.protect_bits = 2
    watch.look(6.0)
    mine = port.node.guid, 1
    assert [(each.seconds, each.key) for each in watch.writes] == [(2.0, mine), (4.0, leaf), (5.0, mine), (6.0, mine)]


def test_the_most_at_once() -> None:
    course = [Moment(0.1, (1, 1), 3, 0), Moment(0.2, (1, 1), 1, 2)]
    assert (largest_count(course, "cut"), largest_count(course, "open"), largest_count([], "cut")) == (3, 2, 0)

"""An unconfirmed run is lowered only where every port has what the run found or wrote, or cannot be compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ibkeys.errors import Refused, StoreError
from ibkeys.sim.nodes import SimPort
from ibkeys.store.journal import Journal
from tests.mkeys.opensm.madeup import Bench
from tests.mkeys.opensm.stopping import THEN, bench_in, stop_at

SOMEBODY_ELSES = 0x6B2F90C4D1735AE8


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return bench_in(tmp_path, monkeypatch)


def port_of(bench: Bench, name: str = "node03") -> SimPort:
    [node] = [each for each in bench.opensm.net.nodes if each.description.startswith(name)]
    return node.ports[0]


def set_by_hand(port: SimPort, key: int, level: int, lease: int) -> None:
    port.m_key, port.protect_bits, port.lease_period = key, level, lease


def now_on(bench: Bench) -> list[tuple[int, int, int]]:
    return [(port.m_key, port.protect_bits, port.lease_period) for port in bench.opensm.ports()]


def lower_or_refuse(bench: Bench, run: int) -> str:
    """Lower a level; return the interlock that refuses it, or whether there was something to lower."""
    try:
        return "nothing" if bench.lower(run) is None else "lowered"
    except Refused as refused:
        return refused.interlock


def rotate(bench: Bench) -> None:
    bench.deploy(level=1)
    bench.rotate(level=3, confirm=True)


RUNS: dict[str, tuple[int, Callable[[Bench], None]]] = {
    "deploy": (1, lambda bench: bench.deploy(confirm=True)),
    "rotate": (2, rotate),
}


@pytest.mark.parametrize("what", sorted(RUNS))
def test_a_key_that_somebody_else_has_set_since_is_not_overwritten(bench: Bench, what: str) -> None:
    number, make = RUNS[what]
    make(bench)
    set_by_hand(port_of(bench), SOMEBODY_ELSES, 0, 60)
    before, signals = (now_on(bench), bench.opensm.conf.read_bytes()), list[str]()
    bench.opensm.before_each = signals.append
    with pytest.raises(Refused, match=r"1 port has an M_Key.* that this run neither found nor set.*node03") as refused:
        bench.lower(number)
    assert (refused.value.interlock, signals) == ("overtaken", [])
    assert (now_on(bench), bench.opensm.conf.read_bytes()) == before
    with Journal.read(bench.opensm.folder.parent / "journal.db") as journal:
        assert not journal.find(number).goes_back  # it waits for nobody any more
    with pytest.raises(StoreError, match=f"operation {number} was confirmed"):
        bench.lower(number)
    with pytest.raises(Refused) as refused:
        bench.abort()
    assert refused.value.interlock == "overtaken"


@pytest.mark.parametrize("moment", range(0, 14, 3))
@pytest.mark.parametrize("then", sorted(THEN))
def test_nor_where_the_run_was_stopped_on_its_way(bench: Bench, moment: int, then: str) -> None:
    bench.deploy(level=1)
    stop_at(bench, lambda each: each.rotate(level=3, confirm=True), moment)
    THEN[then](bench)
    set_by_hand(port_of(bench), SOMEBODY_ELSES, 0, 60)
    before = now_on(bench), bench.opensm.conf.read_bytes()
    assert lower_or_refuse(bench, 2) in ("nothing", "overtaken")
    assert (now_on(bench), bench.opensm.conf.read_bytes()) == before


def test_a_port_that_lost_its_key_is_nobody_elses(bench: Bench) -> None:
    bench.deploy(confirm=True)
    bench.opensm.net.reset("node03 mlx4_0")
    assert port_of(bench).m_key == 0
    assert bench.lower() is not None
    assert bench.opensm.key()[1:] == (1, 60)


def test_a_port_whose_lease_ran_out_is_nobody_elses(bench: Bench) -> None:
    bench.deploy(confirm=True)
    port_of(bench).protect_bits = 0
    assert bench.lower() is not None
    assert bench.opensm.key()[1:] == (1, 60)


def test_a_port_with_the_former_key_is_nobody_elses(bench: Bench) -> None:
    bench.deploy(level=1)
    former = bench.opensm.key()
    bench.rotate(level=3, confirm=True)
    set_by_hand(port_of(bench), *former)  # it was away while the others got the new key
    assert bench.lower(2) is not None
    key, *rest = bench.opensm.key()
    assert (key != former[0], rest) == (True, [1, 60])


def test_a_port_that_cannot_be_compared_does_not_keep_the_others_high(bench: Bench) -> None:
    bench.deploy(confirm=True)
    port, silent = port_of(bench), port_of(bench, "node04")
    bench.opensm.net.silence("node04 mlx4_0")
    set_by_hand(port, SOMEBODY_ELSES, 1, 60)  # it hides its key, so a real OpenSM would not get in
    lowering = bench.lower()
    assert lowering is not None
    assert set(lowering.unproven) == {port.guid, silent.guid}


def test_a_port_that_moved_is_nobody_elses(bench: Bench) -> None:
    bench.deploy(confirm=True)
    net = bench.opensm.net
    one, other = port_of(bench), port_of(bench, "node05")
    places = [(each, net.unplug(each.node, 1)) for each in (one, other)]
    for (each, _), (_, place) in zip(places, reversed(places), strict=True):
        assert place is not None
        net.plug(each.node, 1, place.node, place.number)
    lowering = bench.lower()
    assert lowering is not None
    assert bench.opensm.key()[1:] == (1, 60)

"""An edit of the options file that OpenSM has not read: no run brings it into force, and no run's own step is one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ibkeys.errors import Refused
from tests.mkeys.opensm.madeup import CONF, Bench
from tests.mkeys.opensm.stopping import THEN, bench_in, go_back, stop_at
from tests.sample import one_in

EDITS = b"force_link_speed 1\n"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return bench_in(tmp_path, monkeypatch)


def edit(bench: Bench) -> bytes:
    """Let somebody edit the file; return what it holds."""
    bench.opensm.conf.write_bytes(bench.opensm.conf.read_bytes() + EDITS)
    bench.opensm.is_unread = True
    return bench.opensm.conf.read_bytes()


NEW: dict[str, Callable[[Bench], None]] = {
    "deploy": Bench.deploy,
    "rotate": Bench.rotate,
    "remove": Bench.remove,
}
EARLIER: dict[str, Callable[[Bench], None]] = {"resume": Bench.resume, "abort": Bench.abort}


def refusal(bench: Bench, run: Callable[[Bench], None]) -> str:
    """Return the interlock that refuses *run*, and that nothing was signalled."""
    signals: list[str] = []
    bench.opensm.before_each = signals.append
    with pytest.raises(
        Refused, match=r"opensm.conf: changed after the last heavy sweep.*: revert it, or check"
    ) as told:
        run(bench)
    assert "The SIGHUP for this change would also activate that edit." in told.value.more
    assert not signals
    bench.opensm.before_each = lambda word: None
    return told.value.interlock


@pytest.mark.parametrize("what", sorted(NEW))
def test_a_new_run_is_refused_and_changes_nothing(bench: Bench, what: str) -> None:
    if what != "deploy":
        bench.deploy()
    ports = bench.opensm.keys()
    text = edit(bench)
    assert refusal(bench, NEW[what]) == "stale"
    assert (bench.opensm.keys(), bench.opensm.conf.read_bytes()) == (ports, text)
    bench.overrides = ["stale"]
    NEW[what](bench)
    assert bench.opensm.keys() != ports


@pytest.mark.parametrize("what", sorted(EARLIER))
def test_so_is_an_earlier_run_on_its_way_where_somebody_edited_the_file_meanwhile(bench: Bench, what: str) -> None:
    assert stop_at(bench, Bench.deploy, 12)
    ports = [(port.m_key, port.protect_bits) for port in bench.opensm.ports()]
    text = edit(bench)
    assert refusal(bench, EARLIER[what]) == "stale"
    assert [(port.m_key, port.protect_bits) for port in bench.opensm.ports()] == ports
    assert bench.opensm.conf.read_bytes() == text


@pytest.mark.parametrize("moment", one_in(6, range(0, 40, 3)))
@pytest.mark.parametrize("what", sorted(EARLIER))
def test_what_a_run_wrote_itself_keeps_it_from_no_way(bench: Bench, what: str, moment: int) -> None:
    bench.opensm.is_unread = False
    bench.deploy(level=1)
    former = bench.opensm.key()
    bench.opensm.is_unread = True  # as its times say right after a step, and after a sweep with errors for ever
    stop_at(bench, lambda each: each.rotate(level=2), moment)
    THEN["finishes its sweep"](bench)
    if what == "abort" and go_back(bench):
        assert bench.opensm.key() == former
    elif bench.run_state() == "open":
        bench.resume()
        assert bench.opensm.key()[1] == 2
    bench.rotate()  # a new run finds what the last one left
    assert bench.opensm.conf.read_bytes().startswith(CONF)


def test_the_level_of_an_unconfirmed_run_is_lowered(bench: Bench) -> None:
    bench.deploy(confirm=True)
    bench.opensm.is_unread = True
    assert bench.lower() is not None
    assert bench.opensm.key()[1:] == (1, 60)

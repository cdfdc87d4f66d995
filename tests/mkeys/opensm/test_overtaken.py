"""Two administrators with two key stores: neither `ibkeys resume` nor `ibkeys undo` of one overwrites what the other
did since."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ibkeys.errors import Refused
from ibkeys.mkeys.opensm import method, planned
from ibkeys.mkeys.rollout.earlier_run import close_overtaken
from tests.mkeys.opensm.madeup import Bench
from tests.mkeys.opensm.stopping import bench_in, stop_at

GOES = {"resume": Bench.resume, "abort": Bench.abort}
KEY_OF_OTHER = b"m_key 0x5d1c93b7a2e4f608\nm_key_protection_level 1\nm_key_lease_period 0\n"


class Died(Exception):
    """The process ended here."""


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return bench_in(tmp_path, monkeypatch)


def die_before_the_first_file(bench: Bench, run: Callable[[Bench], None]) -> None:
    """Let a run end when its keys are stored and no options file has changed yet."""

    def die(*given: object) -> None:
        raise Died

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(method, "KeySteps", die)
        with pytest.raises(Died):
            run(bench)


def somebody_else_sets_a_key(bench: Bench) -> None:
    """Another administrator gives all ports a key through OpenSM."""
    lines = bench.opensm.conf.read_bytes().splitlines(keepends=True)
    bench.opensm.conf.write_bytes(b"".join(line for line in lines if not line.startswith(b"m_key")) + KEY_OF_OTHER)
    bench.opensm.restart()


def state(bench: Bench) -> tuple[object, ...]:
    return bench.opensm.keys(), bench.opensm.conf.read_bytes(), bench.opensm.conf.stat().st_mtime_ns


@pytest.mark.parametrize("goes", GOES)
@pytest.mark.parametrize("what", ["deploy", "rotate", "remove"])
@pytest.mark.parametrize("moment", ["before the first file", "in a step", "ended"])
def test_a_key_that_somebody_else_set_since_is_never_overwritten(
    bench: Bench, what: str, moment: str, goes: str
) -> None:
    run = getattr(Bench, what)
    if what != "deploy":
        bench.deploy()
    if moment == "before the first file":
        die_before_the_first_file(bench, run)
    elif moment == "in a step":
        assert stop_at(bench, run, 6)
    else:
        run(bench)
    somebody_else_sets_a_key(bench)
    before, signals = state(bench), list[str]()
    bench.opensm.before_each = signals.append
    with pytest.raises(Refused, match=r"says another M_Key, level 1, lease 0 s \(changed 20") as caught:
        GOES[goes](bench)
    assert caught.value.interlock == "overtaken"
    assert (" --overtaken` only ends the record" in "".join(caught.value.more)) == (moment != "ended")
    assert (state(bench), signals) == (before, [])
    assert bench.quiet()
    with bench.writer() as writer:
        close_overtaken(writer)
    ends = "done" if moment == "ended" else "undone"
    assert (state(bench), signals, bench.run_state()) == (before, [], ends)
    assert bench.open_operations() == []


def test_a_run_that_wrote_no_file_is_rolled_back_without_a_signal(bench: Bench) -> None:
    bench.deploy()
    die_before_the_first_file(bench, Bench.rotate)
    before, signals = state(bench), list[str]()
    bench.opensm.before_each = signals.append
    bench.abort()
    assert (state(bench), signals, bench.run_state()) == (before, [], "undone")
    bench.rotate()
    assert bench.opensm.key()[1:] == (2, 60)


def test_the_other_store_deploys_and_the_first_one_leaves_it(bench: Bench) -> None:
    die_before_the_first_file(bench, Bench.deploy)
    other = replace(bench, stores="other-")
    other.deploy()
    before = state(bench)
    for go in GOES.values():
        with pytest.raises(Refused, match="another user or program has changed what it set"):
            go(bench)
    assert state(bench) == before
    assert bench.quiet()
    other.rotate()
    assert bench.opensm.key()[1:] == (2, 60)


@pytest.mark.parametrize("what", ["deploy", "rotate", "remove"])
@pytest.mark.parametrize("now", ["another", "former"])
def test_what_has_ended_goes_back_only_while_every_port_holds_its_key(bench: Bench, what: str, now: str) -> None:
    port, former = bench.opensm.ports()[3], 0
    bench.deploy(level=0)
    if what != "deploy":
        former = port.m_key
        getattr(Bench, what)(bench)
    given, port.m_key = port.m_key, 0x5D1C93B7A2E4F608 if now == "another" else former
    before = state(bench)
    with pytest.raises(Refused) as refused:
        bench.abort()
    assert refused.value.interlock == "overtaken"
    assert state(bench) == before
    port.m_key = given
    bench.abort()
    assert bench.run_state() == "undone"


def test_after_first_keys_have_ended_the_way_back_needs_a_word_that_ports_may_be_open(bench: Bench) -> None:
    bench.deploy()
    before = state(bench)
    with pytest.raises(Refused, match=r"8 ports .*leave_open=True") as refused:
        bench.run(planned.plan_return)
    assert refused.value.interlock == "confirmation"
    assert state(bench) == before
    assert stop_at(bench, Bench.abort, 6)
    bench.run(planned.plan_return)  # what was begun is finished without another word
    assert (bench.opensm.key(), bench.run_state()) == ((0, 0, 0), "undone")


def test_a_level_that_nobody_confirmed_is_not_lowered_for_somebody_else(bench: Bench) -> None:
    bench.deploy(confirm=True)
    somebody_else_sets_a_key(bench)
    before = state(bench)
    with pytest.raises(Refused, match="neither be finished nor rolled back"):
        bench.lower()
    assert state(bench) == before

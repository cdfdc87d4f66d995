"""Runs through a made-up OpenSM that are stopped at any moment: forward or back, no port is lost and no key."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ibkeys.change.runner import WAIT
from ibkeys.errors import FileChanged, NotStored, Refused, StoreError
from ibkeys.managers.hosts import SmHost
from ibkeys.mkeys.opensm.planned import plan_removal
from ibkeys.mkeys.planning_options import PlanningOptions, ViaOpensm
from ibkeys.mkeys.rollout.removal import OF_REMOVAL
from ibkeys.sim.nodes import SimPort
from ibkeys.store.journal import Journal
from tests.mkeys.opensm.madeup import CONF, Bench
from tests.mkeys.opensm.stopping import RUNS, THEN, bench_in, go_back, stop_at
from tests.sample import SOAK

NO_KEY = b"m_key 0x0000000000000000\nm_key_protection_level 0\nm_key_lease_period 0\n"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return bench_in(tmp_path, monkeypatch)


def test_no_key_then_one_then_another_then_none(bench: Bench) -> None:
    bench.deploy()
    first = bench.opensm.key()
    assert first[1:] == (2, 60)
    bench.rotate()
    second = bench.opensm.key()
    assert second[1:] == (2, 60)
    assert second[0] not in (0, first[0])
    bench.remove()
    assert bench.opensm.key() == (0, 0, 0)
    assert bench.opensm.conf.read_bytes() == CONF + NO_KEY
    assert bench.quiet()
    assert bench.run_state() == "done"


def test_a_run_through_opensm_is_one_where_no_port_changes_too(bench: Bench) -> None:
    with bench.writer() as writer:
        run = plan_removal(writer, OF_REMOVAL, PlanningOptions(lambda: ViaOpensm([SmHost()], WAIT)))
    assert (run.acts, run.method_name) == (False, "opensm")
    assert not run.pending
    assert {each.reason for each in run.skipped} == {"no M_Key, no level and no lease"}


def test_nothing_to_remove_is_not_said_where_the_options_file_has_a_key(bench: Bench) -> None:
    bench.opensm.conf.write_bytes(CONF + b"m_key 0x0000000000000007\n")
    with bench.writer() as writer, pytest.raises(Refused, match="says another M_Key, but the ports have none"):
        plan_removal(writer, OF_REMOVAL, PlanningOptions(lambda: ViaOpensm([SmHost()], WAIT)))


def test_a_lease_that_opensm_raises_above_its_sweep_interval_is_no_other_setting(bench: Bench) -> None:
    """OpenSM 3.3.23: "Sweep interval 3 >= mkey lease period 2. Setting lease period to 4"."""
    bench.deploy()
    bench.opensm.conf.write_text(bench.opensm.conf.read_text().replace("lease_period 60", "lease_period 2"))
    for port in bench.opensm.ports():
        port.lease_period = 4
    bench.rotate(lease=60)
    assert bench.opensm.key()[1:] == (2, 60)


def test_an_options_file_in_the_layer_of_a_container_is_refused_until_that_is_overridden(bench: Bench) -> None:
    bench.opensm.is_layered = True
    with pytest.raises(Refused, match=r"may lose all of them; .*overrides=.*container-layer") as refused:
        bench.deploy()
    assert refused.value.interlock == "container-layer"
    assert (bench.opensm.key(), bench.opensm.conf.read_bytes()) == ((0, 0, 0), CONF)
    bench.overrides = ["container-layer"]
    bench.deploy()
    given = bench.opensm.key()
    assert given[1:] == (2, 60)
    bench.overrides = []
    for new_run in (bench.rotate, bench.remove):
        with pytest.raises(Refused, match="container-layer"):
            new_run()
    assert bench.opensm.key() == given


@pytest.mark.parametrize("way_on", [Bench.resume, Bench.abort])
def test_a_run_in_the_layer_of_a_container_goes_on_and_back_without_overriding_it_again(
    bench: Bench, way_on: Callable[[Bench], None]
) -> None:
    bench.opensm.is_layered, bench.overrides = True, ["container-layer"]
    assert stop_at(bench, Bench.deploy, 1)
    bench.overrides = []
    way_on(bench)
    assert bench.run_state() in ("done", "undone")


# --- at any moment ----------------------------------------------------------------------------------------------------


@given(
    st.sampled_from(sorted(RUNS)),
    st.integers(0, 60),
    st.sampled_from(sorted(THEN)),
    st.sampled_from(("resume", "abort", "abort twice")),
    st.integers(0, 40),
)
@example(what="rotate, open", moment=28, then="stands still", way_on="abort", again=0)
@settings(
    max_examples=100 if SOAK else 4,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_stopped_at_any_moment_it_ends_forward_or_back(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    moment: int,
    then: str,
    way_on: str,
    again: int,
) -> None:
    bench = bench_in(tmp_path, monkeypatch)
    if what != "deploy":
        bench.deploy()
    former = bench.opensm.key()
    if not stop_at(bench, RUNS[what], moment):
        return
    THEN[then](bench)
    if way_on == "abort twice" and stop_at(bench, go_back, again):
        go_back(bench)
    elif way_on == "resume" or not go_back(bench):
        bench.resume()
    bench.opensm.finish()
    is_back = bench.run_state() == "undone"
    assert (bench.opensm.key() == former) == is_back
    assert bench.run_state() in ("done", "undone")
    assert bench.open_operations() == []
    assert bench.quiet()


def stopped_with_the_new_key_everywhere(bench: Bench) -> int:
    """Stop a rotation when each port has the new key and OpenSM's sweep has not ended; return the former key."""
    bench.deploy()
    former, _, _ = bench.opensm.key()

    def stop(word: str) -> None:
        if all(port.m_key != former for port in bench.opensm.ports()):
            raise KeyboardInterrupt

    bench.opensm.before_each = stop
    with pytest.raises(KeyboardInterrupt):
        bench.rotate()
    bench.opensm.before_each = lambda word: None
    return former


def noted(bench: Bench) -> set[int]:
    """Return the keys in guid2mkey."""
    return {int(line.split()[1], 0) for line in (bench.opensm.folder / "guid2mkey").read_text().split("\n\n") if line}


def test_a_key_goes_back_only_when_opensm_has_noted_that_it_set_it(bench: Bench) -> None:
    """An OpenSM that started with the former key in both files could not change ports with the new one at level 1."""
    former = stopped_with_the_new_key_everywhere(bench)
    new, _, _ = bench.opensm.key()
    assert noted(bench) == {former}
    at_signals: list[set[int]] = []
    bench.opensm.before_each = lambda word: at_signals.append(noted(bench)) if word == "signal" else None
    bench.abort()
    assert at_signals[0] == {new}
    assert (bench.opensm.key(), bench.run_state()) == ((former, 2, 60), "undone")


def test_where_it_never_notes_it_no_file_is_written(bench: Bench) -> None:
    stopped_with_the_new_key_everywhere(bench)
    bench.opensm.is_stuck = True
    before = bench.opensm.conf.read_bytes()
    with pytest.raises(NotStored, match="guid2mkey has another key"):
        bench.abort()
    assert (bench.opensm.conf.read_bytes(), bench.run_state()) == (before, "open")
    bench.opensm.is_stuck = False
    bench.abort()
    assert bench.run_state() == "undone"


def test_whether_a_lease_fits_is_asked_of_where_the_run_goes(bench: Bench) -> None:
    """A lease that does not fit the sweep interval any more is no reason to keep a run from going back."""
    bench.deploy()
    former = bench.goals[-1]
    assert stop_at(bench, lambda bench: bench.rotate(lease=3600), 3)
    assert bench.goals[-1].lease == 3600
    assert stop_at(bench, go_back, 0)
    assert bench.goals[-1] == former
    bench.abort()
    assert bench.goals[-1] == former
    assert bench.run_state() == "undone"


def test_a_run_goes_on_after_the_adapter_of_its_host_was_swapped(bench: Bench) -> None:
    """No key goes over the new link before it is settled, so that the sweep ends there."""
    bench.deploy()
    assert stop_at(bench, Bench.rotate, 20)
    bench.opensm.finish()
    node = bench.opensm.net.nodes[0]
    node.guid = 0x5000
    [port] = [port for port in node.end_ports if port.is_up]
    port.guid, port.m_key, port.protect_bits, port.lease_period = 0x5001, 0, 0, 0
    for way_on in (bench.resume, bench.abort):
        with pytest.raises(
            Refused, match=r"(?s)was found by the sweep.*keystore list --settle.*another subnet.*\(-C, -P\)"
        ) as refused:
            way_on()
        assert refused.value.interlock == "overtaken"
    bench.settle()
    bench.resume()
    assert bench.run_state() == "failed"
    bench.opensm.finish()
    assert bench.opensm.key()[1:] == (2, 60)
    assert bench.quiet()


# --- OpenSM does not do it --------------------------------------------------------------------------------------------


def test_lost_signals_arm_nothing_and_resume_finishes(bench: Bench) -> None:
    bench.deploy()
    before, key = bench.opensm.conf.read_bytes(), bench.opensm.key()
    bench.opensm.is_deaf = True
    with pytest.raises(
        NotStored, match=r"(?s)ibkeys resume.*which has its former values again.*Or OpenSM's sweep takes longer"
    ):
        bench.rotate()
    assert (bench.opensm.conf.read_bytes(), bench.opensm.key()) == (before, key)
    with Journal.read(bench.opensm.folder.parent / "journal.db") as stored:
        assert [(each.name, each.status) for each in stored.steps(2)] == [("level 1", "failed")]
        assert [each.status for each in stored.files(2)] == ["failed", "done"]
    with pytest.raises(Refused, match="is not finished"):
        bench.rotate()
    bench.opensm.is_deaf = False
    bench.resume()
    assert bench.opensm.key()[0] != key[0]
    assert bench.quiet()


def test_one_lost_signal_is_sent_once_more(bench: Bench) -> None:
    bench.deploy()
    signals = count()

    def lose_the_first(word: str) -> None:
        if word == "signal":
            bench.opensm.is_deaf = next(signals) == 0

    bench.opensm.before_each = lose_the_first
    bench.rotate()
    assert bench.opensm.key()[1:] == (2, 60)
    assert bench.run_state() == "done"


def test_a_port_that_goes_away_in_the_step_for_the_key_is_named_and_the_run_goes_on(bench: Bench) -> None:
    """It showed its former key in that step before, and guid2mkey has no new one for it."""
    bench.deploy()
    net, words, peers = bench.opensm.net, list[str](), list[SimPort]()
    host = next(node for node in net.nodes if node.description.startswith("node03"))

    def go_away(word: str) -> None:
        words.append(word)
        if words[-2:] == ["signal", "pause"] and words.count("signal") == 2 and (peer := net.unplug(host, 1)):
            peers.append(peer)

    bench.opensm.before_each = go_away
    bench.results.clear()
    bench.rotate()
    assert [each.port["node_desc"] for each in bench.results if each.result == "failed"] == [host.description]
    net.plug(host, 1, peers[0].node, peers[0].number)
    bench.opensm.restart()
    bench.resume()
    assert (bench.opensm.key()[1:], bench.run_state()) == ((2, 60), "failed")


def test_a_dead_opensm_is_named_with_what_comes_next(bench: Bench) -> None:
    bench.deploy()

    def die(word: str) -> None:
        bench.opensm.runs = False

    bench.opensm.before_each = die
    with pytest.raises(Refused, match=r"no longer runs.*ibkeys sm-repair --cache-dir .*; that prints how to start it"):
        bench.rotate()


def test_what_somebody_else_wrote_into_the_options_file_stops_the_run_and_stays(bench: Bench) -> None:
    bench.deploy()

    def edit(word: str) -> None:
        if word == "pause":
            bench.opensm.conf.write_bytes(b"# theirs\n" + bench.opensm.conf.read_bytes())

    bench.opensm.before_each = edit
    with pytest.raises((FileChanged, NotStored), match="another user or program changed it"):
        bench.rotate()
    assert bench.opensm.conf.read_bytes().startswith(b"# theirs\n")


def test_a_finished_run_goes_back_once(bench: Bench) -> None:
    bench.deploy()
    former = bench.opensm.key()
    bench.rotate()
    for _ in range(2):
        bench.abort()
        assert bench.opensm.key() == former
    with pytest.raises(StoreError, match="was rolled back"):
        bench.resume()
    assert bench.quiet()

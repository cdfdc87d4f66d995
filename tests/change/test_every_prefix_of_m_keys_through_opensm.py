"""Wherever a change of M_Keys through OpenSM stops, and whatever part of its step under way was made: no port is lost.

At each of these moments the manager is started again with the files as they are on disk.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from dataclasses import replace
from itertools import count, product
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibkeys.errors import Refused
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.mad.const import Method
from ibkeys.managers.opensm.options_file import read_options
from ibkeys.mkeys.opensm.course import KeyStep, RunKeys, plan_steps
from ibkeys.mkeys.opensm.fit_managers import KEY_LINES, setting_of
from ibkeys.mkeys.opensm.key_proof import key_for_gets
from ibkeys.mkeys.opensm.record import RunRecord
from ibkeys.mkeys.opensm.rollback import is_raised, lower_level, plan_rollback, refuse_mixed_keys
from ibkeys.sim.nodes import SimNode
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.opensm import parse_m_keys
from tests.change.drawn_trees import trees
from tests.change.restarting import OnDisk, Standby, Tree, World, answer, restarted
from tests.mkeys.opensm.madeup import Bench, MadeUpOpensm
from tests.mkeys.opensm.stopping import RUNS, bench_in, go_back
from tests.sample import SOAK

A, B = MKey(0xA94F13D02E7C5B68), MKey(0x17C4E5906F2BD38A)
OPEN = KeySetting(NO_MKEY, 0, 0)

of_a = st.builds(KeySetting, st.just(A), st.integers(0, 3), st.sampled_from((0, 60)))
of_any = st.just(OPEN) | st.builds(KeySetting, st.sampled_from((A, B)), st.integers(0, 3), st.sampled_from((0, 15, 60)))
Moments = Generator[tuple[World, RunRecord], None, World]


def step_of_keys(record: RunRecord, world: World) -> Moments:
    """Yield each moment of the step that *record* is at, as `ibkeys.mkeys.opensm.key_steps` and OpenSM make it.

    Where a key goes back, the end of the sweep that set it is waited for. Standbys are stopped; the files are written,
    that of the master last, and OpenSM is signalled in the same order; it sets the ports in any order; at the end of
    that sweep it notes their keys; a standby that was stopped is started with these.
    """
    step, (before, after), standby = record.steps[record.at], named_by(record), world.standby
    if record.goes_back and before.key == world.files.said.key != after.key:
        world = replace(world, files=replace(world.files, noted=tuple(port.key for port in world.ports)))
    if standby is not None:
        if any(each.standbys for each in record.steps[record.at :]):
            standby = replace(standby, runs=False)
            yield replace(world, standby=standby), record
        standby = replace(standby, files=replace(standby.files, said=after))
        yield (world := replace(world, standby=standby)), record
    yield (world := world.saying(after)), record
    if standby is not None and standby.runs:
        standby = replace(standby, works_with=after)
        yield (world := replace(world, standby=standby)), record
    for every in product(*(dict.fromkeys((port, after)) for port in world.ports)):
        yield (world := replace(world, ports=every)), record
    world = replace(world, files=OnDisk(after, (after.key,) * len(world.ports)))
    yield world, record
    if step.standbys and standby is not None:
        world = replace(world, standby=Standby(world.files, after, after.key))
        yield world, record
    return world


def way_of_keys(record: RunRecord, world: World) -> Moments:
    """Yield each moment of all steps that are left."""
    while record.at < len(record.steps):
        record.has_written = True
        world = yield from step_of_keys(record, world)
        record.at += 1
    return world


def back_from(record: RunRecord, world: World) -> RunRecord | None:
    """Return the record of the way back that `ibkeys undo` would take from here; None where it is refused."""
    record, standby = replace(record, steps=[*record.steps]), world.standby
    of_standbys = [standby.files.said] if standby is not None and standby.runs else []
    try:
        refuse_mixed_keys(record, {*world.ports})
    except Refused:
        return None
    record.rewind({*world.ports})
    plan_rollback(record, {*world.ports}, world.files.said, of_standbys)
    return record


def named_by(record: RunRecord) -> tuple[KeySetting, KeySetting]:
    """Return what all ports have before and after the step under way."""
    return record.keys.before(record.steps, record.at), record.keys.setting(record.steps[record.at])


def check_keys(tree: Tree, world: World, record: RunRecord) -> None:
    """Every port has a key that is on disk, is read with it by the OpenSM that manages it, or by one that is started
    now, and by ibkeys, which asks for no violation."""
    assert all(port.key in (NO_MKEY, record.keys.former.key, record.keys.wanted.key) for port in world.ports)
    assert restarted(tree, world.ports, world.files).is_managed(world.files.said)
    standby, own = world.standby, world.ports[0]
    if standby is not None and standby.runs:
        for said in (standby.works_with, standby.files.said):
            assert restarted(tree, world.ports, replace(standby.files, said=said)).is_managed(said)
            assert record.is_ours(said)
        assert not own.protect or own.key in (NO_MKEY, standby.polls_with)
    before, after = named_by(record)
    asked = key_for_gets(after, before)
    assert asked in (NO_MKEY, before.key, after.key)
    for port in world.ports:
        assert not answer(Method.GET, port, asked).count_violation


def begin(tree: Tree, now: KeySetting, wanted: KeySetting, is_open: bool, stands_by: bool) -> tuple[RunRecord, World]:
    """Return a run that has not begun, and a subnet that its OpenSM manages."""
    files = OnDisk(now, (now.key,) * len(tree))
    standby = Standby(files, now, now.key) if stands_by else None
    return RunRecord(RunKeys(now, wanted), plan_steps(now, wanted, is_open), []), World(
        (now,) * len(tree), files, standby
    )


def last_of(moments: Moments, tree: Tree) -> World:
    """Check each moment, and return what there is at the end."""
    while True:
        try:
            world, record = next(moments)
        except StopIteration as end:
            return end.value
        check_keys(tree, world, record)


@given(trees(), st.just(OPEN) | of_a, of_any, st.booleans(), st.booleans())
@settings(max_examples=1000 if SOAK else 60, deadline=None)
def test_m_keys_through_opensm_forth(
    tree: Tree, now: KeySetting, wanted: KeySetting, is_open: bool, stands_by: bool
) -> None:
    record, world = begin(tree, now, wanted, is_open, stands_by)
    world = last_of(way_of_keys(record, world), tree)
    assert {*world.ports} == {wanted}


@given(trees(4), st.just(OPEN) | of_a, of_any, st.booleans(), st.booleans())
@settings(max_examples=500 if SOAK else 30, deadline=None)
def test_m_keys_through_opensm_back_from_wherever_it_stopped(
    tree: Tree, now: KeySetting, wanted: KeySetting, is_open: bool, stands_by: bool
) -> None:
    tried = set[tuple[World, int]]()
    for world, record in way_of_keys(*begin(tree, now, wanted, is_open, stands_by)):
        if (world, record.at) in tried or (back := back_from(record, world)) is None:
            continue
        tried.add((world, record.at))
        end = last_of(way_of_keys(back, world), tree)
        assert {*end.ports} == {now}
        assert end.files.said == now


@given(trees(4), of_a, of_any.filter(lambda each: not each.key.is_zero), st.booleans())
@settings(max_examples=300 if SOAK else 20, deadline=None)
def test_m_keys_through_opensm_whose_level_is_lowered_because_nobody_confirmed(
    tree: Tree, now: KeySetting, wanted: KeySetting, stands_by: bool
) -> None:
    tried = set[tuple[World, int]]()
    for world, record in way_of_keys(*begin(tree, now, wanted, False, stands_by)):
        if (world, record.at) in tried or not is_raised(record):
            continue
        tried.add((world, record.at))
        lowered = replace(record, steps=[*record.steps])
        lower_level(lowered)
        gone_back = last_of(step_of_keys(lowered, world), tree)
        assert {each.protect for each in gone_back.ports} == {max(now.protect, 1)}
        lowered.at += 1
        assert {*last_of(way_of_keys(lowered, gone_back), tree).ports} == {wanted}


CLOSED, HALF_OPEN = KeySetting(A, 2, 60), KeySetting(A, 1, 60)
LEVEL_1, NEW_KEY, LEVEL_2 = plan_steps(CLOSED, KeySetting(B, 2, 60))


@pytest.mark.parametrize(
    ("now", "steps"),
    [
        pytest.param(CLOSED, [NEW_KEY, LEVEL_1, LEVEL_2], id="swapped"),
        pytest.param(CLOSED, [replace(NEW_KEY, protect=2)], id="at level 2"),
        pytest.param(OPEN, [LEVEL_2, NEW_KEY], id="the level before the first key"),
        pytest.param(HALF_OPEN, [replace(NEW_KEY, standbys=False), LEVEL_2], id="the standby goes on"),
    ],
)
def test_a_wrong_order_is_found(now: KeySetting, steps: list[KeyStep]) -> None:
    _, world = begin((None, 0, 1, 1), now, now, False, True)
    record = RunRecord(RunKeys(now, KeySetting(B, 2, 60)), steps, [])
    with pytest.raises(AssertionError):
        last_of(way_of_keys(record, world), (None, 0, 1, 1))


def tree_of(opensm: MadeUpOpensm) -> tuple[Tree, list[int]]:
    """Return how the SM's port leads to the others, and the port GUIDs in that order."""
    start: SimNode = opensm.net.nodes[0]
    [port] = start.end_ports
    found, behind, todo = {port.guid: 0}, list[int | None]([None]), [start]
    for node in todo:
        [near] = node.end_ports
        for peer in (port.peer for port in node.ports if port.peer is not None):
            [far] = peer.node.end_ports
            if far.guid not in found:
                found[far.guid] = len(found)
                behind.append(found[near.guid])
                todo.append(peer.node)
    return tuple(behind), list(found)


def check_on_disk(bench: Bench) -> None:
    """As `check_keys`, by what there is: the ports, the files of the OpenSM, and the key store."""
    opensm = bench.opensm
    tree, guids = tree_of(opensm)
    now = {port.guid: KeySetting(MKey(port.m_key), port.protect_bits, port.lease_period) for port in opensm.ports()}
    said = setting_of(map(read_options(opensm.conf.read_bytes()).value, KEY_LINES))
    file = opensm.folder / "guid2mkey"
    noted = parse_m_keys(file.read_bytes(), "guid2mkey") if file.exists() else {}
    files = OnDisk(said, tuple(noted.get(guid, said.key) for guid in guids))
    assert restarted(tree, tuple(now[guid] for guid in guids), files).is_managed(said)
    with KeyStore(opensm.folder.parent / "keys.db", create=False) as store:
        stored = store.all_keys()
    assert said.key == NO_MKEY or all(said.key in stored[guid] for guid in guids)
    assert all(each.key == NO_MKEY or each.key in stored[guid] for guid, each in now.items())


@given(
    st.sampled_from(sorted(RUNS)), st.integers(0, 60), st.sampled_from(("resume", "undo")), st.permutations(range(8))
)
@settings(max_examples=200 if SOAK else 5, deadline=None)
def test_as_the_files_are_while_a_run_is_made_and_goes_on_or_back(
    what: str, moment: int, way_on: str, order: list[int]
) -> None:
    passed = count()
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        bench = bench_in(Path(folder), patch)
        if what != "deploy":
            bench.deploy()

        def look(word: str) -> None:
            check_on_disk(bench)
            if next(passed) == moment:
                raise KeyboardInterrupt(word)

        bench.opensm.before_each, bench.opensm.order = look, lambda port: order[port.node.index]
        with suppress(KeyboardInterrupt):
            RUNS[what](bench)
        if bench.run_state() == "open" and (way_on == "resume" or not go_back(bench)):
            bench.resume()
        assert bench.run_state() in ("done", "undone")
        assert bench.quiet()

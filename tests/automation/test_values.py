"""A script's change of single ports that was interrupted: `Operation.resume` finishes it with the journal's values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ibkeys
from ibkeys.errors import KeyGone, Refused, StoreError
from ibkeys.store.journal import Journal, RunningOperation
from ibkeys.store.keystore.keystore import KeyStore
from tests.automation.scripts import HOSTS, Site, site

KEY = 0x9C4E21D7B05A63F8
COMMAND = "monthly change"
Make = Callable[[ibkeys.ChangeRun, ibkeys.Fabric], Any]


def counters(change: ibkeys.ChangeRun, fabric: ibkeys.Fabric) -> Any:
    return change.plan_clear_counters([port for port in fabric.sweep().end_ports() if not port.node.is_switch])


WAYS: dict[str, Make] = {
    "P_Keys": lambda change, fabric: change.plan_set_p_keys(fabric.find_port(2), {3: 0x8010, 35: 0x8011}),
    "enforcement": lambda change, fabric: change.plan_set_enforcement(fabric.find_port("0,1", 3), inbound=True),
    "M_Key": lambda change, fabric: change.plan_set_m_key(fabric.find_port(2), ibkeys.MKey(KEY), protect=1, lease=60),
    "counters": counters,
}


@pytest.fixture
def place(tmp_path: Path) -> Site:
    found = site(tmp_path)
    for host in HOSTS:
        found.net.port(host, 1).p_key_violations = 3
    return found


def values(place: Site) -> list[object]:
    return [
        (port.p_key_bytes, port.inbound_enforcement, port.m_key, port.protect_bits, port.p_key_violations)
        for node in place.net.nodes
        for port in node.ports
    ]


def interrupt(place: Site, make: Make, monkeypatch: pytest.MonkeyPatch, before: bool) -> None:
    """Let a change be interrupted before its first Set is sent, or when all is set and the journal does not know it."""
    record = RunningOperation.record_all

    def stop(operation: RunningOperation, images: Any, *more: Any, **options: Any) -> Any:
        found = record(operation, images, *more, **options) if before else None
        if before or not images:
            raise KeyboardInterrupt
        return record(operation, images, *more, **options) if found is None else found

    with place.fabric() as fabric, monkeypatch.context() as patch, fabric.change(COMMAND) as change:
        plan = make(change, fabric)
        patch.setattr(RunningOperation, "record_all", stop)
        with pytest.raises(KeyboardInterrupt):
            change.apply(plan)


def resume(place: Site, **how: Any) -> ibkeys.ChangeResult:
    with place.fabric() as fabric:
        [operation] = fabric.operations(open_only=True)
        return operation.resume(fabric, consent=ibkeys.Consent(), **how)


@pytest.mark.parametrize("before", [True, False], ids=["before the Set", "after the Sets"])
@pytest.mark.parametrize("way", WAYS)
def test_it_is_finished(place: Site, monkeypatch: pytest.MonkeyPatch, way: str, before: bool, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    whole = site(tmp_path / "other")
    for host in HOSTS:
        whole.net.port(host, 1).p_key_violations = 3
    with whole.fabric() as fabric, fabric.change(COMMAND) as change:
        change.apply(WAYS[way](change, fabric))
    interrupt(place, WAYS[way], monkeypatch, before)
    result = resume(place)
    assert (result.command, result.operation, result.proven) == (COMMAND, 1, True)
    assert values(place) == values(whole)
    assert [each.record.state for each in place.operations()] == ["done"]


@pytest.mark.parametrize("before", [True, False], ids=["before the Set", "after the Sets"])
def test_an_m_key_keeps_its_row_in_the_key_store(place: Site, monkeypatch: pytest.MonkeyPatch, before: bool) -> None:
    interrupt(place, WAYS["M_Key"], monkeypatch, before)
    resume(place)
    with KeyStore(place.stores.keystore) as store:
        assert [(row.m_key, row.state) for row in store.rows()] == [(ibkeys.MKey(KEY), "current")]


def test_a_dry_run_changes_nothing(place: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt(place, WAYS["P_Keys"], monkeypatch, before=True)
    found = values(place)
    result = resume(place, dry_run=True)
    assert (result.changed, result.proven) == (False, False)
    assert (values(place), [each.record.state for each in place.operations()]) == (found, ["open"])


def test_an_m_key_of_others_is_not_overwritten(place: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt(place, WAYS["M_Key"], monkeypatch, before=True)
    place.net.port(HOSTS[0], 1).m_key = place.net.port(HOSTS[1], 1).m_key = 0x77
    with pytest.raises(Refused) as refused:
        resume(place)
    assert refused.value.interlock == "overtaken"
    assert place.m_keys() >= {0x77}


def test_a_key_that_the_key_store_lost_is_not_made_up(place: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt(place, WAYS["M_Key"], monkeypatch, before=True)
    assert place.stores.keystore is not None
    place.stores.keystore.unlink()
    with pytest.raises(KeyGone):
        resume(place)
    assert KEY not in place.m_keys()


def test_damaged_values_are_an_error(place: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt(place, WAYS["P_Keys"], monkeypatch, before=True)
    for damaged in ('{"values": [["x", 1, "pkey", 3, null, "0x8010"]]}', '{"values": [[1]]}', '{"values":"abc"}'):
        with Journal(place.stores.journal) as journal:
            journal.keep_options(1, damaged)
        if damaged.startswith('{"values":'):
            with pytest.raises(StoreError, match="impossible values"):
                resume(place)

"""M_Keys of a whole fabric by a script, and the way on and back of its operations."""

from __future__ import annotations

from pathlib import Path

import pytest

import ibkeys
from ibkeys.errors import Refused, UsageError
from tests.automation.scripts import HOSTS, Site, site


@pytest.fixture
def two(tmp_path: Path) -> Site:
    return site(tmp_path)


def test_keys_are_deployed_and_rotated_and_each_port_is_proven(two: Site) -> None:
    told: list[ibkeys.Progress] = []
    with two.fabric() as fabric:
        first = fabric.deploy_m_keys(same=True, protect=1, lease=60, progress=told.append)
        assert (first.command, first.operation, first.changed, first.proven) == ("mkey-deploy", 1, True, True)
        [key] = two.m_keys()
        assert len(first.done) == told[-1].whole == told[-1].done
        assert {each.port.node_desc for each in first.done if each.port} >= set(HOSTS)
        second = fabric.rotate_m_keys(per_port=True)
    assert (second.proven, len(two.m_keys()), key in two.m_keys()) == (True, len(HOSTS), False)
    assert [each.is_open for each in two.operations()] == [False, False]


def test_the_first_ports_wait_and_the_operation_goes_on_or_back(two: Site) -> None:
    with two.fabric() as fabric:
        fabric.deploy_m_keys(same=True, protect=1, lease=60)
        [before] = two.m_keys()
        held = fabric.rotate_m_keys(same=True, first=2)
        assert (held.proven, held.changed, len(held.done)) == (False, True, 2)
        assert "6 ports" in str(held.left[-1])
        operation = two.operations(open_only=True)[0]
        with pytest.raises(UsageError, match="was started directly"):
            operation.resume(fabric, via=ibkeys.ThroughOpenSM())
        assert operation.resume(fabric, first=2).left
        assert operation.resume(fabric).proven
        assert len(two.m_keys() - {before}) == 1
        back = two.operations()[1].undo(fabric)
        assert (back.proven, two.m_keys()) == (True, {before})


def test_what_somebody_has_to_want_is_asked_and_refused_by_default(two: Site) -> None:
    seen: list[ibkeys.Proposal] = []

    def yes(proposal: ibkeys.Proposal) -> ibkeys.Consent:
        seen.append(proposal)
        return ibkeys.Consent()

    with two.fabric() as fabric:
        with pytest.raises(Refused) as refused:
            fabric.deploy_m_keys(same=True)
        assert (refused.value.interlock, two.m_keys()) == ("confirmation", {0})
        assert fabric.deploy_m_keys(same=True, consent=yes).proven
        assert [each.answer for each in seen[0].questions] == ["protect=0"]
        for consent in (None, ibkeys.Consent(force=True)):
            with pytest.raises(Refused) as refused:
                fabric.remove_m_keys(consent=consent)
            assert refused.value.interlock == "confirmation"
        assert 0 not in two.m_keys()
        assert fabric.remove_m_keys(leave_open=True).proven
    assert two.m_keys() == {0}


def test_a_dry_run_says_what_would_refuse_the_way_back(two: Site) -> None:
    with two.fabric() as fabric:
        fabric.deploy_m_keys(same=True, protect=1, lease=60)
        keys = two.m_keys()
        dry = two.operations()[0].undo(fabric, dry_run=True)
        assert isinstance(dry.problem, Refused)
        assert (dry.problem.interlock, dry.proven, dry.changed, two.m_keys()) == ("confirmation", False, False, keys)
        assert two.operations()[0].undo(fabric, leave_open=True).proven
    assert two.m_keys() == {0}


def test_a_dry_run_changes_nothing(two: Site) -> None:
    with two.fabric() as fabric:
        result = fabric.deploy_m_keys(same=True, protect=1, lease=60, dry_run=True)
    assert (result.operation, result.changed, result.proven, two.m_keys()) == (None, False, False, {0})
    assert len(result.left) >= len(HOSTS)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "same=True"),
        ({"same": True, "per_port": True}, "same=True"),
        ({"per_port": True, "via": ibkeys.ThroughOpenSM()}, "same=True"),
        ({"via": ibkeys.ThroughOpenSM(), "first": 1}, "omit first="),
        ({"via": ibkeys.ThroughOpenSM()}, "no OpenSM on any host"),
        ({"same": True, "via": ibkeys.ThroughUFM("https://ufm")}, "UFM gives no M_Keys"),
        ({"same": True, "confirm_within": 60}, "needs via=ThroughOpenSM"),
    ],
)
def test_what_makes_no_sense_is_an_error(two: Site, keys: ibkeys.NewKeys, message: str) -> None:
    with two.fabric() as fabric, pytest.raises(UsageError, match=message):
        fabric.rotate_m_keys(**keys)
    assert two.operations() == ()


def test_an_operation_of_another_journal_is_refused(two: Site) -> None:
    with two.fabric() as fabric:
        fabric.deploy_m_keys(same=True, protect=1, lease=60)
    [operation] = two.operations()
    with ibkeys.open(two.net) as other, pytest.raises(UsageError, match="open the fabric with these stores"):
        operation.undo(other)
    with pytest.raises(ibkeys.errors.StoreError, match="is not waiting for a confirmation"):
        operation.confirm()

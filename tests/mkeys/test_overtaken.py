"""A run by own Sets leaves ports alone whose M_Key another program changed since, those that it had not begun too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ibkeys.errors import Refused
from ibkeys.keys.mkey import MKey
from ibkeys.mkeys.rollout.earlier_run import close_overtaken
from ibkeys.mkeys.rollout.going_back import plan_return
from ibkeys.store.journal import Journal
from ibkeys.store.journal.runs import RunOptions, Runs
from ibkeys.store.keystore.keystore import KeyStore
from tests.fabricsim import tool, writer
from tests.mkeys.rollout import NAME, Plan, Site, deploy, remove, resume, rotate, site_of

FIRST = RunOptions(protect=1, lease=60, first=3)
THEIRS = 0x5D1C93B7A2E4F608


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return site_of("two-switch", tmp_path)


def somebody_else_sets_a_key(site: Site, which: Callable[[Any], bool]) -> dict[int, int]:
    """Give ports another key, which the key store has by an import; return them by port GUID."""
    with KeyStore(site.stores["keystore"]) as store:
        for port in filter(which, site.ports()):
            port.m_key, port.protect_bits, port.lease_period = THEIRS, 0, 0
            store.put_imported(port.guid, MKey(THEIRS), note="theirs")
    return {port.guid: port.m_key for port in site.ports() if port.m_key == THEIRS}


@pytest.mark.parametrize("what", ["deploy", "rotate"])
def test_a_port_that_waits_and_that_somebody_else_gave_a_key_keeps_it(site: Site, what: str) -> None:
    if what == "rotate":
        site.run(deploy(RunOptions(protect=1, lease=60)))
    before = site.keys()
    site.run((deploy if what == "deploy" else rotate)(FIRST))
    theirs = somebody_else_sets_a_key(site, lambda port: port.m_key == before[port.guid])
    assert len(theirs) == len(before) - 3
    with pytest.raises(Refused, match="neither be finished nor rolled back") as caught:
        site.run(resume)
    assert caught.value.interlock == "overtaken"
    assert theirs.items() <= site.keys().items()


def test_of_some_ports_with_another_key_the_others_are_finished(site: Site) -> None:
    site.run(deploy(FIRST))
    one = next(port for port in site.ports() if not port.m_key)
    theirs = somebody_else_sets_a_key(site, lambda port: port is one)
    site.run(resume)
    assert theirs.items() <= site.keys().items()
    assert [port.guid for port in site.ports() if not port.m_key] == []
    assert any("another user or program changed it" in (why or "") for why in site.reasons("skipped").values())


@pytest.mark.parametrize("plan", [resume, plan_return], ids=["resume", "abort"])
def test_where_every_port_has_another_key_it_is_refused_and_its_record_can_end(site: Site, plan: Plan) -> None:
    site.run(deploy(RunOptions(protect=0, first=3)))
    theirs = somebody_else_sets_a_key(site, lambda port: True)
    with Journal(site.stores["journal"]) as journal:
        for each in Runs(journal).ports(1)[:3]:
            Runs(journal).mark(1, each.sequence, "sent")
    with pytest.raises(Refused, match=r"level or lease that this run neither found nor set.*nothing was written"):
        site.run(plan)
    assert site.keys() == theirs
    with tool(site.net, **site.stores) as fabric, writer(fabric) as w:
        assert close_overtaken(w).startswith("operation 1 (mkey-deploy")
    with Journal.read(site.stores["journal"]) as journal:
        assert [each.state for each in journal.list_operations()] == ["undone"]


def test_a_resume_with_nothing_left_names_the_ports_that_hide_a_key(site: Site) -> None:
    site.run(deploy(RunOptions(protect=1, lease=60)))
    assert site.plan(resume).skipped == []
    for port in site.ports():
        port.m_key = THEIRS
    run = site.plan(resume)
    assert not run.pending
    assert len(run.skipped) == len(site.ports())
    assert all(each.unread and "hides its M_Key" in (each.reason or "") for each in run.skipped)


SECOND = RunOptions(same=True, protect=2, lease=120)


@pytest.mark.parametrize(
    ("protect", "lease"), [(3, 120), (1, 120), (2, 60), (0, 0), (2, 0)], ids=lambda value: str(value)
)
def test_a_level_and_a_lease_that_the_run_did_not_set_together_stay(site: Site, protect: int, lease: int) -> None:
    site.run(deploy(RunOptions(same=True, protect=1, lease=60)))
    site.run(rotate(SECOND))
    theirs = next(port for port in site.ports() if port.node.description == NAME)
    theirs.protect_bits, theirs.lease_period = protect, lease
    run = site.run(plan_return)
    assert (theirs.protect_bits, theirs.lease_period) == (protect, lease)
    assert {(port.protect_bits, port.lease_period) for port in site.ports() if port is not theirs} == {(1, 60)}
    assert (run.account.done, run.account.unread, run.account.overtaken) == (7, 0, 1)
    assert not run.account.is_complete
    (skipped,) = (each for each in site.results if each.overtaken)
    assert skipped.port["node_desc"] == NAME


@pytest.mark.parametrize("had", ["what it found", "what it wrote"])
def test_a_lease_that_ran_out_was_set_by_nobody(site: Site, had: str) -> None:
    site.run(deploy(RunOptions(same=True, protect=1, lease=60)))
    if had == "what it found":
        site.run(rotate(RunOptions(same=True, protect=2, lease=120, first=3)))
        end, level = resume, (2, 120)
    else:
        site.run(rotate(SECOND))
        end, level = plan_return, (1, 60)
    port = next(port for port in site.ports() if port.lease_period == (60 if end is resume else 120))
    port.protect_bits = 0
    site.run(end)
    assert site.states() == {level}


@pytest.mark.parametrize("what", ["deploy", "remove"])
def test_the_lease_of_a_port_without_a_key_stays(site: Site, what: str) -> None:
    if what == "deploy":
        site.run(deploy(FIRST))
        end = resume
    else:
        site.run(deploy(RunOptions(protect=1, lease=60)))
        site.run(remove())
        end = plan_return
    theirs = next(port for port in site.ports() if not port.m_key)
    theirs.lease_period = 77
    run = site.run(end)
    assert (theirs.m_key, theirs.lease_period) == (0, 77)
    assert run.account.overtaken == 1
    assert [port for port in site.ports() if not port.m_key] == [theirs]

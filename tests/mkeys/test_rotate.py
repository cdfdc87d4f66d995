"""mkey-deploy and mkey-rotate over simulated fabrics: every port on its own, none lost, none provoked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ibkeys.errors import Refused, UsageError
from ibkeys.keys.mkey import MKey
from ibkeys.mad.const import AttributeID, SMState
from ibkeys.mkeys.rollout.going_back import plan_return
from ibkeys.mkeys.rollout.new_keys import plan_run
from ibkeys.mkeys.rollout.result import PortResult
from ibkeys.mkeys.rollout.run_plan import carry_out
from ibkeys.sim.subnet import Subnet
from ibkeys.store.journal import Journal
from ibkeys.store.journal.runs import RunOptions
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.umad.port import Outgoing
from tests.fabricsim import interlocks, subnet, tool, writer
from tests.fattree import fat_tree
from tests.mkeys.rollout import KEY, LEVEL_2, NAME, Plan, Site, deploy, resume, rotate, site_of, undo
from tests.spy import is_set, sets, spy


def set_of(site: Site) -> list[int]:
    """Return the LIDs of the ports that Sets went to, in order; each Set carries its port's own LID."""
    return [int.from_bytes(mad[64 + 16 : 64 + 18], "big") for mad in sets(site.record)]


# --- the ordinary course ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["two-switch", "dual-home", "dualport64", "torus444"])
def test_deploy_gives_each_port_a_key_of_its_own_with_level_and_lease_in_one_set(name: str, tmp_path: Path) -> None:
    site = site_of(name, tmp_path)
    run = site.run(deploy())
    count = len(site.ports())
    assert (run.account.done, run.account.failed, run.account.waiting) == (count, 0, 0)
    assert len(set(site.keys().values()) - {0}) == count
    assert site.states() == {(2, 60)}
    assert site.current() == site.keys()
    assert len(sets(site.record)) == count
    assert site.violations() == 0


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_rotate_from_and_to_every_level_counts_no_violation(level: int, site: Site) -> None:
    site.run(deploy(RunOptions(protect=level, lease=60)))
    before = site.keys()
    for wanted in range(4):
        site.run(rotate(RunOptions(protect=wanted, lease=90)))
        assert site.states() == {(wanted, 90)}
        assert site.current() == site.keys()
        assert not set(before.values()) & set(site.keys().values())
        before = site.keys()
    assert site.violations() == 0


def test_one_key_for_all(site: Site) -> None:
    site.run(deploy(RunOptions(same=True, protect=1, lease=60), KEY))
    assert set(site.keys().values()) == {KEY.reveal()}
    site.run(rotate(RunOptions(same=True)))
    assert len(set(site.keys().values())) == 1
    assert KEY.reveal() not in site.keys().values()
    assert site.states() == {(1, 60)}


def test_a_later_sweep_finds_every_key_by_its_link(tmp_path: Path) -> None:
    site = site_of("dual-home", tmp_path)
    site.run(deploy())
    with tool(site.net, **site.stores) as fabric:
        found = fabric.sweep()
    assert found.troubles == []
    assert {port.m_key_state for port in found.end_ports()} == {"set"}
    assert site.violations() == 0
    with KeyStore(site.stores["keystore"], create=False) as store:
        assert len(store.lids()) == len(site.ports())


def test_the_former_keys_stay_in_the_store_and_the_journal_has_none(site: Site) -> None:
    site.run(deploy())
    former = site.keys()
    site.run(rotate())
    with KeyStore(site.stores["keystore"], create=False) as store:
        for guid, key in former.items():
            assert MKey(key) in store.all_keys().get(guid, [])
    with Journal(site.stores["journal"], create=False) as journal:
        assert [(line.command, line.state, line.ports) for line in journal.list_operations()] == [
            ("mkey-deploy", "done", 8),
            ("mkey-rotate", "done", 8),
        ]
    raw = b"".join(file.read_bytes() for file in site.folder.glob("journal.db*"))
    for key in {*former.values(), *site.keys().values()}:
        assert key.to_bytes(8, "big") not in raw
        assert f"{key:016x}".encode() not in raw


def test_only_level_and_lease_where_the_key_is_there_already(site: Site) -> None:
    site.run(deploy(RunOptions(same=True), KEY))
    run = site.run(rotate(RunOptions(same=True, protect=2, lease=60), KEY))
    assert run.account.done == 8
    assert {change.kind for change in run.plan.changes} == {"m_key_protect_bits", "m_key_lease_period"}
    assert (set(site.keys().values()), site.states()) == ({KEY.reveal()}, {(2, 60)})
    site.run(plan_return)
    assert (set(site.keys().values()), site.states()) == ({KEY.reveal()}, {(0, 0)})
    assert site.current() == site.keys()


def test_ports_that_no_sm_has_configured(tmp_path: Path) -> None:
    """Their LID is 0, and their agents refuse it in a Set: a stand-in is sent, as ibportstate does."""
    net = Subnet.from_text(fat_tree(2, 3, 1), link_state="initialize")
    site = Site(net, tmp_path)
    run = site.run(deploy(), "links-initialize")
    assert run.account.done == len(site.ports()) == 9
    assert site.states() == {(2, 60)}


def test_a_port_that_has_the_key_already_is_only_noted(site: Site) -> None:
    port = site.net.port(NAME, 1)
    port.m_key, port.protect_bits, port.lease_period = KEY.reveal(), 2, 60
    with tool(site.net, **site.stores, m_key=KEY) as fabric, writer(fabric) as w:
        record = spy(fabric)
        run = plan_run(w, "mkey-deploy", RunOptions(same=True, protect=2, lease=60), KEY)
        carry_out(w, run, site.results.append)
    assert (run.account.done, len(sets(record)), len(run.already_set)) == (8, 7, 1)
    assert site.current() == site.keys()
    site.run(undo)  # it had the key before the run, and keeps it
    assert (port.m_key, port.protect_bits, port.lease_period) == (KEY.reveal(), 2, 60)
    assert {key for guid, key in site.keys().items() if guid != port.guid} == {0}


# --- order ------------------------------------------------------------------------------------------------------------


def test_the_farthest_ports_first_the_sms_port_and_the_own_one_last(site: Site) -> None:
    site.net.set_sm("node03 mlx4_0", SMState.NOT_ACTIVE)
    run = site.run(deploy())
    hops = [len(job.port.agent_path) for job in run.stages[0]]
    assert hops == sorted(hops, reverse=True)
    assert set_of(site)[-2:] == [3, 1]
    assert [result.port["lid"] for result in site.results][-2:] == [3, 1]


def test_the_nearest_ports_first_where_that_is_asked_for(site: Site) -> None:
    run = site.plan(deploy(order="nearest"))
    hops = [len(job.port.agent_path) for job in run.stages[0]]
    assert hops == sorted(hops)


def test_the_journal_lists_one_step_for_a_rollout_and_one_for_its_way_back(site: Site) -> None:
    site.run(deploy(RunOptions()))
    site.run(undo)
    with Journal.read(site.stores["journal"]) as journal:
        steps = [[(step.name, step.status) for step in journal.steps(each.id)] for each in journal.list_operations()]
    assert steps == [[("M_Keys", "done")], [("former M_Keys", "done")]]


def test_no_more_ports_in_change_than_asked_for(tmp_path: Path) -> None:
    site = Site(Subnet.from_text(fat_tree(4, 8, 2)), tmp_path)
    in_change: set[bytes] = set()
    most = 0

    def watch(fabric: Any) -> None:
        def count(out: Outgoing) -> None:
            nonlocal most
            if is_set(out):
                in_change.add(out.mad[128:192])
            most = max(most, len(in_change))

        spy(fabric, before=count)

    def done(result: PortResult) -> None:
        in_change.clear()

    run = site.run(deploy(RunOptions(at_once=3)), before=watch, report=done)
    assert run.account.done == 38
    assert most <= 3


# --- ports that are left alone ----------------------------------------------------------------------------------------


def test_deploy_leaves_ports_alone_that_have_a_key(site: Site) -> None:
    site.net.port(NAME, 1).m_key = KEY.reveal()
    run = site.run(deploy())
    assert "mkey-rotate" in str(site.reasons("skipped")[NAME])
    assert (run.account.done, run.account.skipped, run.account.unread) == (7, 1, 0)
    assert run.account.is_complete
    assert site.net.port(NAME, 1).m_key == KEY.reveal()


def test_rotate_leaves_ports_alone_that_have_none(site: Site) -> None:
    site.net.port(NAME, 1).m_key = KEY.reveal()
    run = site.run(rotate())
    assert (run.account.done, run.account.skipped) == (1, 7)
    assert "mkey-deploy" in str(site.reasons("skipped")["node03 mlx4_0"])
    assert {port.m_key for port in site.ports() if port.node.description != NAME} == {0}


@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_port_whose_key_is_not_known_is_skipped_and_not_provoked(level: int, site: Site) -> None:
    port = site.net.port(NAME, 1)
    port.m_key, port.protect_bits, port.lease_period = KEY.reveal(), level, 30
    violations = 0

    def look(fabric: Any) -> None:
        nonlocal violations
        violations = port.m_key_violations  # those of the sweep

    run = site.run(deploy(), before=look)
    assert (run.account.done, run.account.unread, run.account.failed) == (7, 1, 0)
    assert not run.account.is_complete
    assert port.m_key_violations == violations
    assert (port.m_key, port.protect_bits) == (KEY.reveal(), level)


def test_two_ports_with_one_guid_are_left_alone(site: Site) -> None:
    twin = site.net.port("node03 mlx4_0", 1)
    twin.guid = site.net.port(NAME, 1).guid
    run = site.run(deploy())
    assert {NAME, "node03 mlx4_0"} <= set(site.reasons("skipped"))
    assert (run.account.done, run.account.unread) == (6, 2)
    assert twin.m_key == 0


def test_what_changed_since_it_was_shown_is_not_written_over(site: Site) -> None:
    port = site.net.port(NAME, 1)

    def change(fabric: Any) -> None:
        port.sm_lid = 4

    run = site.run(deploy(), before=change)
    assert (run.account.done, run.account.failed) == (7, 1)
    assert "MasterSMLID" in str(site.reasons("failed")[NAME])
    assert port.m_key == 0
    site.run(resume)
    port.sm_lid = 5
    site.run(rotate(), "stale", before=lambda fabric: setattr(port, "sm_lid", 4))
    assert site.reasons("failed") == {}


# --- interlocks and usage ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", [deploy(), rotate()])
def test_under_a_master_it_refuses_and_names_every_sm(plan: Plan, site: Site) -> None:
    site.net.set_sm("node03 mlx4_0")
    site.net.set_sm("node05 mlx4_0", SMState.STANDBY)
    for port in site.ports()[:2]:
        port.m_key = KEY.reveal()
    run = site.plan(plan)
    assert interlocks(run.plan) == {"mkey-under-sm"}
    text = " ".join([*(each.message for each in run.plan.objections), *run.procedure])
    for words in ("node03", "node05", "--via opensm", "each other host", "mkey-show --all"):
        assert words in text
    with pytest.raises(Refused, match="mkey-under-sm"):
        site.run(plan)
    assert sets(site.record) == []
    site.run(plan, "mkey-under-sm")


def test_the_procedure_names_the_file_of_the_key_and_never_the_key(site: Site) -> None:
    site.net.set_sm("node03 mlx4_0")
    run = site.plan(deploy(RunOptions(same=True, protect=2, lease=60), KEY, key_file="site.key"))
    text = " ".join([*(each.message for each in run.plan.objections), *run.procedure, *run.plan.notes])
    assert "mkey-deploy --via opensm --protect 2 --lease 60 --new-m-key @site.key" in text
    assert f"{KEY.reveal():x}" not in text


def test_a_standby_sm_alone_may_become_master(site: Site) -> None:
    site.net.set_sm("node05 mlx4_0", SMState.STANDBY)
    assert interlocks(site.plan(deploy()).plan) == {"mkey-under-sm"}


def test_going_back_and_going_on_are_refused_under_a_master_too(site: Site) -> None:
    site.run(deploy(RunOptions(protect=2, lease=60, first=3)))
    site.net.set_sm("node03 mlx4_0")
    for plan in (resume, plan_return):
        assert interlocks(site.plan(plan).plan) == {"mkey-under-sm"}


def test_lease_0_at_level_2(site: Site) -> None:
    run = site.plan(deploy(RunOptions(protect=2)))
    assert interlocks(run.plan) == {"lease-0"}
    assert "8 ports" in run.plan.objections[0].message
    assert interlocks(site.plan(deploy(RunOptions(protect=1))).plan) == set()


@pytest.mark.parametrize(
    ("options", "key"),
    [
        (RunOptions(), KEY),
        (RunOptions(same=True), MKey(0)),
        (RunOptions(protect=4), None),
        (RunOptions(lease=65536), None),
    ],
)
def test_wrong_usage(options: RunOptions, key: MKey | None, site: Site) -> None:
    with pytest.raises(UsageError):
        site.plan(deploy(options, key))


def test_a_dry_run_makes_and_sends_nothing(site: Site) -> None:
    with tool(site.net, **site.stores) as fabric, writer(fabric, dry_run=True) as w:
        record = spy(fabric)
        run = plan_run(w, "mkey-deploy", LEVEL_2)
        assert len(run.jobs) == 8
    assert sets(record) == []
    assert list(site.folder.iterdir()) == []


def test_the_header_of_every_set_has_the_old_key_and_nothing_is_sent_to_strangers(site: Site) -> None:
    site.run(deploy())
    before = site.keys()
    site.run(rotate())
    for mad in sets(site.record):
        assert int.from_bytes(mad[16:18], "big") == AttributeID.PORT_INFO
    headers = sorted(int.from_bytes(mad[24:32], "big") for mad in sets(site.record))
    assert headers == sorted(before.values())


def test_a_store_in_memory_serves_as_well() -> None:
    net = subnet("two-switch")
    with tool(net) as fabric, writer(fabric) as w:
        run = plan_run(w, "mkey-deploy", LEVEL_2)
        carry_out(w, run, lambda result: None)
        assert run.account.done == 8
        assert {job.port.port_guid for job in run.jobs} == set(w.keystore.current())

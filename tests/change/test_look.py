"""Cables that move between the sweep and the change: no key goes to whoever is there now."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.change.pkeys import plan_add
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import Refused
from ibkeys.keys.pkey import PKey
from ibkeys.mkeys.rollout.new_keys import plan_run
from ibkeys.mkeys.rollout.result import PortResult
from ibkeys.mkeys.rollout.run_plan import carry_out
from ibkeys.store.journal.runs import RunOptions
from tests.keyedsite import Site

HOST, OTHER = "node02 mlx4_0", "node03 mlx4_0"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, sm=False)


def keyed(site: Site, seen: list[tuple[str, int, bytes]]) -> list[str]:
    """Return the nodes that a key of another port arrived at."""
    owners = {port.m_key.to_bytes(8): port.node.description for port in site.ports()}
    return [node for node, _, key in seen if any(key) and owners.get(key) != node]


@pytest.mark.parametrize("sweeps", [False, True])
def test_a_cable_swapped_at_the_prompt_gets_no_key(site: Site, sweeps: bool) -> None:
    with site.open() as fabric, ChangeWriter(fabric, "test") as writer:
        plan = plan_add(writer, fabric.find_port(site.net.port(HOST, 1).lid), [PKey(0x8010)])
        site.swap(HOST, OTHER)
        if sweeps:
            site.sm_sweeps()
        seen = site.arrivals()
        with pytest.raises(Refused, match="changed since it was read") as caught:
            writer.apply(plan)
    assert caught.value.interlock == "stale"
    assert keyed(site, seen) == []
    assert not {HOST, OTHER} & {node for node, _, _ in seen}, "neither of the two was asked anything"
    assert site.quiet()


def test_without_a_move_the_change_is_made(site: Site) -> None:
    with site.open() as fabric, ChangeWriter(fabric, "test") as writer:
        plan = plan_add(writer, fabric.find_port(site.net.port(HOST, 1).lid), [PKey(0x8010)])
        writer.apply(plan)
    assert 0x8010 in site.net.port(HOST, 1).p_keys
    assert site.quiet()


@pytest.mark.parametrize("keys_known", [True, False])
def test_a_run_over_the_fabric_does_not_begin_over_a_cable_that_moved(tmp_path: Path, keys_known: bool) -> None:
    site = Site(tmp_path, sm=False)
    if not keys_known:
        for port in site.ports():
            port.m_key = port.protect_bits = 0
        site.stores = {"keystore": tmp_path / "new.db", "journal": tmp_path / "new-journal.db"}
    results: list[PortResult] = []
    with site.open() as fabric, ChangeWriter(fabric, "test") as writer:
        run = plan_run(writer, "mkey-rotate" if keys_known else "mkey-deploy", RunOptions(protect=2, lease=60))
        before = {port.guid: port.m_key for port in site.ports()}
        site.swap(HOST, OTHER)
        seen = site.arrivals()
        with pytest.raises(Refused, match="changed since it was read"):
            carry_out(writer, run, results.append)
    assert keyed(site, seen) == []
    assert {port.guid: port.m_key for port in site.ports()} == before
    assert site.quiet()


def test_a_link_that_moves_in_the_middle_of_a_run_fails_its_port_alone(site: Site) -> None:
    """What was looked at more than a second ago is looked at again before the next key goes out."""
    results: list[PortResult] = []

    def report(result: PortResult) -> None:
        results.append(result)
        if len(results) == 2:
            site.swap(HOST, OTHER)
            site.sm_sweeps()
            site.net.advance(2)

    with site.open() as fabric, ChangeWriter(fabric, "test") as writer:
        run = plan_run(writer, "mkey-rotate", RunOptions(protect=2, lease=60, at_once=1))
        places = [job.port.node.description for job in run.jobs]
        keys = {job.wanted.key.reveal().to_bytes(8): job.port.node.description for job in run.jobs}
        keys |= {port.m_key.to_bytes(8): port.node.description for port in site.ports()}
        seen = site.arrivals()
        carry_out(writer, run, report)
    assert HOST in places[2:], "otherwise the cables move when both are done with"
    assert OTHER in places[2:]
    failed = [str(result.reason) for result in results if result.result == "failed"]
    assert len(failed) == 2
    assert all("changed since it was read" in reason for reason in failed)
    assert [(node, keys[key]) for node, _, key in seen if key in keys and keys[key] != node] == []
    assert site.quiet()

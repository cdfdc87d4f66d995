"""A rollout of M_Keys for tests: a subnet, and a tool that gives and takes its keys in one run after another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ibkeys.keys.mkey import MKey
from ibkeys.mkeys.planning_options import PlanningOptions
from ibkeys.mkeys.rollout.going_back import plan_return
from ibkeys.mkeys.rollout.new_keys import plan_run
from ibkeys.mkeys.rollout.planned_run import PlannedRun
from ibkeys.mkeys.rollout.removal import OF_REMOVAL, plan_removal
from ibkeys.mkeys.rollout.rest_of_run import plan_rest
from ibkeys.mkeys.rollout.result import PortResult
from ibkeys.mkeys.rollout.run_plan import carry_out
from ibkeys.sim.subnet import Subnet
from ibkeys.store.journal.runs import RunOptions
from ibkeys.store.keystore.keystore import KeyStore
from tests.fabricsim import subnet, tool, writer
from tests.spy import spy

LEVEL_2 = RunOptions(protect=2, lease=60)
KEY = MKey(0x83F1C05E9A2D7B46)
NAME = "node02 mlx4_0"
Plan = Callable[[Any], PlannedRun]


def deploy(options: RunOptions = LEVEL_2, key: MKey | None = None, **more: Any) -> Plan:
    return lambda w: plan_run(w, "mkey-deploy", options, key, PlanningOptions(**more))


def rotate(options: RunOptions = LEVEL_2, key: MKey | None = None, **more: Any) -> Plan:
    return lambda w: plan_run(w, "mkey-rotate", options, key, PlanningOptions(**more))


def remove(leaves_open: bool = False, **limits: Any) -> Plan:
    return lambda w: plan_removal(w, replace(OF_REMOVAL, **limits), PlanningOptions(leaves_open=leaves_open))


def resume(w: Any) -> PlannedRun:
    return plan_rest(w)


def go_on(w: Any) -> PlannedRun:
    return plan_rest(w)


def undo(w: Any) -> PlannedRun:
    return plan_return(w, PlanningOptions(leaves_open=True))


class Site:
    """A subnet, and the files of a tool that is run there again and again."""

    def __init__(self, net: Subnet, folder: Path) -> None:
        self.net = net
        self.folder = folder
        self.stores = {"keystore": folder / "keys.db", "journal": folder / "journal.db"}
        self.results: list[PortResult] = []
        self.record: list[bytes] = []

    def run(
        self,
        plan: Plan,
        *overrides: str,
        before: Callable[[Any], None] = lambda fabric: None,
        report: Callable[[PortResult], None] | None = None,
        **options: Any,
    ) -> PlannedRun:
        """Plan, call *before* with the fabric, carry out. ``results`` and ``record`` are those of this run.

        A node that *before* silences is in the plan, and fails. One that was silent earlier is not found by the sweep.
        """
        self.results, self.record = [], []
        with tool(self.net, **self.stores, **options) as fabric, writer(fabric, *overrides) as w:
            run = plan(w)
            self.record = spy(fabric)
            before(fabric)
            carry_out(w, run, report or self.results.append)
            return run

    def plan(self, plan: Plan, **options: Any) -> PlannedRun:
        with tool(self.net, **self.stores, **options) as fabric, writer(fabric) as w:
            return plan(w)

    def ports(self) -> list[Any]:
        return [port for node in self.net.nodes for port in node.end_ports if port.is_up or port.number == 0]

    def states(self) -> set[tuple[int, int]]:
        return {(port.protect_bits, port.lease_period) for port in self.ports()}

    def keys(self) -> dict[int, int]:
        """Return the key that each port has, by port GUID."""
        return {port.guid: port.m_key for port in self.ports()}

    def current(self) -> dict[int, int]:
        """Return the key that the key store has for each port, by port GUID."""
        with KeyStore(self.stores["keystore"], create=False) as store:
            return {guid: key.reveal() for guid, key in store.current().items()}

    def violations(self) -> int:
        return sum(port.m_key_violations for port in self.ports())

    def reasons(self, result: str) -> dict[str, str | None]:
        return {each.port["node_desc"]: each.reason for each in self.results if each.result == result}


def site_of(name: str, tmp_path: Path) -> Site:
    return Site(subnet(name), tmp_path)

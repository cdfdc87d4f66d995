"""A plan from what a fabric, or a snapshot of one, has now."""

from __future__ import annotations

from dataclasses import replace

from ibkeys.discovery.wanted import OnFound, Wanted
from ibkeys.fabric.live import LiveFabric
from ibkeys.fabric.recorded import RecordedFabric
from ibkeys.partitions.model import Policy
from ibkeys.plan.live_policy import live_policy
from ibkeys.plan.model import PartitionPlan, PlanOptions, PolicySource
from ibkeys.plan.planner import make_plan
from ibkeys.plan.tables.leaf_ports import enforcement_as_is
from ibkeys.topology.model import Topology
from ibkeys.topology.subnet_manager import shown_subnet_manager


def sweep_for_plan(
    source: LiveFabric | RecordedFabric, policy: Policy, progress: OnFound | None = None
) -> tuple[Topology, PolicySource | None]:
    """Return what a plan of *policy* has to know of a fabric, and what the master's OpenSM has as its policy, where it
    runs on this host. Raises what `sweep` raises."""
    found = source.sweep(progress=progress, wanted=Wanted(p_keys=True, sm_info=True))
    source.read_alias_guids(found, policy.named_guids)
    if not isinstance(source, LiveFabric) or source.is_simulated:
        return found, None
    return found, live_policy(found, source.own_guid)


def plan_of_sweep(
    policy: Policy,
    found: Topology,
    live: PolicySource | None,
    options: PlanOptions,
    *,
    as_is: bool = False,
    sm_guid: int | None = None,
    full: bool = False,
    force: bool = False,
) -> PartitionPlan:
    """Return what *policy* changes on what `sweep_for_plan` *found*.

    *as_is*: leaf ports enforce what they enforce now, where that is the same everywhere, and not what *options* say.
    *sm_guid*: port GUID of the subnet manager, for SELF; by default what the sweep says. *full*, *force*: as
    `make_plan` has them. Raises what `make_plan` raises.
    """
    if as_is:
        options = replace(options, enforce=enforcement_as_is(found) or options.enforce)
    manager = shown_subnet_manager(found)
    if sm_guid is not None:
        manager = replace(manager, port_guid=sm_guid)
    return replace(make_plan(policy, found, options, manager, full=full, force=force), live_policy=live)

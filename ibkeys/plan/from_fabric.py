"""A plan for a policy on a fabric, or on a snapshot of one."""

from __future__ import annotations

from dataclasses import replace

from ibkeys.discovery.wanted import OnFound, Wanted
from ibkeys.fabric.live import LiveFabric
from ibkeys.fabric.recorded import RecordedFabric
from ibkeys.host.host_files import THIS_HOST
from ibkeys.managers.opensm.on_this_host import own_socket
from ibkeys.managers.report import join_reports, report_on_host
from ibkeys.managers.subnet_managers import managers_of
from ibkeys.partitions.model import Policy
from ibkeys.plan.model import PartitionPlan, PlanOptions, PolicySource
from ibkeys.plan.planner import make_plan
from ibkeys.plan.tables.leaf_ports import enforcement_as_is
from ibkeys.topology.model import Topology
from ibkeys.topology.subnet_manager import shown_subnet_manager


def sweep_for_plan(
    source: LiveFabric | RecordedFabric, policy: Policy, progress: OnFound | None = None
) -> tuple[Topology, PolicySource | None]:
    """Return the sweep that a plan of *policy* needs, and the present policy of the master's OpenSM; None if that does
    not run on this host. Raises the errors of `sweep`."""
    found = source.sweep(progress=progress, wanted=Wanted(p_keys=True, sm_info=True))
    source.read_alias_guids(found, policy.named_guids)
    if not isinstance(source, LiveFabric) or source.is_simulated:
        return found, None
    return found, _live_policy(found, source.own_guid)


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
    """Return the plan of the changes by *policy* on the fabric that `sweep_for_plan` *found*.

    *as_is*: leaf ports keep their enforcement, if it is the same everywhere, in place of that of *options*. *sm_guid*:
    port GUID of the subnet manager, for SELF; by default the one that the sweep shows. *full*, *force*: as in
    `make_plan`. Raises the errors of `make_plan`.
    """
    if as_is:
        options = replace(options, enforce=enforcement_as_is(found) or options.enforce)
    manager = shown_subnet_manager(found)
    if sm_guid is not None:
        manager = replace(manager, port_guid=sm_guid)
    return replace(make_plan(policy, found, options, manager, full=full, force=force), live_policy=live)


def _live_policy(found: Topology, own_guid: int) -> PolicySource | None:
    """Return the policy of the one master that a sweep *found*, if its OpenSM runs on this host and the file can be
    read; its digest is "" if there is no file. None: not known. *own_guid*: the GUID of the port from which the sweep
    went out."""
    master = join_reports(
        managers_of(found), [report_on_host(THIS_HOST, socket=own_socket())], [own_guid]
    ).master_instance()
    if master is None:
        return None
    file, policy = master.files["policy"], master.policy
    if policy is not None:
        return PolicySource(str(file.path), policy.digest, policy.data)
    return PolicySource(str(file.path), "") if file.is_there is False else None

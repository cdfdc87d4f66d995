"""Making a plan for a policy on a live fabric or a snapshot: the sweep that it needs, and the plan of that sweep."""

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
    """Sweep *source* for a plan of *policy*; return the topology, and the present policy of the master's OpenSM.

    The present policy is None if that OpenSM does not run on this host, or if *source* is a snapshot or simulated.
    Calls *progress* as `sweep` does. Raises the errors of `sweep`.
    """
    fabric = source.sweep(progress=progress, wanted=Wanted(p_keys=True, sm_info=True))
    source.read_alias_guids(fabric, policy.named_guids)
    if not isinstance(source, LiveFabric) or source.is_simulated:
        return fabric, None
    return fabric, _live_policy(fabric, source.own_guid)


def plan_of_sweep(
    policy: Policy,
    fabric: Topology,
    live: PolicySource | None,
    options: PlanOptions,
    *,
    as_is: bool = False,
    sm_guid: int | None = None,
    full: bool = False,
    force: bool = False,
) -> PartitionPlan:
    """Return the plan of the changes by *policy* on *fabric*; *fabric* and *live* are the results of `sweep_for_plan`.

    *as_is*: if all leaf ports have the same enforcement, they keep it, whatever *options* has. *sm_guid*: the port GUID
    of the subnet manager, for SELF; by default that of the master SM in the sweep. *full*, *force*: as in `make_plan`.
    Raises the errors of `make_plan`.
    """
    if as_is:
        options = replace(options, enforce=enforcement_as_is(fabric) or options.enforce)
    manager = shown_subnet_manager(fabric)
    if sm_guid is not None:
        manager = replace(manager, port_guid=sm_guid)
    return replace(make_plan(policy, fabric, options, manager, full=full, force=force), live_policy=live)


def _live_policy(fabric: Topology, own_guid: int) -> PolicySource | None:
    """Return the policy of the master SM of *fabric*, if there is one master, its OpenSM runs on this host, and the
    file can be read; else None. The digest is "" if there is no file. *own_guid*: the GUID of the port that did the
    sweep."""
    master = join_reports(
        managers_of(fabric), [report_on_host(THIS_HOST, socket=own_socket())], [own_guid]
    ).master_instance()
    if master is None:
        return None
    file, policy = master.files["policy"], master.policy
    if policy is not None:
        return PolicySource(str(file.path), policy.digest, policy.data)
    return PolicySource(str(file.path), "") if file.is_there is False else None

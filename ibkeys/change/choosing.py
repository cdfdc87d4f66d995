"""Choosing the method of a change of many ports: gathers the facts of fabric and hosts for `ibkeys.change.method`.

A method is chosen once, when a change is planned. If the facts lead to another method when the change is made or
resumed, it is refused (``stale``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final

from ibkeys.arguments import given
from ibkeys.change.method import MethodChoice, MethodName, SmFact, SubnetFacts, method_for
from ibkeys.change.writer import ChangeWriter
from ibkeys.discovery.wanted import OnFound, Wanted
from ibkeys.errors import HostNotReached
from ibkeys.managers.hosts import SmHost, report_on_hosts
from ibkeys.managers.opensm.on_this_host import own_socket
from ibkeys.managers.report import HostReport, join_reports, report_not_reached, report_on_host
from ibkeys.managers.site import ReachedHost, reach, stale_for_good
from ibkeys.managers.subnet_managers import managers_of
from ibkeys.store.journal import Journal
from ibkeys.topology.model import Topology

KEPT_CHOICE: Final = "method_chosen"
"""The name of an option in the journal: true if ibkeys chose the method of the operation, else the user named it."""
_SM_INFO: Final = Wanted(sm_info=True)


def facts_of(topology: Topology, host_reports: Sequence[HostReport], own_guid: int) -> SubnetFacts:
    """Return the facts that decide the method, from a sweep with SMInfo (*topology*) and the hosts that were examined
    (*host_reports*).

    *own_guid*: the GUID of the port from which the sweep went out. SMs and OpenSM processes are matched by
    `ibkeys.managers.report.join_reports`.
    """
    report = join_reports(managers_of(topology), host_reports, [own_guid])
    hosts: dict[int | None, list[str]] = {}
    for each in report.instances():
        hosts.setdefault(each.port_guid, []).append(each.host)
    sms = []
    for manager in report.managers or ():
        on = tuple(hosts.get(manager.guid, ()))
        sms.append(SmFact(str(manager.port), manager.state, manager.port.is_sm, on))
    unreached = [f"host {host.name}: {host.error}" for host in report.hosts if host.error]
    return SubnetFacts(
        tuple(sms), tuple(each.name for each in report.instances()), tuple(unreached), len(topology.troubles)
    )


def choose_from(topology: Topology, hosts: Sequence[SmHost], own_guid: int) -> MethodChoice:
    """Choose a method after a sweep with SMInfo (*topology*), and return the choice. *hosts* are examined now, this
    host first. Raises UsageError for another name of this host."""
    return method_for(facts_of(topology, report_on_hosts(hosts, own_socket()), own_guid))


def choose_method(
    writer: ChangeWriter,
    hosts: Sequence[SmHost],
    wanted: Wanted = _SM_INFO,
    progress: OnFound | None = None,
    prepare: Callable[[Sequence[ReachedHost]], object] = lambda reached: None,
) -> MethodChoice | None:
    """Examine *hosts*, this one first, sweep, and return the choice of the method; None on a simulated subnet, which
    has only one method.

    *wanted*: the attributes that the sweep reads; SMInfo must be among them. The change that follows uses the same
    sweep. *progress*: called by the sweep. *prepare*: called before the sweep with the hosts that were reached. Raises
    UsageError for another name of this host, and the errors of *prepare* and of `Fabric.sweep`.
    """
    fabric = writer.fabric
    if fabric.is_simulated:
        return None
    with ExitStack() as stack:
        reached, host_reports = list[ReachedHost](), list[HostReport]()
        for host in hosts:
            try:
                reached += reach(stack.enter_context, [host])
            except HostNotReached as error:
                host_reports.append(report_not_reached(error))
        prepare(reached)
        topology = writer.sweep_for_choice(wanted, progress)
        host_reports += [report_on_host(each.machine.files, each.host.entry, own_socket()) for each in reached]
    return method_for(facts_of(topology, host_reports, fabric.own_guid))


def verify_choice(
    writer: ChangeWriter, operation: int, method: str, topology: Topology, hosts: Sequence[SmHost]
) -> None:
    """Check that *method*, which sends Sets and was chosen for *operation*, would be chosen now too. *topology*: the
    result of a sweep with SMInfo. *hosts* are examined again. Does nothing if the user named the method. Raises Refused
    (``stale``), StoreError."""
    with Journal.read(writer.fabric.stores.journal) as journal:
        if not journal.options_of(operation).get(KEPT_CHOICE):
            return
    choice = choose_from(topology, hosts, writer.fabric.own_guid)
    if choice.method != method:
        raise stale_for_good(
            f"operation {operation} sends Sets because no subnet manager ran, and now one may: {choice.reason}"
        ).unchanged(f"stop it, then `ibkeys resume {operation}`, or `ibkeys undo {operation}`")


def refuse_other_choice(planned: MethodName | None, choice: MethodChoice) -> None:
    """Raise Refused (``stale``) if *choice* is another method than the *planned* one, and Refused (`METHOD`) if it is
    none. *planned* None: the plan leaves the method open."""
    if planned not in (None, choice.require()):
        raise stale_for_good(
            f"the plan was made to be applied with the method {planned}, and now it would be: {choice.reason}"
        ).unchanged(
            given(
                f"plan again, or type the method: `--via {planned}` or `--via {choice.method}`",
                "plan again, or give the method with via=",
            )
        )

"""Choosing the method of a change of many ports (`ibkeys.change.method`): the facts of fabric and hosts.

A method is chosen once, when a change is planned: where the fabric says another one later, that is refused (``stale``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final

from ibkeys.arguments import given
from ibkeys.change.method import MethodChoice, MethodName, SmFact, SubnetFacts, choose
from ibkeys.change.writer import ChangeWriter
from ibkeys.discovery.wanted import OnFound, Wanted
from ibkeys.errors import HostNotReached
from ibkeys.managers.hosts import SmHost, look_at_hosts
from ibkeys.managers.opensm.on_this_host import own_socket
from ibkeys.managers.report import HostReport, join, look_at_host, not_reached
from ibkeys.managers.site import ReachedHost, reach, stale_for_good
from ibkeys.managers.subnet_managers import managers_of
from ibkeys.store.journal import Journal
from ibkeys.topology.model import Topology

KEPT_CHOICE: Final = "method_chosen"
"""Under this name the journal keeps that the method of an operation was chosen, and not typed."""
_SM_INFO: Final = Wanted(sm_info=True)


def facts_of(found: Topology, looked: Sequence[HostReport], own_guid: int) -> SubnetFacts:
    """Return the facts that a sweep with SMInfo *found*, and those of the hosts that were *looked* at. *own_guid*: the
    port that was swept from.

    Which OpenSM is which SM follows as in `ibkeys.managers.report.join`.
    """
    report = join(managers_of(found), looked, [own_guid])
    hosts: dict[int | None, list[str]] = {}
    for each in report.instances():
        hosts.setdefault(each.port_guid, []).append(each.host)
    sms = []
    for manager in report.managers or ():
        on = tuple(hosts.get(manager.guid, ()))
        sms.append(SmFact(str(manager.port), manager.state, manager.port.is_sm, on))
    unreached = [f"host {host.name}: {host.error}" for host in report.hosts if host.error]
    return SubnetFacts(
        tuple(sms), tuple(each.name for each in report.instances()), tuple(unreached), len(found.troubles)
    )


def choose_from(found: Topology, hosts: Sequence[SmHost], own_guid: int) -> MethodChoice:
    """Return the method after a sweep with SMInfo; *hosts*, this one first, are examined. Raises nothing."""
    return choose(facts_of(found, look_at_hosts(hosts, own_socket()), own_guid))


def choose_method(
    writer: ChangeWriter,
    hosts: Sequence[SmHost],
    wanted: Wanted = _SM_INFO,
    progress: OnFound | None = None,
    prepare: Callable[[Sequence[ReachedHost]], object] = lambda reached: None,
) -> MethodChoice | None:
    """Examine *hosts*, this one first, sweep, and return the method; None on a simulated subnet, which has only one.

    *wanted*: what the sweep reads, SMInfo among it; the sweep of the change that follows is this one. *prepare*: called
    before it with the hosts that were reached. Raises what that and `Fabric.sweep` raise.
    """
    fabric = writer.fabric
    if fabric.is_simulated:
        return None
    with ExitStack() as stack:
        reached, looked = list[ReachedHost](), list[HostReport]()
        for host in hosts:
            try:
                reached += reach(stack.enter_context, [host])
            except HostNotReached as error:
                looked.append(not_reached(error))
        prepare(reached)
        found = writer.sweep_for_choice(wanted, progress)
        looked += [look_at_host(each.machine.files, each.host.named, own_socket()) for each in reached]
    return choose(facts_of(found, looked, fabric.own_guid))


def verify_choice(writer: ChangeWriter, operation: int, found: Topology, hosts: Sequence[SmHost]) -> None:
    """Check that an *operation* by Sets of ibkeys, whose method was chosen, would go that way now too. *found*: a
    sweep. Raises Refused (``stale``), StoreError."""
    with Journal.read(writer.fabric.stores.journal) as journal:
        if not journal.options_of(operation).get(KEPT_CHOICE):
            return
    choice = choose_from(found, hosts, writer.fabric.own_guid)
    if choice.method != "direct":
        raise stale_for_good(
            f"operation {operation} sends Sets because no subnet manager ran, and now one may: {choice.found}"
        ).unchanged(f"stop it, then `ibkeys resume {operation}`, or `ibkeys undo {operation}`")


def refuse_other_choice(planned: MethodName | None, choice: MethodChoice) -> None:
    """Raise Refused (``stale``) where another method is chosen now than was *planned*."""
    if planned not in (None, choice.require()):
        raise stale_for_good(
            f"the plan was made to be applied with the method {planned}, and now it would be: {choice.found}"
        ).unchanged(
            given(
                f"plan again, or type the method: `--via {planned}` or `--via {choice.method}`",
                "plan again, or give the method with via=",
            )
        )

"""The command `policy-from`: a policy written from a fabric or a snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ibkeys.cli import exits, options
from ibkeys.cli.documents.policies import POLICY_FROM
from ibkeys.cli.exits import clean, write, write_as_is
from ibkeys.cli.help.command import command
from ibkeys.cli.opening import open_source
from ibkeys.cli.options import Where
from ibkeys.cli.render import write_document
from ibkeys.cli.showing import errors_of, finish, sweep, values_of
from ibkeys.cli.sm.policy import is_opensm, master_policy, read_accepted
from ibkeys.cli.sm.ufm import UfmOptions, ufm_options
from ibkeys.grouping import grouped
from ibkeys.printable import counted
from ibkeys.topology.names.folded import FoldedNames
from ibkeys.version import __version__

if TYPE_CHECKING:
    from ibkeys.plan.policies.from_fabric import MadePolicy
    from ibkeys.topology.model import Topology


@command("policy-from")
@options.policy("Take the names, flags and groups of partitions from this policy: they cannot be read from the fabric.")
@options.sm_guid
@options.option("--out", env=False, metavar="FILE", help="Write the policy to this file.")
@options.flag("--force", help="Replace a policy that an OpenSM on this host reads.")
@options.override
@options.format_of(
    ["conf", "json", "csv"], "Form of the output; conf is the policy itself.  [default: conf]", default="conf"
)
@ufm_options
@options.reading
def policy_from(
    where: Where,
    ufm: UfmOptions,
    policy: str | None,
    sm_guid: int | None,
    out: str | None,
    force: bool,
    override: tuple[str, ...],
    format: str,
) -> int:
    """Write a policy that describes the current fabric.

    Each member is named by its GUID, with its name in a comment. In the default partition, the membership that most
    ports have is written once, as ALL, and the exceptions are listed. Lists what a partitions.conf cannot express.
    Exits 1 if planning this policy on the same fabric would change something.
    """
    from ibkeys.automation.named_ports import known_ports
    from ibkeys.cli.policies.edited import PolicyFile, refuse_by_interlocks
    from ibkeys.discovery.wanted import Wanted
    from ibkeys.plan.policies.from_fabric import policy_from as made_from
    from ibkeys.topology.subnet_manager import shown_subnet_manager

    definitions_source = read_accepted(policy, ufm) if policy is not None else None
    place = PolicyFile.read_if_there(out) if out is not None else None
    if place is not None:
        refuse_by_interlocks(place, force, override, only_say=False)
    with open_source(where) as source:
        if is_opensm(policy):
            definitions_source = master_policy(source).policy
        topology = sweep(source, where, wanted=Wanted(p_keys=True, sm_info=True))
    manager = shown_subnet_manager(topology)
    if sm_guid is not None:
        manager = replace(manager, port_guid=sm_guid)
    labels = known_ports(topology.end_ports()).labels
    definitions = definitions_source.definitions if definitions_source is not None else ()
    by_base = grouped(definitions, lambda each: each.base)
    made_policy = made_from(
        topology, manager, lambda base: by_base.get(base, ()), labels, _about(where, topology, policy)
    )
    _write_remarks(made_policy, policy, FoldedNames(port.identity() for port in topology.ports()))
    text = made_policy.policy.data or b""
    if place is not None:
        place.write(text)
    rows = _rows(made_policy)
    if not write_document(format, POLICY_FROM, lambda: _document(made_policy, topology), rows):
        if place is None:
            write_as_is(text.decode("utf-8", "surrogateescape"))
        else:
            to_check = f"ibkeys plan {place.name} {_options(made_policy)}".rstrip()
            write(clean(f"written: {place.name}; to check it: {to_check}"))
    errors = errors_of(topology)
    return finish(errors, "table" if format == "conf" else format) or (
        exits.SAYS_NO if made_policy.plan.pending else exits.DONE
    )


def _about(where: Where, topology: Topology, policy: str | None) -> Iterator[str]:
    ports = sum(1 for _ in topology.end_ports())
    yield f"The P_Key tables of {counted(ports, 'end port')} as they are, written by ibkeys {__version__} policy-from"
    if where.snapshot is not None:
        yield f"from the snapshot {where.snapshot}"
    if policy is not None:
        yield f"with names, flags and groups of {policy}"
    else:
        yield "No P_Key table has names, flags (ipoib) and multicast groups: add them where they are wanted"


def _write_remarks(made_policy: MadePolicy, policy: str | None, names: FoldedNames) -> None:
    """Write the facts of the fabric that the policy lacks, and warnings about the policy, to standard error."""
    from ibkeys.partitions.lint import lint

    if policy is None:
        exits.note(
            "P_Key tables do not show names, IPoIB and multicast groups of partitions: --policy takes them from the "
            "present policy; otherwise add ipoib by hand"
        )
    for each in made_policy.unsaid:
        where = ", ".join(names.words(port.identity() for port in each.ports))
        exits.warn(f"{each.message}: {where}", "not said" if _is_changed_by_plan(made_policy, each.kind) else "note")
    for problem in lint(made_policy.policy):
        if problem.severity == "warning":
            exits.warn(f"the policy: {problem.message} [{problem.code}]")
    if _options(made_policy):
        exits.note(
            f"to plan this policy with the settings that the fabric has now, use: ibkeys plan {_options(made_policy)}"
        )


def _is_changed_by_plan(made_policy: MadePolicy, kind: str) -> bool:
    return made_policy.plan.pending and kind not in ("both-forms", "index-0", "index-order")


def _options(made_policy: MadePolicy) -> str:
    """Return the options of `plan` with which the policy changes least. Options at their default are left out."""
    plan_options = made_policy.plan.options
    words = [f"--enforce {plan_options.enforce}"] if plan_options.enforce != "both" else []
    return " ".join([*words, "--allow-both-pkeys"] if plan_options.allow_both_pkeys else words)


def _document(made_policy: MadePolicy, topology: Topology) -> dict[str, Any]:
    return {
        "policy": (made_policy.policy.data or b"").decode("utf-8", "backslashreplace"),
        "digest": made_policy.policy.digest,
        "pending": made_policy.plan.pending,
        "options": values_of(made_policy.plan.options, ("enforce", "allow_both_pkeys")),
        "unsaid": [
            {"kind": each.kind, "message": each.message, "ports": [port.identity() for port in each.ports]}
            for each in made_policy.unsaid
        ],
        "errors": errors_of(topology),
        "unreached": topology.unreached,
    }


def _rows(made_policy: MadePolicy) -> Iterator[dict[str, Any]]:
    for each in made_policy.unsaid:
        for port in each.ports:
            yield {**port.identity(), "kind": each.kind, "message": each.message}

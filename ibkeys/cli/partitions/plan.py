"""The command `plan`: the changes that a partition policy would make to a fabric, as a file to review and in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ibkeys.cli import exits, options
from ibkeys.cli.documents.plans import PLAN
from ibkeys.cli.exits import clean, write, write_as_is, write_each, write_exact
from ibkeys.cli.given import is_typed
from ibkeys.cli.help.command import command
from ibkeys.cli.listing.folding import indented
from ibkeys.cli.opening import open_source
from ibkeys.cli.options import SmHosts
from ibkeys.cli.partitions.changed_ports import changed_ports
from ibkeys.cli.render import write_rows
from ibkeys.cli.screen.colour import paint
from ibkeys.cli.showing import ROUTES_DECIDE, errors_of, finish, note_stops_between_switches, progress_bar, say_notes
from ibkeys.cli.site import fixed_method
from ibkeys.cli.sm.hosts import hosts_of
from ibkeys.cli.sm.policy import master_policy, read_accepted, require_file
from ibkeys.cli.sm.ufm import PolicyOptions, policy_options
from ibkeys.cli.types import GUID, PKEY
from ibkeys.errors import UsageError
from ibkeys.printable import counted, named
from ibkeys.topology.names.folded import FoldedNames

if TYPE_CHECKING:
    from ibkeys.change.method import MethodChoice
    from ibkeys.managers.hosts import SmHost
    from ibkeys.managers.master_policy import MasterPolicy
    from ibkeys.partitions.living_groups import LivingGroups
    from ibkeys.partitions.model import Policy
    from ibkeys.plan.model import PartitionPlan
    from ibkeys.source import Source
    from ibkeys.topology.model import Topology
    from ibkeys.topology.port_id import PortId


@dataclass(frozen=True, slots=True)
class _PlanCommandOptions(PolicyOptions):
    """The options of `plan`: the policy, how it is planned, and the file for the plan."""

    policy_file: str | None = options.field(
        "--policy",
        "policy_file",
        cls=options.PolicyOrFile,
        metavar="FILE|opensm|ufm:URL",
        help="The policy, in place of FILE.",
    )
    out: str | None = options.field("--out", metavar="PLAN", env=False, help="Write the plan to this file, for apply.")
    enforce: str = options.field(
        "--enforce",
        env=False,
        type=click.Choice(["both", "in", "out", "off"]),
        default="both",
        help="Directions in which leaf switch ports enforce, like OpenSM's part_enforce.  [default: both]",
    )
    allow_both_pkeys: bool = options.field_of(options.allow_both_pkeys, default=False)
    disconnect_unconfigured: bool = options.flag_field(
        "--disconnect-unconfigured", help="Remove the default P_Key from CA ports that are in no other partition."
    )
    allow_index_moves: tuple[str, ...] = options.repeated_field(
        "--allow-index-moves", "PARTITION", "Partition whose P_Keys may move; repeatable, or all."
    )
    sm_guid: int | None = options.field(
        "--sm-guid", env=False, type=GUID, metavar="GUID", help="Port GUID of the subnet manager, for SELF."
    )
    full: bool = options.flag_field("--full", help="Also list the tables that stay as they are.")
    force: bool = options.flag_field("--force", help="Plan the disconnection even if a subnet manager may be master.")


@dataclass(frozen=True, slots=True)
class _ScriptOptions:
    """The options for a script that a user runs by hand, and for facts about the host where it will run."""

    script: str | None = options.field(
        "--script",
        env=False,
        type=click.Choice(["opensm", "ufm"]),
        help="Write the steps as a script to run by hand: on OpenSM's host, or with curl at UFM.",
    )
    present: str | None = options.field(
        "--present", env=False, metavar="FILE", help="With --script opensm: a copy of its present policy."
    )
    allow_break: bool = options.flag_field(
        "--allow-break", help="With --script: allow steps that temporarily disconnect pairs."
    )


@command("plan")
@policy_options(
    _PlanCommandOptions, options.policy_argument, options.group("script_options", _ScriptOptions), options.sm_hosts
)
def plan(command_options: _PlanCommandOptions, script_options: _ScriptOptions, sm_hosts: SmHosts) -> int:
    """Show what a partition policy would change.

    FILE is the partition policy, a partitions.conf. It may be the word opensm: the policy of the master on this host;
    or ufm:URL: the partitions of that UFM.

    Reads the whole fabric and writes nothing to it. Every P_Key that a port keeps stays at its index. Exits 1 when
    there is something to change.
    """
    from ibkeys.apply.carriers import CARRIERS
    from ibkeys.partitions.joining import refused_members
    from ibkeys.plan.document import check_place, write_plan
    from ibkeys.plan.from_fabric import plan_of_sweep, sweep_for_plan
    from ibkeys.plan.model import PlanOptions
    from ibkeys.plan.order import new_members
    from ibkeys.reach.reach import Reach

    where, format, each = command_options.where, command_options.format, command_options.folding.each
    folded = command_options.folding.is_folded(format)
    if command_options.policy_file is None:
        raise UsageError("Missing argument FILE: the partition policy, such as /etc/opensm/partitions.conf")
    _check_options(script_options, format)
    copy = _present_policy(script_options.present)
    policy = read_accepted(command_options.policy_file, command_options.ufm)  # before the fabric is opened
    if command_options.out is not None:
        check_place(Path(command_options.out))
    if policy is not None and policy.says is None:
        _warn_of_policy(policy)
    with open_source(where) as source, progress_bar(where) as progress:
        if policy is None:
            master = master_policy(source)
            policy, command_options = master.policy, _with_options_of(command_options, master)
            _warn_of_policy(policy)
        moves = _movable_partitions(policy, command_options.allow_index_moves)
        topology, live = sweep_for_plan(source, policy, progress)
        choice = _method(source, topology, hosts_of(where, sm_hosts)) if policy.says is None else None
    is_of_ufm = policy.says is not None or script_options.script == "ufm"  # UFM does not report enforcement
    plan_options = PlanOptions(
        command_options.enforce,  # type: ignore[arg-type]
        command_options.allow_both_pkeys,
        command_options.disconnect_unconfigured,
        moves,
    )
    say_notes(topology)
    partition_plan = plan_of_sweep(
        policy,
        topology,
        live,
        plan_options,
        as_is=is_of_ufm and not is_typed("enforce"),
        sm_guid=command_options.sm_guid,
        full=command_options.full or script_options.script is not None,
        force=command_options.force,
    )
    partition_plan = replace(partition_plan, method=choice.method if choice is not None else None)
    is_by_script = script_options.script is not None
    method = partition_plan.method
    is_by_manager = is_of_ufm or is_by_script or (method is not None and not CARRIERS[method].kind.sends_sets)
    if is_by_manager or where.snapshot is not None:
        partition_plan = _made_by_manager(partition_plan)
    groups = partition_plan.living_groups
    joining = {**new_members(partition_plan.tables), **dict.fromkeys(groups.partitions)}
    exits.warn_each(refused_members(policy, joining, topology, plan_options.allow_both_pkeys), "note")
    exits.warn_each(groups.notes(), "note")
    uncompared = _uncompared_groups(partition_plan, policy, source)
    if uncompared:
        why = "is not in a snapshot" if where.snapshot is not None else "was not found on this host"
        exits.note(
            f"the flags of multicast groups of {named(uncompared)} were not compared: the policy of the master SM "
            f"{why}: run plan on the SM's host, or `ibkeys compare --ipoib --policy FILE`"
        )
    if command_options.out is not None:
        write_plan(partition_plan, Path(command_options.out))
    if script_options.script is not None:
        _write_script(partition_plan, script_options, copy, partition_plan.fabric.sm_guid)
    else:
        _write(partition_plan, policy, topology, format, folded, choice, bool(uncompared))
    if partition_plan.reach.unknown:
        reach = Reach(topology)
        note_stops_between_switches(reach)
        exits.warn(f"which pairs gain or lose connectivity is not known: {ROUTES_DECIDE}", "error")
        return finish(errors_of(topology), format, each=each) or exits.NOT_COMPLETED
    return finish(errors_of(topology), format, each=each) or (
        exits.SAYS_NO if partition_plan.pending or groups.differ else exits.DONE
    )


def _uncompared_groups(partition_plan: PartitionPlan, policy: Policy, source: Source) -> tuple[str, ...]:
    """Return the partitions whose policy gives flags to multicast groups that could not be compared with those of the
    policy in force. A simulated subnet has none; UFM's policy has no flags."""
    from ibkeys.fabric.recorded import RecordedFabric
    from ibkeys.partitions.living_groups import partitions_with_flags

    is_compared = partition_plan.live_policy is not None or partition_plan.policy.is_of_ufm
    is_simulated = source.snapshot.about.simulated if isinstance(source, RecordedFabric) else source.is_simulated
    return () if is_compared or is_simulated else partitions_with_flags(policy)


def _method(source: Source, topology: Topology, hosts: Sequence[SmHost]) -> MethodChoice | None:
    """Return the method by which `ibkeys apply` would apply the plan now; None for a snapshot or a simulated subnet.

    It is the method of the site file, or else the one that fits the state of the fabric.
    """
    from ibkeys.change.choosing import choose_from
    from ibkeys.change.method import fixed_by_site
    from ibkeys.fabric.live import LiveFabric

    if not isinstance(source, LiveFabric) or source.is_simulated:
        return None
    of_site = fixed_method()
    return choose_from(topology, hosts, source.own_guid) if of_site is None else fixed_by_site(of_site)


def _made_by_manager(partition_plan: PartitionPlan) -> PartitionPlan:
    """Return *partition_plan* without the problem that a subnet manager overwrites Sets, because none will be sent.

    With a snapshot that is left to `apply`, which chooses the method for the fabric as it then is.
    """
    kept = tuple(problem for problem in partition_plan.problems if problem.kind != "active-sm")
    return replace(partition_plan, problems=kept)


def _check_options(script_options: _ScriptOptions, format: str) -> None:
    if script_options.script is None and (script_options.present is not None or script_options.allow_break):
        raise UsageError("--present and --allow-break require --script")
    if script_options.script is not None and format != "table":
        raise UsageError(f"--script writes steps for a person, and -f {format} is for programs")


def _with_options_of(command_options: _PlanCommandOptions, master: MasterPolicy) -> _PlanCommandOptions:
    """Return *command_options* with the options of *master*, whose policy is planned. Typed options stay unchanged."""
    enforce = command_options.enforce if is_typed("enforce") else master.part_enforce or command_options.enforce
    return replace(
        command_options,
        enforce=enforce,
        allow_both_pkeys=command_options.allow_both_pkeys or bool(master.allow_both_pkeys),
    )


def _write(
    partition_plan: PartitionPlan,
    policy: Policy,
    topology: Topology,
    format: str,
    folded: bool,
    choice: MethodChoice | None,
    uncompared: bool,
) -> None:
    from ibkeys.managers.ufm.access import via_option
    from ibkeys.plan.document import dumps

    if format == "json":
        write_exact(dumps(partition_plan).rstrip("\n"))
    elif format == "csv":
        write_rows(PLAN.rows, _rows(partition_plan))
    else:
        _write_words(partition_plan, policy, topology, not folded, uncompared)
        if partition_plan.policy.is_of_ufm:
            write(clean(f"apply it with `ibkeys apply PLAN {via_option(partition_plan.policy.file)}`"))
        elif choice is not None:
            write(clean(f"method of an apply now: {choice}"))


def _write_script(
    partition_plan: PartitionPlan, script_options: _ScriptOptions, present: Policy | None, sm_port_guid: int | None
) -> None:
    from ibkeys.plan.by_hand.opensm import opensm_script
    from ibkeys.plan.by_hand.ufm import ufm_script

    for problem in partition_plan.problems:
        exits.warn(clean(problem.message if problem.port is None else f"{problem.port}: {problem.message}"), "problem")
    gaps = script_options.allow_break
    lines = (
        ufm_script(partition_plan, gaps)
        if script_options.script == "ufm"
        else opensm_script(partition_plan, present, sm_port_guid, gaps)
    )
    write_as_is("\n".join(lines) + "\n")


def _present_policy(present: str | None) -> Policy | None:
    """Return OpenSM's present policy from the copy that --present names; None without it.

    Raises UsageError if it is not a file, FileFormatError if it cannot be read or OpenSM would reject it.
    """
    if present is None:
        return None
    require_file(present, "--present takes a file: a copy of the policy that OpenSM reads on its own host")
    return read_accepted(present)


def _warn_of_policy(policy: Policy) -> None:
    from ibkeys.partitions.lint import lint

    warnings = sum(problem.severity == "warning" for problem in lint(policy))
    if warnings:
        what = counted(warnings, "warning")
        exits.warn(f"{policy.path}: {what}: see ibkeys policy-check {policy.path}")


def _movable_partitions(policy: Policy, texts: Sequence[str]) -> tuple[int, ...]:
    """Return the partitions, as 15 bits, whose P_Keys may move to another index.

    *texts*: names of the policy, P_Keys, or ``all``. Raises UsageError for a name that the policy does not have.
    """
    from ibkeys.partitions.model import DEFAULT_NAME, DEFAULT_PARTITION
    from ibkeys.similar_names import did_you_mean

    names = {DEFAULT_NAME: DEFAULT_PARTITION, **{each.name: each.base for each in policy.partitions}}
    if "all" in texts:
        return tuple(sorted({*names.values()}))
    numbers = set()
    for text in texts:
        if text in names:
            numbers.add(names[text])
        elif text.lower().startswith("0x"):
            numbers.add(PKEY.convert(text, None, None).partition)
        else:
            raise UsageError(
                f"--allow-index-moves {text}: the policy has no partition with this name, and it is not a "
                f"P_Key{did_you_mean(text, names)}"
            )
    return tuple(sorted(numbers))


# --- in words ---------------------------------------------------------------------------------------------------------


def _write_words(
    partition_plan: PartitionPlan, policy: Policy, topology: Topology, each: bool, uncompared: bool
) -> None:
    from ibkeys.plan.digest import plan_digest

    names = {partition.base: partition.name for partition in policy.partitions}
    problems = [
        (f"PROBLEM {problem.kind}: ", problem.port, f": {problem.message}") for problem in partition_plan.problems
    ]
    _write_sentences(problems, topology, each, "bad")
    if problems:
        write("")
    write_each(changed_ports(partition_plan.tables, partition_plan.enforcement, each, topology))
    moves = [
        (f"INDEX MOVE: {move.pkey} of ", move.port, f": {move.source} -> {move.target}; running QPs lose it")
        for move in partition_plan.index_moves
    ]
    _write_sentences(moves, topology, each)
    for cut in partition_plan.breaks:
        write(paint("BREAK", "high") + clean(f": {cut.message}; apply needs --allow-break"))
    for title, numbers in (("new", partition_plan.partitions.born), ("removed", partition_plan.partitions.dying)):
        if numbers:
            listed = ", ".join(
                f"0x{number:04x}" + (f" {names[number]}" if number in names else "") for number in numbers
            )
            write(paint(clean(f"{title} partitions: {listed}"), "added" if title == "new" else "removed"))
    reach = partition_plan.reach
    unknown = f"; not known: {reach.unknown}" if reach.unknown else ""
    write(f"pairs of end ports that gain connectivity: {reach.gained}; that lose connectivity: {reach.lost}{unknown}")
    write(f"plan digest: {plan_digest(partition_plan)}")
    write(f"policy SHA-256: {partition_plan.policy.digest}")
    write(clean(f"subnet manager: {partition_plan.fabric.sm_evidence or 'not known'}"))
    changed = sum(table.differs for table in partition_plan.tables)
    switch_ports = counted(len(partition_plan.enforcement), "switch port")
    write(
        f"{counted(changed, 'P_Key table')} and the enforcement of {switch_ports} would change"
        if partition_plan.pending
        else _no_table_changes(partition_plan.living_groups, uncompared)
    )


def _no_table_changes(groups: LivingGroups, uncompared: bool) -> str:
    """Return the last line about a plan that changes no table and no enforcement. *uncompared*: the flags of its groups
    were not compared with those in force."""
    if uncompared:
        return "nothing to change in P_Keys and enforcement: they are as the policy says"
    if not groups.differ:
        return "nothing to change: the fabric matches the policy"
    return clean(
        "no P_Key and no enforcement would change; multicast groups differ from the policy in force: "
        f"{groups.in_words()}. OpenSM makes them when the plan is applied through it; it keeps a group that exists"
    )


def _write_sentences(
    sentences: Sequence[tuple[str, PortId | None, str]], topology: Topology, each: bool, role: str = ""
) -> None:
    """Write *sentences*: each has the words before the port, the port (None: no port), and the words after it.

    *topology*: the fabric of the ports. *each*: whether each port has its own line; else ports with the same sentence
    share a line. *role*: the colour of the first word.
    """

    def put(text: str) -> None:
        first, blank, rest = clean(text).partition(" ")
        write(paint(first, role) + blank + rest)

    ports_by_sentence: dict[tuple[str, str], list[PortId]] = {}
    for before, port, after in sentences:
        if port is None:
            put(f"{before}{after.removeprefix(': ')}")
        elif each:
            put(f"{before}{port}{after}")
        else:
            ports_by_sentence.setdefault((before, after), []).append(port)
    names = FoldedNames((port.to_json() for ports in ports_by_sentence.values() for port in ports), topology)
    for (before, after), ports in ports_by_sentence.items():
        if len(ports) == 1:
            put(f"{before}{ports[0]}{after}")
            continue
        put(f"{before}{counted(len(ports), 'port')}{after}")
        write_each(indented(names, (port.to_json() for port in ports)))


def _rows(partition_plan: PartitionPlan) -> Iterator[dict[str, Any]]:
    for each in partition_plan.changes:
        values = {name: getattr(each, name) for name in ("kind", "index", "before", "after")}
        yield {**each.port.to_json(), **values}

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
from ibkeys.cli.listing.folding import indented, is_folded
from ibkeys.cli.opening import open_source
from ibkeys.cli.options import SmHosts
from ibkeys.cli.partitions.changed_ports import changed_ports
from ibkeys.cli.render import write_rows
from ibkeys.cli.screen.colour import paint
from ibkeys.cli.showing import errors_of, finish, note_stops_between_switches, progress_bar, say_notes
from ibkeys.cli.site import fixed_method
from ibkeys.cli.sm.hosts import hosts_of
from ibkeys.cli.sm.policy import master_policy, read_accepted, require_file
from ibkeys.cli.sm.ufm import AskedOfPolicies, asked_of_policies
from ibkeys.cli.types import GUID, PKEY
from ibkeys.errors import UsageError
from ibkeys.printable import counted
from ibkeys.topology.names.folded import FoldedNames

if TYPE_CHECKING:
    from ibkeys.change.method import MethodChoice
    from ibkeys.managers.hosts import SmHost
    from ibkeys.managers.master_policy import MasterPolicy
    from ibkeys.partitions.model import Policy
    from ibkeys.plan.model import PartitionPlan
    from ibkeys.source import Source
    from ibkeys.topology.model import Topology
    from ibkeys.topology.port_id import PortId


@dataclass(frozen=True, slots=True)
class _Asked(AskedOfPolicies):
    """The options of `plan`: the policy, how it is planned, and the file for the plan."""

    policy_file: str | None = options.field(
        "--policy",
        "policy_file",
        cls=options.PolicyOrFile,
        metavar="FILE|opensm|ufm:URL",
        help="The same as FILE, which takes these values too.",
    )
    out: str | None = options.field("--out", metavar="PLAN", env=False, help="Write the plan to this file, for apply.")
    enforce: str = options.field(
        "--enforce",
        env=False,
        type=click.Choice(["both", "in", "out", "off"]),
        default="both",
        help="What leaf switch ports enforce, as OpenSM's part_enforce.  [default: both]",
    )
    allow_both_pkeys: bool = options.taken(options.allow_both_pkeys, default=False)
    disconnect_unconfigured: bool = options.flag_field(
        "--disconnect-unconfigured", help="Remove the default P_Key from CA ports in no other partition."
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
class _ByHand:
    """The options of a script to run by hand, and for facts about the host where it will run."""

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
@asked_of_policies(_Asked, options.policy_argument, options.group("by_hand", _ByHand), options.sm_hosts)
def plan(asked: _Asked, by_hand: _ByHand, sm_hosts: SmHosts) -> int:
    """Show what a partition policy would change.

    FILE is the partition policy, a partitions.conf. It may be the word opensm: the policy of the master on this host;
    or ufm:URL: the partitions of that UFM.

    Reads the whole fabric and writes nothing to it. Every P_Key that a port keeps stays at its index. Exits 1 when
    there is something to change.
    """
    from ibkeys.plan.document import check_place, write_plan
    from ibkeys.plan.from_fabric import plan_of_sweep, sweep_for_plan
    from ibkeys.plan.model import PlanOptions
    from ibkeys.reach.reach import Reach

    where, format, each = asked.where, asked.format, asked.folding.each
    folded = is_folded(asked.folding, format)
    if asked.policy_file is None:
        raise UsageError("Missing argument FILE: the partition policy, such as /etc/opensm/partitions.conf")
    _check(by_hand, format)
    copy = _copy_of(by_hand.present)
    policy = read_accepted(asked.policy_file, asked.ufm)  # before the fabric is opened
    if asked.out is not None:
        check_place(Path(asked.out))
    if policy is not None and policy.says is None:
        _say_warnings(policy)
    with open_source(where) as source, progress_bar(where) as progress:
        if policy is None:
            master = master_policy(source)
            policy, asked = master.policy, _as_master_has(asked, master)
            _say_warnings(policy)
        moves = _partitions(policy, asked.allow_index_moves)
        found, live = sweep_for_plan(source, policy, progress)
        choice = _method(source, found, hosts_of(where, sm_hosts))
    is_of_ufm = policy.says is not None or by_hand.script == "ufm"  # UFM does not report enforcement
    chosen = PlanOptions(asked.enforce, asked.allow_both_pkeys, asked.disconnect_unconfigured, moves)  # type: ignore[arg-type]
    say_notes(found)
    made = plan_of_sweep(
        policy,
        found,
        live,
        chosen,
        as_is=is_of_ufm and not is_typed("enforce"),
        sm_guid=asked.sm_guid,
        full=asked.full or by_hand.script is not None,
        force=asked.force,
    )
    made = replace(made, method=choice.method if choice is not None else None)
    if asked.out is not None:
        write_plan(made, Path(asked.out))
    if by_hand.script is not None:
        _write_script(made, by_hand, copy, made.fabric.sm_guid)
    else:
        _write(made, policy, found, format, folded, choice)
    if made.reach.unknown:
        reach = Reach(found)
        note_stops_between_switches(reach)
        exits.warn("which pairs gain or lose connectivity is not known: routes are not read, and they decide", "error")
        return finish(errors_of(found), format, each=each) or exits.NOT_COMPLETED
    return finish(errors_of(found), format, each=each) or (exits.SAYS_NO if made.pending else exits.DONE)


def _method(source: Source, found: Topology, hosts: Sequence[SmHost]) -> MethodChoice | None:
    """Return the method by which the plan would be applied.

    That is the one of the site file, else the one that fits the fabric now. None for a snapshot or a simulated subnet.
    """
    from ibkeys.change.choosing import choose_from
    from ibkeys.change.method import fixed
    from ibkeys.fabric.live import LiveFabric

    if not isinstance(source, LiveFabric) or source.is_simulated:
        return None
    return fixed(of_site) if (of_site := fixed_method()) is not None else choose_from(found, hosts, source.own_guid)


def _check(by_hand: _ByHand, format: str) -> None:
    if by_hand.script is None and (by_hand.present is not None or by_hand.allow_break):
        raise UsageError("--present and --allow-break require --script")
    if by_hand.script is not None and format != "table":
        raise UsageError(f"--script writes steps for a person, and -f {format} is for programs")


def _as_master_has(asked: _Asked, master: MasterPolicy) -> _Asked:
    """Return *asked* with the options of the master whose policy is planned; typed options stay."""
    enforce = asked.enforce if is_typed("enforce") else master.part_enforce or asked.enforce
    return replace(asked, enforce=enforce, allow_both_pkeys=asked.allow_both_pkeys or bool(master.allow_both_pkeys))


def _write(
    made: PartitionPlan, policy: Policy, found: Topology, format: str, folded: bool, choice: MethodChoice | None
) -> None:
    from ibkeys.plan.document import dumps

    if format == "json":
        write_exact(dumps(made).rstrip("\n"))
    elif format == "csv":
        write_rows(PLAN.rows, _rows(made))
    else:
        _write_words(made, policy, found, not folded)
        if choice is not None:
            write(clean(f"method of an apply now: {choice}"))


def _write_script(made: PartitionPlan, by_hand: _ByHand, present: Policy | None, sm_port_guid: int | None) -> None:
    from ibkeys.plan.by_hand.opensm import opensm_script
    from ibkeys.plan.by_hand.ufm import ufm_script

    for problem in made.problems:
        exits.warn(clean(problem.message if problem.port is None else f"{problem.port}: {problem.message}"), "problem")
    gaps = by_hand.allow_break
    lines = ufm_script(made, gaps) if by_hand.script == "ufm" else opensm_script(made, present, sm_port_guid, gaps)
    write_as_is("\n".join(lines) + "\n")


def _copy_of(present: str | None) -> Policy | None:
    """Return OpenSM's present policy from the user's copy; None without one. Raises UsageError, FileFormatError."""
    if present is None:
        return None
    require_file(present, "--present takes a file: a copy of the policy that OpenSM reads on its own host")
    return read_accepted(present)


def _say_warnings(policy: Policy) -> None:
    from ibkeys.partitions.lint import lint

    warnings = sum(problem.severity == "warning" for problem in lint(policy))
    if warnings:
        what = counted(warnings, "warning")
        exits.warn(f"{policy.path}: {what}: see ibkeys policy-check {policy.path}")


def _partitions(policy: Policy, texts: Sequence[str]) -> tuple[int, ...]:
    """Return the numbers of the partitions that may move, each given by its name in the policy or by its P_Key.

    Raises UsageError for a name that the policy does not have.
    """
    from ibkeys.partitions.model import DEFAULT_NAME, DEFAULT_PARTITION
    from ibkeys.similar_names import did_you_mean

    names = {DEFAULT_NAME: DEFAULT_PARTITION, **{each.name: each.base for each in policy.partitions}}
    if "all" in texts:
        return tuple(sorted({*names.values()}))
    found = set()
    for text in texts:
        if text in names:
            found.add(names[text])
        elif text.lower().startswith("0x"):
            found.add(PKEY.convert(text, None, None).partition)
        else:
            raise UsageError(
                f"--allow-index-moves {text}: the policy has no partition with this name, and it is not a "
                f"P_Key{did_you_mean(text, names)}"
            )
    return tuple(sorted(found))


# --- in words ---------------------------------------------------------------------------------------------------------


def _write_words(made: PartitionPlan, policy: Policy, found: Topology, each: bool) -> None:
    from ibkeys.plan.digest import plan_digest

    names = {partition.base: partition.name for partition in policy.partitions}
    problems = [(f"PROBLEM {problem.kind}: ", problem.port, f": {problem.message}") for problem in made.problems]
    _write_sentences(problems, found, each, "bad")
    if problems:
        write("")
    write_each(changed_ports(made.tables, made.enforcement, each, found))
    moves = [
        (f"INDEX MOVE: {move.pkey} of ", move.port, f": {move.source} -> {move.target}; running QPs lose it")
        for move in made.index_moves
    ]
    _write_sentences(moves, found, each)
    for cut in made.breaks:
        write(paint("BREAK", "high") + clean(f": {cut.message}; apply needs --allow-break"))
    for title, numbers in (("new", made.partitions.born), ("removed", made.partitions.dying)):
        if numbers:
            listed = ", ".join(
                f"0x{number:04x}" + (f" {names[number]}" if number in names else "") for number in numbers
            )
            write(paint(clean(f"{title} partitions: {listed}"), "added" if title == "new" else "removed"))
    unknown = f"; not known: {made.reach.unknown}" if made.reach.unknown else ""
    write(
        f"pairs of end ports that gain connectivity: {made.reach.gained}; that lose connectivity: {made.reach.lost}"
        + unknown
    )
    write(f"plan digest: {plan_digest(made)}")
    write(f"policy SHA-256: {made.policy.digest}")
    write(clean(f"subnet manager: {made.fabric.sm_evidence or 'not known'}"))
    changed = sum(table.differs for table in made.tables)
    write(
        f"{counted(changed, 'P_Key table')} and the enforcement of {counted(len(made.enforcement), 'switch port')} "
        "would change"
        if made.pending
        else "nothing to change: the fabric matches the policy"
    )


def _write_sentences(
    sentences: Sequence[tuple[str, PortId | None, str]], found: Topology, each: bool, role: str = ""
) -> None:
    """Write sentences about ports of *found*, or about no port: (words before the port, port, words after it).

    Ports with the same sentence share a line unless *each* has its own. *role*: the colour of the first word.
    """

    def put(text: str) -> None:
        first, blank, rest = clean(text).partition(" ")
        write(paint(first, role) + blank + rest)

    together: dict[tuple[str, str], list[PortId]] = {}
    for before, port, after in sentences:
        if port is None:
            put(f"{before}{after.removeprefix(': ')}")
        elif each:
            put(f"{before}{port}{after}")
        else:
            together.setdefault((before, after), []).append(port)
    names = FoldedNames((port.to_json() for ports in together.values() for port in ports), found)
    for (before, after), ports in together.items():
        if len(ports) == 1:
            put(f"{before}{ports[0]}{after}")
            continue
        put(f"{before}{counted(len(ports), 'port')}{after}")
        write_each(indented(names, (port.to_json() for port in ports)))


def _rows(made: PartitionPlan) -> Iterator[dict[str, Any]]:
    for each in made.changes:
        values = {name: getattr(each, name) for name in ("kind", "index", "before", "after")}
        yield {**each.port.to_json(), **values}

"""The command `policy-diff`: comparing what two policies mean for one fabric."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from ibkeys.cli import exits, options
from ibkeys.cli.documents.field import NOTHING, JsonRow
from ibkeys.cli.documents.policies import POLICY_DIFF
from ibkeys.cli.exits import clean, write
from ibkeys.cli.help.command import command
from ibkeys.cli.listing.aliases import note_aliases
from ibkeys.cli.listing.folding import write_folded
from ibkeys.cli.opening import open_source
from ibkeys.cli.render import write_document, write_table
from ibkeys.cli.screen.colour import ColouredValue, paint, role_of_change
from ibkeys.cli.showing import NAME_TITLES, errors_of, finish, name_cells, sweep
from ibkeys.cli.sm.ufm import PolicyOptions, policy_options
from ibkeys.grouping import grouped
from ibkeys.topology.names.folded import FoldedNames

if TYPE_CHECKING:
    from ibkeys.partitions.model import Policy
    from ibkeys.plan.policies.compare import MembershipChange, PartitionDifference, PinnedDifference, PolicyComparison
    from ibkeys.topology.model import Topology


_TITLES: Final = ("Partition", "Name", "Change")
_CHANGES: Final = {"joins": "joins as {after}", "leaves": "leaves, was {before}", "membership": "{before} -> {after}"}
_ROLES: Final = {"joins": "added", "leaves": "removed"}


@dataclass(frozen=True, slots=True)
class _DiffOptions(PolicyOptions):
    """The options of `policy-diff`: the assumptions about the subnet manager."""

    allow_both_pkeys: bool = options.field_of(options.allow_both_pkeys, default=False)
    sm_guid: int | None = options.field_of(options.sm_guid)


@command("policy-diff")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@policy_options(_DiffOptions)
def policy_diff(command_options: _DiffOptions, a: str, b: str) -> int:
    """Compare what two policies mean for the fabric.

    A and B are partitions.conf files; opensm is the policy of the master on this host, ufm:URL the partitions of UFM.
    Shows for each partition who joins, leaves, or changes membership from A to B, and which pairs of ports gain and
    lose connectivity. Exits 1 when the policies mean different things.
    """
    from ibkeys.cli.sm.policy import master_policy, read_accepted
    from ibkeys.discovery.wanted import Wanted
    from ibkeys.plan.policies.compare import compare_policies
    from ibkeys.topology.subnet_manager import shown_subnet_manager

    where, format = command_options.where, command_options.format
    folded = command_options.folding.is_folded(format)
    policies = [read_accepted(name, command_options.ufm) for name in (a, b)]  # before the fabric is opened
    with open_source(where) as source:
        before, after = (policy if policy is not None else master_policy(source).policy for policy in policies)
        topology = sweep(source, where, wanted=Wanted(sm_info=True))
        source.read_alias_guids(topology, before.named_guids | after.named_guids)
    guid = shown_subnet_manager(topology).port_guid if command_options.sm_guid is None else command_options.sm_guid
    comparison = compare_policies(before, after, topology, guid, command_options.allow_both_pkeys)
    _note_unmatched(comparison, before, after, topology)
    rows = _rows(comparison)
    if not write_document(format, POLICY_DIFF, lambda: _document(comparison, before, after, topology), rows):
        _write_words(comparison, topology, folded)
    return finish(errors_of(topology), format) or (exits.SAYS_NO if comparison.differs else exits.DONE)


def _note_unmatched(comparison: PolicyComparison, before: Policy, after: Policy, topology: Topology) -> None:
    for policy, guids in zip((before, after), comparison.unmatched, strict=True):
        others = set(guids) - note_aliases(topology, policy.path, guids)
        if others:
            exits.note(f"{policy.path}: {len(others)} of its GUIDs are not end ports of this fabric")


# --- documents --------------------------------------------------------------------------------------------------------


def _document(comparison: PolicyComparison, before: Policy, after: Policy, topology: Topology) -> dict[str, Any]:
    return {
        "a": {"file": before.path, "digest": before.digest},
        "b": {"file": after.path, "digest": after.digest},
        "partitions": [_partition(each) for each in comparison.partitions],
        "index_0": [{**each.port.identity(), **_keys(each)} for each in comparison.pinned],
        "reach": {"gained": comparison.reach.gained, "lost": comparison.reach.lost},
        "not_found": {
            name: [f"0x{guid:016x}" for guid in guids] for name, guids in zip("ab", comparison.unmatched, strict=True)
        },
        "errors": errors_of(topology),
        "unreached": topology.unreached,
    }


def _partition(each: PartitionDifference) -> dict[str, Any]:
    return {
        "partition": f"0x{each.base:04x}",
        "name_a": each.names[0],
        "name_b": each.names[1],
        "members": [_member(standing) for standing in each.standings],
        "groups_a": list(each.groups[0]),
        "groups_b": list(each.groups[1]),
    }


def _rows(comparison: PolicyComparison) -> Iterator[dict[str, Any]]:
    for each in comparison.partitions:
        about = {"partition": f"0x{each.base:04x}", "name": each.name}
        yield from ({**about, **_member(standing)} for standing in each.standings)
        for what, before, after in _other(each):
            yield {**about, "what": what, "before": before, "after": after}
    for pinned in comparison.pinned:
        yield {**pinned.port.identity(), "what": "index-0", **_keys(pinned)}


def _keys(pinned: PinnedDifference) -> dict[str, str | None]:
    keys = {"before": pinned.before, "after": pinned.after}
    return {name: str(key) if key is not None else None for name, key in keys.items()}


def _member(standing: MembershipChange) -> dict[str, Any]:
    what = "joins" if standing.before is None else "leaves" if standing.after is None else "membership"
    return {**standing.port.identity(), "what": what, "before": standing.before, "after": standing.after}


def _other(each: PartitionDifference) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield the differences of a partition besides its members, as (what, before, after)."""
    if each.is_renamed:
        yield "name", each.names[0], each.names[1]
    old, new = ({group["mgid"]: group for group in groups} for groups in each.groups)
    for mgid in sorted(old.keys() | new.keys()):
        if old.get(mgid) != new.get(mgid):
            yield f"group {mgid}", _group(old.get(mgid), new.get(mgid)), _group(new.get(mgid), old.get(mgid))


def _group(group: dict[str, Any] | None, other: dict[str, Any] | None) -> str | None:
    """Return in words the values of a group that the *other* group lacks."""
    if group is None:
        return None
    own = [f"{key} {value}" for key, value in group.items() if key != "mgid" and (other or {}).get(key) != value]
    return ", ".join(own)


# --- in words ---------------------------------------------------------------------------------------------------------


def _write_words(comparison: PolicyComparison, topology: Topology, folded: bool) -> None:
    rows = list(_member_rows(comparison))
    if rows and not folded:
        write_table((*NAME_TITLES, *_TITLES), ([*name_cells(row), *_cells(row)] for row in rows))
    elif rows:
        names = FoldedNames((port.identity() for port in topology.end_ports()), topology)
        write_folded(names, list(_by_port(rows)), ("Change",), lambda row: [row["changes"]])
    for partition in comparison.partitions:
        for what, before, after in _other(partition):
            about = f"partition 0x{partition.base:04x} {partition.name}"
            change = clean(f"{what}: {before or NOTHING} -> {after or NOTHING}")
            write(f"{clean(about)}: {paint(change, role_of_change(before, after))}")
    write(
        f"pairs of end ports that gain connectivity: {comparison.reach.gained}; that lose connectivity: "
        f"{comparison.reach.lost}"
    )
    if not comparison.differs:
        write("both policies mean the same for this fabric")


def _member_rows(comparison: PolicyComparison) -> Iterator[dict[str, Any]]:
    for row in _rows(comparison):
        if row["what"] == "index-0":
            change = f"index 0: {row['before'] or 'default'} -> {row['after'] or 'default'}"
            yield {**row, "partition": NOTHING, "name": NOTHING, "change": change}
        elif row["what"] in _CHANGES:
            yield {**row, "change": _CHANGES[row["what"]].format(**row)}


def _by_port(rows: Iterable[JsonRow]) -> Iterator[dict[str, Any]]:
    """Yield one row for each port, with all of its changes."""
    for same in grouped(rows, lambda row: (row["node_guid"], row["port"])).values():
        yield {**same[0], "changes": [_in_words(row) for row in same]}


def _in_words(row: JsonRow) -> ColouredValue:
    """Return a change of a port in words: ``0x0021 lustre: joins as full``."""
    *names, change = _cells(row)
    place = " ".join(word for word in names if word not in ("", NOTHING))
    return ColouredValue(f"{place}: {change.value}" if place else change.value, change.role)


def _cells(row: JsonRow) -> list[Any]:
    return [row["partition"], row["name"], ColouredValue(row["change"], _ROLES.get(row["what"], "changed"))]

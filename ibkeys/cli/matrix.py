"""Who can talk to whom: partitions with their members, and the proof for two ports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, combinations_with_replacement, product
from typing import TYPE_CHECKING, Any, Final

import click

from ibkeys.cli import exits, options
from ibkeys.cli.exits import write
from ibkeys.cli.options import Where
from ibkeys.cli.render import write_csv, write_json, write_table
from ibkeys.cli.showing import errors_of, finish, short_name, stop_document, sweep
from ibkeys.cli.where import open_source

if TYPE_CHECKING:
    from ibkeys.fabric.model import Fabric, Port
    from ibkeys.fabric.reach import Match, Membership, Reach

_LISTED: Final = 6
"""Members of a partition that a table names."""


@click.command("matrix")
@click.option("--partition", "partitions", metavar="P_KEY", multiple=True, help="Only this partition; repeatable.")
@click.option("--pairs", is_flag=True, help="List every pair of ports that can talk, and by which P_Keys.")
@options.option("--policy", metavar="FILE", help="Take the partitions' names from a partitions.conf.")
@options.format
@options.reading
def matrix(where: Where, partitions: tuple[str, ...], pairs: bool, policy: str | None, format: str) -> int:
    """Show the members of every partition, and who can talk to whom.

    From the P_Key tables as they are, and what the switch ports that face the end ports enforce; a policy file only
    gives names. A port with the full and the limited P_Key of a partition is in both lists, and acts as full.
    """
    from ibkeys.fabric.reach import Reach

    names = _names_of(policy)
    chosen = {_partition(text) for text in partitions}
    with open_source(where) as source:
        found = sweep(source, where, p_keys=True)
    reach = Reach(found)
    memberships = [each for each in reach.memberships() if not chosen or each.partition in chosen]
    if pairs:
        _write_pairs(reach, chosen, format)
    elif format == "json":
        write_json("matrix", _document(found, reach, memberships, names))
    elif format == "csv":
        columns = ("partition", "name", "port_guid", "node_guid", "node_desc", "port", "membership")
        write_csv(columns, _csv_rows(memberships, names))
    else:
        _write_table(reach, memberships, names)
    for port in reach.enforcing_between_switches():
        exits.warn(f"{port} enforces partitions towards another switch: what it stops depends on the route", "note")
    return finish(errors_of(found), format)


def _partition(text: str) -> int:
    from ibkeys.cli.types import parse_p_key

    return parse_p_key(text).partition


def _names_of(policy: str | None) -> Mapping[int, str]:
    if policy is None:
        return {}
    from pathlib import Path

    from ibkeys.policy.reader import read_policy

    return {partition.base: partition.name for partition in read_policy(Path(policy)).partitions if partition.name}


# --- members ---------------------------------------------------------------------------------------------------------


def _document(
    found: Fabric, reach: Reach, memberships: Sequence[Membership], names: Mapping[int, str]
) -> dict[str, Any]:
    return {
        "partitions": [
            {
                "partition": f"0x{each.partition:04x}",
                "name": names.get(each.partition),
                "full": [_guid(port) for port in each.full],
                "limited": [_guid(port) for port in each.limited],
                "stopped": [stop_document(stop) for stop in reach.stops_in(each)],
            }
            for each in memberships
        ],
        "pairs": reach.pairs(),
        "unread": [port.identity() for port in reach.unread],
        "errors": errors_of(found),
        "unreached": found.unreached,
    }


def _guid(port: Port) -> str | None:
    guid: str | None = port.identity()["port_guid"]
    return guid


def _csv_rows(memberships: Sequence[Membership], names: Mapping[int, str]) -> Iterator[dict[str, Any]]:
    for each in memberships:
        for membership, ports in (("full", each.full), ("limited", each.limited)):
            for port in ports:
                yield {
                    **port.identity(),
                    "partition": f"0x{each.partition:04x}",
                    "name": names.get(each.partition),
                    "membership": membership,
                }


def _write_table(reach: Reach, memberships: Sequence[Membership], names: Mapping[int, str]) -> None:
    titles = ("Partition", "Name", "Members", "Full", "Limited", "Both", "Stopped", "Who")
    rows = []
    for each in memberships:
        both = len(each.full) + len(each.limited) - len(each.members)
        stopped = len({stop.port for stop in reach.stops_in(each)})
        counts = [len(each.members), len(each.full), len(each.limited), both, stopped]
        rows.append([f"0x{each.partition:04x}", names.get(each.partition, ""), *counts, _who(each)])
    write_table(titles, rows)
    count = reach.pairs()
    write(f"{count} pair{'s' if count != 1 else ''} of ports can talk, over all partitions (each: --pairs)")
    if reach.unread:
        write(f"({len(reach.unread)} ports not reckoned with: their tables could not be read)")


def _who(each: Membership) -> str:
    members = each.members
    named = ", ".join(short_name(port) for port in members[:_LISTED])
    return named + (f" and {len(members) - _LISTED} more" if len(members) > _LISTED else "")


# --- pairs -----------------------------------------------------------------------------------------------------------


def _write_pairs(reach: Reach, chosen: set[int], format: str) -> None:
    """Write one line for each pair, as it is found: there may be very many."""
    if format == "json":
        import json

        write('{"schema": "ibkeys.matrix/1", "pairs": [')
        separator = ""
        for a, b, matches in _pairs(reach, chosen):
            write(separator + json.dumps({"a": a.identity(), "b": b.identity(), "by": _by(matches)}))
            separator = ","
        write("]}")
    elif format == "csv":
        columns = ("a_port_guid", "a_node_desc", "b_port_guid", "b_node_desc", "a_pkey", "b_pkey")
        write(",".join(columns))
        for a, b, matches in _pairs(reach, chosen):
            for match in matches:
                _write_csv_pair(a, b, match)
    else:
        for a, b, matches in _pairs(reach, chosen):
            keys = ", ".join(f"{match.a_pkey} with {match.b_pkey}" for match in matches)
            write(exits.clean(f"{short_name(a)} - {short_name(b)}: {keys}"))


def _write_csv_pair(a: Port, b: Port, match: Match) -> None:
    import csv
    import io

    text = io.StringIO()
    row = (_guid(a), a.node.description, _guid(b), b.node.description, match.a_pkey, match.b_pkey)
    csv.writer(text, lineterminator="").writerow(row)
    write(text.getvalue())


def _pairs(reach: Reach, chosen: set[int]) -> Iterator[tuple[Port, Port, list[Match]]]:
    for one, other in combinations_with_replacement(reach.groups, 2):
        if not reach.can_talk(one.profile, other.profile):
            continue
        for a, b in combinations(one.ports, 2) if one is other else product(one.ports, other.ports):
            matches = [
                match
                for match in reach.why(a, b).matches
                if not match.stops and (not chosen or match.a_pkey.partition in chosen)
            ]
            if matches:
                yield a, b, matches


def _by(matches: Sequence[Match]) -> list[dict[str, str]]:
    return [{"a_pkey": str(match.a_pkey), "b_pkey": str(match.b_pkey)} for match in matches]

"""The output of `diff --reach`: pairs of ports that gained or lost reach between two snapshots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations, product
from typing import TYPE_CHECKING, Any, Final

from ibkeys.cli.documents.comparing import DIFF
from ibkeys.cli.exits import write, write_each, write_exact
from ibkeys.cli.listing.folding import width_of_output, wrapped
from ibkeys.cli.render import write_json_items, write_rows
from ibkeys.cli.screen.colour import paint
from ibkeys.printable import counted
from ibkeys.topology.names.folded import FoldedNames

if TYPE_CHECKING:
    from ibkeys.reach.difference import Gain, ReachChange, ReachComparison
    from ibkeys.topology.nodes import Port

_IN_WORDS: Final[Mapping[ReachChange, tuple[str, str]]] = {
    "gained": ("pair gained reach", "pairs gained reach"),
    "lost": ("pair lost reach", "pairs lost reach"),
    "one-way-gained": ("pair is one way now", "pairs are one way now"),
    "one-way-lost": ("pair is no longer one way", "pairs are no longer one way"),
    "unknown": ("pair not known: the route decides", "pairs not known: the route decides"),
}
"""The words for a change of one pair, and of several."""
_REACH_ROLES: Final[Mapping[str, str]] = {"gained": "added", "lost": "removed"}
_ONE_WAY: Final = ("one-way-gained", "one-way-lost")
"""The changes that concern one direction of a pair."""


def what_was_not_compared(found: ReachComparison) -> dict[str, list[Port]]:
    """Return the ports whose reach could not be compared, by the reason."""
    return {
        "it, or a P_Key table that it depends on, was not read in both snapshots": found.unread,
        "it stops P_Keys on a link between switches, or was not read, and routes are not known": found.between,
    }


def write_reach(about: dict[str, Any], found: ReachComparison, names: FoldedNames, pairs: bool, format: str) -> None:
    """Write the changes of reach: one line for each group of ports with the same change, with all their names, or one
    line for each pair.

    *names*: the names of ports. *about*: the first fields of the JSON document.
    """
    import json

    counts = {change: found.count(change) for change in _IN_WORDS}
    if format == "json":
        changes = _pair_documents(found) if pairs else _groups(found)
        unread = [
            {**port.identity(), "what": "reach", "why": why}
            for why, ports in what_was_not_compared(found).items()
            for port in ports
        ]
        listed = {"virtualized": found.virtualized, "only_in_a": found.went, "only_in_b": found.came}
        ports = {name: [port.identity() for port in some] for name, some in listed.items()}
        totals = {change.replace("-", "_"): count for change, count in counts.items()}
        head = json.dumps({"schema": DIFF.schema, **about, "unknown": unread, **ports, "reach": totals})
        write_exact(head.removesuffix("}}") + ', "changes": [')  # reopens "reach", the last item of the document
        write_json_items(changes)
        write_exact("]}}")
    elif format == "csv":
        write_rows(DIFF.other_rows, _pair_documents(found))
    else:
        _write_words(found, counts, names, pairs)


def _write_words(found: ReachComparison, counts: Mapping[ReachChange, int], names: FoldedNames, pairs: bool) -> None:
    if not found.pairs_differ:
        which = "ports" if not found.differs else "ports that are in both snapshots"
        write(f"no pair of {which} gained or lost reach" + (", as far as was read" if found.is_partly_unknown else ""))
    for change, count in counts.items() if found.changes else ():
        if count or (found.pairs_differ and change in _REACH_ROLES):
            write(paint(f"{count} {_IN_WORDS[change][count != 1]}", _REACH_ROLES.get(change, "changed")))
        write_each(_pair_lines(found, change, names) if pairs else _group_lines(found, change, names))
    if found.went:
        write(paint(_only_in("A", found.went, names), "removed"))
    if found.came:
        write(paint(_only_in("B", found.came, names), "added"))
    if found.virtualized:
        ports = counted(len(found.virtualized), "port")
        listed = ", ".join(names.words(port.identity() for port in found.virtualized))
        write(f"({ports} with virtual ports, whose P_Keys cannot be read, so this may differ for them: {listed})")


def _only_in(snapshot: str, ports: Sequence[Port], names: FoldedNames) -> str:
    are = f"{counted(len(ports), 'port')} {'is' if len(ports) == 1 else 'are'}"
    listed = ", ".join(names.words(port.identity() for port in ports))
    return f"{are} only in {snapshot}, and in no pair: {listed}"


def _pairs(found: ReachComparison) -> Any:
    for each in found.changes:
        for one, other in combinations(each.a, 2) if each.a is each.b else product(each.a, each.b):
            yield each.change, one, other


def _pair_documents(found: ReachComparison) -> Iterator[dict[str, Any]]:
    for change, a, b in _pairs(found):
        yield {"change": change, "a": a.identity(), "b": b.identity()}


def _groups(found: ReachComparison) -> Iterator[dict[str, Any]]:
    identity = cache(lambda port: port.identity())  # made once for each port, which is in many groups
    for each in found.changes:
        yield {
            "change": each.change,
            "pairs": each.pairs,
            "a": [identity(port) for port in each.a],
            "b": [identity(port) for port in each.b],
        }


def _pair_lines(found: ReachComparison, change: ReachChange, names: FoldedNames) -> Iterator[str]:
    arrow = "->" if change in _ONE_WAY else "-"
    for each, one, other in _pairs(found):
        if each == change:
            yield f"  {names.port(one.identity())} {arrow} {names.port(other.identity())}"


def _group_lines(found: ReachComparison, change: ReachChange, names: FoldedNames) -> Iterator[str]:
    for group in found.changes:
        if group.change == change:
            yield from (f"  {line}" for line in wrapped(_in_words(group, names), width_of_output() - 2))


def _in_words(group: Gain, names: FoldedNames) -> str:
    a, b = (", ".join(names.words(port.identity() for port in ports)) for ports in (group.a, group.b))
    if group.a is group.b:
        return f"{group.pairs} among {a}"
    if group.change in _ONE_WAY:
        return f"{group.pairs} from {a} to {b}"
    return f"{group.pairs} between {a} and {b}"

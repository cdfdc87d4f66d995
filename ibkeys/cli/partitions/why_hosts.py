"""`why` for hosts: one verdict about all ports of two hosts, and the partners of one host by partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ibkeys.cli import exits
from ibkeys.cli.exits import write
from ibkeys.cli.screen.colour import paint
from ibkeys.cli.showing import ROUTES_DECIDE
from ibkeys.printable import counted, first_lines
from ibkeys.reach.forms import FULL
from ibkeys.reach.routes import numbers_in
from ibkeys.topology.names.folded import FoldedNames

if TYPE_CHECKING:
    from ibkeys.reach.reach import Reach
    from ibkeys.reach.why import PairVerdict
    from ibkeys.topology.model import Topology
    from ibkeys.topology.nodes import Port

_MEMBERS: Final = {True: "full", False: "limited"}
_LISTED: Final = 10
"""The most pairs that are listed because they cannot talk."""


def show_pairs(reach: Reach, pairs: Sequence[tuple[Port, Port]]) -> int:
    """Write one line about all *pairs* of ports, and one for each pair that cannot talk; return the exit code."""
    verdicts = [(one, other, reach.why(one, other)) for one, other in pairs]
    talking = [verdict for _, _, verdict in verdicts if verdict.can_talk]
    keys = list(dict.fromkeys(f"{each.a_pkey}" for verdict in talking for each in verdict.matches if each.passes))
    by = f" with {', '.join(keys)}" if keys else ""
    role = "good" if len(talking) == len(verdicts) else "doubtful" if talking else "bad"
    write(paint(f"{len(talking)} of {counted(len(verdicts), 'port pair')} can talk{by}", role))
    lines = [
        exits.clean(f"  {one} to {other}: {_in_words(verdict)}")
        for one, other, verdict in verdicts
        if not verdict.can_talk
    ]
    more = "  and {} that cannot, or of which it is not known"
    for line in first_lines(lines, _LISTED, lambda left: more.format(counted(left, "more pair"))):
        write(line)
    if lines:
        write("  (-v shows the proof for each pair)")
    if any(None in verdict.ways for _, _, verdict in verdicts):
        return exits.NOT_COMPLETED
    return exits.DONE if len(talking) == len(verdicts) else exits.SAYS_NO


def _in_words(verdict: PairVerdict) -> str:
    if verdict.can_talk is None:
        return "not known"
    if verdict.not_active:
        return f"cannot talk, the link of {verdict.not_active[0]} is {verdict.not_active[0].state_name}"
    if verdict.a_to_b is not verdict.b_to_a:
        return "one way only"
    if not verdict.matches:
        return "cannot talk, no P_Keys match"
    stops = [f"{check.port} stops {check.p_key}" for match in verdict.matches for check in match.stops]
    return f"cannot talk, {stops[0]}" if stops else "cannot talk"


def show_partners(fabric: Topology, reach: Reach, ports: Sequence[Port], partition_names: Mapping[int, str]) -> int:
    """Write the names of *ports*, and for each partition of theirs which ports they can talk to there; return the exit
    code. *partition_names*: those that are known, by the 15 bits of a partition."""
    names = FoldedNames((port.identity() for port in fabric.ports()), fabric)
    numbered = FoldedNames(port.identity() for port in fabric.ports())
    own = set(ports)
    unknown = [port for port in ports if reach.standings_of(port) is None]
    all_known = True
    held: dict[int, dict[Port, bool]] = {}
    for port in ports:
        for partition, standing in reach.standings_of(port) or ():
            held.setdefault(partition, {})[port] = bool(standing.holds & FULL)
    several = f"{counted(len(ports), 'port')}: " if len(ports) > 1 else ""
    write(
        exits.clean(
            f"{several}{', '.join(numbered.words(port.identity() for port in ports))} can talk to, by partition:"
        )
    )
    for partition in sorted(held):
        holders = held[partition]
        partners: set[Port] = set()
        doubtful = False
        for port in ports:
            profile = reach.standings_of(port)
            if profile is not None:
                found = reach.reached(profile, [partition])
                partners |= {reach.ports[number] for number in numbers_in(found.both)}
                doubtful = doubtful or bool(found.unknown)
        listed = names.words(port.identity() for port in partners - own)
        member = " and ".join(word for is_full, word in _MEMBERS.items() if is_full in holders.values())
        some = len(holders) < len(ports)
        only = f", only {', '.join(numbered.words(port.identity() for port in holders))}" if some else ""
        name = f" {partition_names[partition]}" if partition in partition_names else ""
        who = ", ".join(listed) or "no other port"
        all_known = all_known and not doubtful
        more = "; of some ports it is not known" if doubtful else ""
        count = counted(len(partners - own), "port")
        write(exits.clean(f"  0x{partition:04x}{name} ({member}{only}): {count}: {who}{more}"))
    if not held and not unknown:
        write("  no partition: no port")
    for port in unknown:
        exits.warn(f"{port}: its P_Key table or the check of its switch port was not read", "not read")
    if not all_known:
        exits.warn(f"the result is partial: of some pairs {ROUTES_DECIDE}", "error")
    return exits.NOT_COMPLETED if unknown or not all_known else exits.DONE

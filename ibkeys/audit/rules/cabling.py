"""Rules about cables: ports that are connected elsewhere than in the baseline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ibkeys.audit.inputs import AuditInput, protect_bits
from ibkeys.audit.rule import RuleVerdict, rule
from ibkeys.keys.pkey import DEFAULT_FULL
from ibkeys.mad.attributes import PortInfo
from ibkeys.port_text import PortText
from ibkeys.topology.enforcement import leaf_of
from ibkeys.topology.moves import Move, place_of
from ibkeys.topology.nodes import Port
from ibkeys.topology.recabling import WHETHER_MOVED


@rule(
    id="HY004",
    title="protected or partitioned port recabled",
    severity="medium",
    evidence="the switch port that faces each CA and router port, compared with the baseline; M_Key, ProtectBits, "
    "P_Keys",
    why=(
        "The enforcement of a switch port was set up for the port that was behind it. A port on a different cable is "
        "also no longer verified at its place: its stored M_Key is not sent until the new link is proven. A device on "
        "the old cable may be there to impersonate it."
    ),
    sources=("NICO",),
    remedy=(
        "Find out who changed the cable. Let the SM sweep, check that the enforcement of both switch ports is right "
        "(SE001, SE002), and take a new snapshot as the baseline."
    ),
    false_positives="Planned work on cables. A switch that was replaced moves every port behind it.",
    needs="baseline",
)
def recabled(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail protected or partitioned ports that face another switch port than in the baseline (HY004)."""
    for port in data.external_ports:
        if port.info is None:
            verdict.unread(port, PortInfo.name)  # so the sweep did not query the node behind it
    of_cables = [each for each in data.moves.moved if each.kind in ("cable-moved", "swapped")]
    moved = {new: (each, old) for each in of_cables for old, new in each.pairs}
    doubtful = {each.port: each.why for each in data.moves.unknown if each.what == WHETHER_MOVED}
    for port in data.end_ports:
        if leaf_of(port) is None:
            continue  # port 0 of a switch has no cable of its own
        guarded = _guarded(data, port)
        if port in doubtful and guarded is not False:
            verdict.unknown(port, f"it is not known {WHETHER_MOVED}: {doubtful[port]}")
        elif port in moved:
            _say(verdict, port, *moved[port], guarded)
        elif guarded and data.before(port) is not None:
            verdict.passed += 1


def _say(verdict: RuleVerdict, port: Port, move: Move, old: Port, guarded: str | bool | None) -> None:
    places = PortText.of("at {} now, at {} in the baseline", place_of(port), place_of(old))
    evidence = {"link": {"baseline": _end(place_of(old)), "now": _end(place_of(port))}}
    if guarded is None:
        why = "its M_Key and its P_Key table were only partly read, so it is not known whether it is protected"
        verdict.unknown(port, PortText.joined(places, "; ", why), evidence)
    elif guarded:
        others = [new for _, new in move.pairs if new is not port]
        swapped = PortText.of(", swapped with {}" if others else "", *others[:1])
        verdict.fail(port, PortText.joined(places, swapped, f"; {guarded}"), evidence, partners=others)


def _end(leaf: Port) -> str:
    return f"0x{leaf.node.guid:016x} port {leaf.num}"


def _guarded(data: AuditInput, port: Port) -> str | bool | None:
    """Return in words the ProtectBits, the M_Key or the partitions that a port has, now or in the baseline. The default
    partition does not count.

    False: none. None: none was found, but the M_Key or the P_KeyTable of the present port was not read.
    """
    before = data.before(port)
    reasons = list(dict.fromkeys(reason for each in (port, before) if each is not None for reason in _reasons(each)))
    if reasons:
        return "it has " + " and ".join(reasons)
    return None if port.m_key_state == "unreadable" or port.p_key_raw is None else False


def _reasons(port: Port) -> Iterator[str]:
    if port.info is not None and (bits := protect_bits(port)):
        yield f"ProtectBits {bits}"
    elif port.m_key_state == "set":
        yield "an M_Key"
    bases = {key.partition for _, key in port.occupied or ()} - {DEFAULT_FULL.partition}
    if bases:
        listed = ", ".join(f"0x{base:04x}" for base in sorted(bases)[:_NAMED])
        yield f"partition{'s' if len(bases) > 1 else ''} {listed}{', ...' if len(bases) > _NAMED else ''}"


_NAMED: Final = 4
"""Partitions that a message names."""

"""Finding the change that lets a refused packet pass: the memberships that sender and receiver need, and the checks
between switches that have to end.

It is found by making the change in a copy of the tables and following the packet again, with the rules of
`ibkeys.reach.packet`. The change of a membership is that of OpenSM: the P_Key goes into the table of the port, and into
that of the switch port that it is linked to.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from ibkeys.keys.pkey import FULL_BIT, InboundCheck, Membership, PKey, may_talk
from ibkeys.reach.packet import CheckedDirection, PacketPath, checking_ports, is_check_read, matching_entry
from ibkeys.topology.enforcement import OUTBOUND, enforced, leaf_of
from ibkeys.topology.nodes import Port


@dataclass(frozen=True, slots=True)
class Remedy:
    """The change that lets a packet pass. ``memberships``: the ports that become members of its partition, the sender
    first, each with its new membership. ``unchecked``: the ports between switches whose check has to end, each with the
    direction. ``missing``: why no change of this kind lets it pass; "" if these do."""

    memberships: tuple[tuple[Port, Membership], ...] = ()
    unchecked: tuple[tuple[Port, CheckedDirection], ...] = ()
    missing: str = ""


def remedy_of(path: PacketPath, receiver: Port, inbound_check: InboundCheck) -> Remedy:
    """Return the least change after which the packet of *path* is sent and arrives at *receiver*.

    The sender must have the very P_Key of the packet, the receiver one that matches it (IBA 10.9.3). The receiver gets
    no full membership where a limited one is enough. A full member is never made a limited one.
    """
    sender, p_key = path.route.source, path.p_key
    if not p_key.is_valid:
        return Remedy(missing=f"{p_key} is an empty entry, which matches nothing")
    if sender is receiver:
        return Remedy(missing="sender and receiver are one port")
    if path.route.arrives is False:
        return Remedy(missing="its route does not lead to the receiver, so no P_Key lets it arrive")
    checks = _checks(path, receiver)
    unread = [port for port, direction in checks if not is_check_read(port, direction)]
    unread += [sender] if sender.p_keys is None else []
    if unread:
        return Remedy(missing=f"the P_Keys or the checks of {unread[0]} were not read")
    table = sender.p_keys or ()
    if p_key not in table and _key(p_key, "full") in table:
        return Remedy(missing=f"{sender} is a full member now and has no {p_key}, so no program can send with it")
    stops: list[tuple[Port, CheckedDirection]] = []
    for memberships in _possible_memberships(path, receiver):
        tables = _tables_with(memberships, p_key)
        stops = [
            (port, direction)
            for port, direction in checks
            if matching_entry(p_key, tables.get(port, port.p_keys or ()), direction, inbound_check) is None
        ]
        if p_key in tables.get(sender, table) and all(port.is_between_switches for port, _ in stops):
            return Remedy(memberships, tuple(stops))
    at = next(f"{port} ({direction})" for port, direction in stops if not port.is_between_switches)
    return Remedy(missing=f"{at} would still stop a packet with {p_key} if both ports were members")


def _checks(path: PacketPath, receiver: Port) -> list[tuple[Port, CheckedDirection]]:
    """Return the checks on the route. Where the route is not known to its end, the last ones are those at the
    receiver, whatever the way is to it."""
    checks = [(port, direction) for _, port, direction in checking_ports(path.route)]
    if path.route.arrives is None:
        leaf = leaf_of(receiver)
        checks += [(leaf, "outbound")] if leaf is not None and enforced(leaf) & OUTBOUND else []
        checks.append((receiver, "received"))
    return checks


def _possible_memberships(path: PacketPath, receiver: Port) -> list[tuple[tuple[Port, Membership], ...]]:
    """Return the changes of memberships that may let the packet pass, those that give less first."""
    sender, p_key = path.route.source, path.p_key
    kept: tuple[tuple[Port, Membership], ...] = ()
    of_receiver = [kept, *(((receiver, how),) for how in _grants(receiver, p_key) if may_talk(p_key, _key(p_key, how)))]
    of_sender = [kept, *(((sender, how),) for how in _grants(sender, p_key) if how == p_key.membership)]
    return [(*one, *other) for other, one in product(of_receiver, of_sender)]


def _grants(port: Port, p_key: PKey) -> tuple[Membership, ...]:
    """Return the memberships that a port can be given without a loss."""
    return ("full",) if _key(p_key, "full") in (port.p_keys or ()) else ("limited", "full")


def _tables_with(memberships: tuple[tuple[Port, Membership], ...], p_key: PKey) -> dict[Port, tuple[int, ...]]:
    """Return the tables of the ports that change if these ports become members of the partition of *p_key*."""
    tables: dict[Port, tuple[int, ...]] = {}
    for member, how in memberships:
        for port in (member, leaf_of(member)):
            if port is not None:
                others = (key for key in tables.get(port, port.p_keys or ()) if PKey(key).partition != p_key.partition)
                tables[port] = (*others, _key(p_key, how))
    return tables


def _key(p_key: PKey, how: Membership) -> PKey:
    return PKey(p_key.partition | (FULL_BIT if how == "full" else 0))

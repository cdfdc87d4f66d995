"""Ports that have an M_Key by the key store and that a sweep did not find. A run reports each of them, except those of
another subnet and those for which the user has ended the wait.

Such a port, or a node on the route to it, is off or silent. The port keeps its key until a run finds it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

from ibkeys.change.writer import ChangeWriter
from ibkeys.discovery.keyring import KeyRing
from ibkeys.mkeys.rollout.found_ports import ports_without_neighbour
from ibkeys.mkeys.rollout.planned_run import PlannedRun
from ibkeys.mkeys.rollout.result import PortResult
from ibkeys.store.journal import Journal
from ibkeys.store.journal.runs import REMOVAL, MKeyRun, NewRunPort, RunPort
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port
from ibkeys.topology.port_id import identity

_SETTLE = "`ibkeys keystore list --settle` ends the wait for a port that is gone"

_HAS_KEY = f"not read, and it has an M_Key already, as the key store knows; {_SETTLE}"


def absent_ports(store: KeyStore, found: Topology) -> list[NewRunPort]:
    """Return the ports that have a key by the key store and that the sweep did not find, in the order of the key store.

    Two kinds of ports are left out: those for which the user has ended the wait, and those whose known links lead to no
    node that the sweep found. The latter belong to another subnet, because one key store may have the keys of several
    subnets. Raises StoreError.
    """
    not_absent = {port.port_guid for port in found.end_ports()} | store.settled()
    current = (row for row in store.rows() if row.state == "current" and not row.m_key.is_zero)
    missing = [row for row in current if row.port_guid not in not_absent]
    ports = [NewRunPort(row.node_guid or row.port_guid, row.port_guid, row.port or 0) for row in missing]
    elsewhere = _of_another_subnet(store, found) if missing else set()
    return [port for port in ports if port.port_guid not in elsewhere]


def _of_another_subnet(store: KeyStore, found: Topology) -> set[int]:
    """Return the GUIDs of the switches and end ports whose known links do not lead, directly or over other nodes, to a
    node that the sweep found."""
    peers: dict[int, set[int]] = defaultdict(set)
    for (guid, _), (peer, _) in store.links().items():
        peers[guid].add(peer)
        peers[peer].add(guid)
    joined = {port.link_end[0] for port in found.ports()} & set(peers)
    waiting = list(joined)
    while waiting:
        new = peers[waiting.pop()] - joined
        joined |= new
        waiting += new
    return set(peers) - joined


def name_absent_in_new_run(writer: ChangeWriter, run: PlannedRun, waits: bool) -> None:
    """Add the ports that the sweep of a new run did not find to ``run.skipped``, each by its name.

    *waits*: whether the run has a change for these ports, which is made when the run is resumed. If the run has no
    other port, it never begins, and a new run is needed for them. Raises StoreError.
    """
    absent = absent_ports(writer.keystore, run.found)
    if waits and (run.jobs or run.already_set):
        run.absent = absent
    before = _name_silent_neighbours(writer.fabric.ring, run, absent)
    text = _advise_on_absent(run, waits)
    for port, where in zip(absent, absent_identities(writer, absent), strict=True):
        error = before.get(port.port_guid)
        why = f"{text}; at the switch port before it: {error}" if error else text
        run.skipped.append(PortResult(where, "skipped", why, unread=True))


def _name_silent_neighbours(ring: KeyRing, run: PlannedRun, absent: Collection[NewRunPort]) -> dict[int, str]:
    """Add to ``run.skipped`` each port whose neighbour does not answer, unless an *absent* port is known to be that
    neighbour. For these, return the error by the GUID of the absent port, so that no port is named twice."""
    errors: dict[int, str] = {}
    for near, error in ports_without_neighbour(run.found):
        guid = _known_behind(ring, near, absent)
        if guid is None:
            run.skipped.append(PortResult(near.identity(), "skipped", error, unread=True))
        else:
            errors[guid] = error
    return errors


def _advise_on_absent(run: PlannedRun, waits: bool) -> str:
    """Return, in words, what follows for a port that the sweep of a new run did not find, and the next command."""
    if not waits:
        return _HAS_KEY
    advice = "run this again"
    if run.jobs or run.already_set:
        effect = "removes it" if run.plan.command == REMOVAL else "gives it the new one"
        advice = f"`ibkeys resume` {effect}"
    return f"not read, so it keeps its former M_Key: when it answers, {advice}; {_SETTLE}"


def name_absent_beside_run(
    writer: ChangeWriter, run: PlannedRun, store: KeyStore, last: MKeyRun, ports: Sequence[RunPort]
) -> None:
    """Add to ``run.skipped`` the ports that the sweep did not find and that are not in *ports*, the ports of the
    resumed run, each by its name. The run leaves them as they are. *last*: the run that is resumed. Raises
    StoreError."""
    known = {port.port_guid for port in ports}
    absent = [port for port in absent_ports(store, run.found) if port.port_guid not in known]
    text = _HAS_KEY
    if last.command != "mkey-deploy":
        effect = "removes it" if last.command == REMOVAL else "gives it a new one"
        state = f"not read, and not in operation {last.id}, so it keeps its M_Key"
        text = f"{state}: when it answers, a new {last.command} {effect}; {_SETTLE}"
    run.skipped += [PortResult(where, "skipped", text, unread=True) for where in absent_identities(writer, absent)]


def _known_behind(ring: KeyRing, near: Port, absent: Collection[NewRunPort]) -> int | None:
    """Return the GUID of the absent port that is behind *near* by the known links; None if there is none."""
    expected = ring.expected_behind(near.link_end)
    return expected[0] if expected is not None and any(port.port_guid == expected[0] for port in absent) else None


def absent_identities(writer: ChangeWriter, ports: Sequence[NewRunPort | RunPort]) -> list[dict[str, Any]]:
    """Return the identities of ports that the sweep did not find, as in every JSON document. The name of a node is
    taken from the node-name map, or else from the journal, and its type from the journal; an unknown name or type is
    None. Raises StoreError.
    """
    if not ports:
        return []
    with Journal.read(writer.fabric.stores.journal) as journal:
        nodes = journal.nodes()
    names, unknown = writer.fabric.node_names, (None, None)
    found = []
    for port in ports:
        name, node_type = nodes.get(port.port_guid, unknown)
        name = names.get(port.node_guid, name)
        found.append(identity(port.node_guid, port.port_guid, name, node_type, port.port, None))
    return found

"""One whole sweep, from the first query of the local port to the notes at its end."""

from __future__ import annotations

from ibkeys.client.smp import SmpClient
from ibkeys.collecting import few_collections
from ibkeys.discovery.bounds import limit_notes
from ibkeys.discovery.keyring import KeyRing
from ibkeys.discovery.moved_ports import describe_moves, describe_swaps
from ibkeys.discovery.own_port import explain_own_error
from ibkeys.discovery.sweep import Sweep
from ibkeys.discovery.wanted import OnFound, Wanted
from ibkeys.errors import NoReply, SendRefused
from ibkeys.topology.model import Topology


def discover(
    client: SmpClient,
    ring: KeyRing,
    wanted: Wanted | None = None,
    progress: OnFound | None = None,
    node_names: dict[int, str] | None = None,
) -> Topology:
    """Return the whole fabric as seen from the local port.

    *wanted*: None for nodes and links only. *progress*: called from time to time. *node_names*: NodeGUID → the name
    that replaces the NodeDescription.

    It sends NodeInfo once for each link, NodeDescription for each node, SwitchInfo for each switch, PortInfo for each
    port, and, if P_Keys are wanted, ``ceil(capacity / 32)`` P_KeyTable blocks for each port. Raises TransportError;
    NoReply, SendRefused, MadStatusError or MKeyNeeded for the local port. Every other failure is in
    ``Topology.troubles``; each limit of the client that was reached is also in ``Topology.notes``.
    """
    return run_sweep(Sweep(client, ring, wanted or Wanted(), progress, node_names or {}))


def run_sweep(sweep: Sweep) -> Topology:
    """Run a sweep to its end, and return its result. Raises the errors of `discover`."""
    client, ring = sweep.client, sweep.ring
    with few_collections(), client.bounded():
        try:
            client.run([sweep.root()])
        except (NoReply, SendRefused) as error:
            raise explain_own_error(error, ring, client.port.attributes().port_guid) from error
        sweep.query_unproven()
    if ring.neighbors:
        sweep.topology.notes += describe_moves(sweep.topology, ring) + describe_swaps(sweep.topology, ring)
    sweep.topology.put_in_order()
    sweep.topology.notes += limit_notes(sweep.topology, client.limits)
    return sweep.topology

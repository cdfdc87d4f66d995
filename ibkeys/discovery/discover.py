"""One whole sweep, from the first query of the local port to the notes at its end."""

from __future__ import annotations

from ibkeys.client.smp import SmpClient
from ibkeys.collecting import few_collections
from ibkeys.discovery.bounds import limit_notes
from ibkeys.discovery.keyring import KeyRing
from ibkeys.discovery.moved import describe_moves, describe_swaps
from ibkeys.discovery.own_port import about_own_key
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

    SMPs: NodeInfo once for each link, NodeDescription for each node, SwitchInfo for each switch, PortInfo for each
    port, and ``ceil(capacity / 32)`` P_KeyTable blocks where wanted. Raises TransportError, and the error of the local
    port when it cannot be read at all; every other failure is in ``Topology.troubles``, and each limit of the client
    that was reached is in ``Topology.notes`` too.
    """
    return run_sweep(Sweep(client, ring, wanted or Wanted(), progress, node_names or {}))


def run_sweep(sweep: Sweep) -> Topology:
    """Run a sweep to its end, and return its result. Raises the errors of `discover`."""
    client, ring = sweep.client, sweep.ring
    with few_collections(), client.bounded():
        try:
            client.run([sweep.root()])
        except (NoReply, SendRefused) as error:
            raise about_own_key(error, ring, client.port.attributes().port_guid) from error
        sweep.ask_waiting()
    if ring.neighbors:
        sweep.found.notes += describe_moves(sweep.found, ring) + describe_swaps(sweep.found, ring)
    sweep.found.put_in_order()
    sweep.found.notes += limit_notes(sweep.found, client.limits)
    return sweep.found

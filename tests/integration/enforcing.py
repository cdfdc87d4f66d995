"""An open fabric with an OpenSM whose leaf ports enforce no partitions, for `ibkeys harden`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.corpus import DATA
from tests.integration.hosted import Hosted
from tests.integration.keyed_opensm import KeyedOpensm, keyed

NET = DATA / "fabrics" / "two-switch.net"
OPEN = "# OpenSM's defaults, but for these\nsweep_interval 3\npart_enforce off\n"


@contextmanager
def open_fabric() -> Iterator[KeyedOpensm]:
    with keyed(NET, OPEN) as running:
        running.served.folder.chmod(0o755)
        yield running


def enforcement(served: Hosted) -> list[int]:
    """Return the enforcement bits of the switch ports before CAs: inbound 2 and outbound 1."""
    wire = served.wire()
    return [
        wire[node.guid, port.number][1]
        for node in served.net.nodes
        if node.is_switch
        for port in node.ports
        if port.number and port.peer is not None and not port.peer.node.is_switch
    ]

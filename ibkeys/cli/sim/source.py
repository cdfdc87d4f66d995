"""The output of `sim serve` about a subnet made from files, and the M_Keys that it writes for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ibkeys.cli.documents.sim import SIM_SERVE
from ibkeys.cli.render import write_document

if TYPE_CHECKING:
    from ibkeys.sim.server.server import Server
    from ibkeys.sim.subnet import Subnet


def end_ports_of(subnet: Subnet) -> int:
    """Return the number of end ports of *subnet*."""
    return sum(len(list(node.end_ports)) for node in subnet.nodes)


def write_ready(
    format: str, server: Server, files: Sequence[str], environment: Mapping[str, str], m_keys: int | None
) -> bool:
    """Write the document about the served subnet if *format* is json or csv, and return whether it is.

    *environment*: the variables with which programs attach. *m_keys*: how many M_Keys `export_keys` wrote, if it did.
    """
    subnet, home = server.subnet, server.home
    assumed = [
        {"what": each.what, "count": each.count, "unit": each.unit, "assumed": each.assumed} for each in subnet.assumed
    ]
    document: dict[str, Any] = {
        "files": list(files),
        "nodes": len(subnet.nodes),
        "end_ports": end_ports_of(subnet),
        "node": {"node_id": home.node_id, "node_desc": home.description},
        "environment": dict(environment),
        "m_keys": m_keys,
        "assumed": assumed,
    }
    return write_document(format, SIM_SERVE, lambda: document, assumed)


def assumed_lines(subnet: Subnet) -> Iterator[str]:
    """Yield a line for each fact that the files lack, with the value that is assumed for it."""
    if subnet.assumed:
        yield "The files do not say, so this is assumed:"
        yield from (f"  {each}" for each in subnet.assumed)

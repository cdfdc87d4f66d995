"""Reading the local port's P_Key table from sysfs, if its umad device may not be opened or cannot send SMPs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibkeys.cli import exits
from ibkeys.cli.addresses import PortArguments
from ibkeys.cli.opening import is_simulated
from ibkeys.cli.options import Where
from ibkeys.cli.showing import PortListing
from ibkeys.errors import PortDown, TransportError
from ibkeys.keys.pkey import entry_documents

if TYPE_CHECKING:
    from ibkeys.host.kernel.ports import KernelPort


def table_of_kernel(where: Where, named_port: PortArguments, error: TransportError) -> PortListing:
    """Return the rows of `pkey-show` for the local port *named_port*, read from sysfs, and write a note about it.

    *error*: why the port itself could not be read. It is raised again on a simulated subnet, if it is PortDown, if
    *named_port* is not a local port, and if sysfs does not show the port.
    """
    port = None if is_simulated(where) or isinstance(error, PortDown) else _local_port(where, named_port)
    if port is None:
        raise error
    exits.note(f"{error}; so the P_Key table is read from sysfs, as the driver of {port} has it")
    identity = port.id.to_json()
    table = {"capacity": port.capacity, "pkeys": entry_documents(port.occupied), "virtual_ports": None}
    port_listing = PortListing([{**identity, **table}])
    if port.p_keys is None:
        port_listing.errors.append({**identity, "error": "sysfs does not show its P_Key table"})
    port_listing.errors += [{**identity, "error": f"sysfs does not show index {index}"} for index in port.unread]
    return port_listing


def _local_port(where: Where, named_port: PortArguments) -> KernelPort | None:
    from ibkeys.client.address import DirectedAddress, GuidAddress, LidAddress
    from ibkeys.host.kernel.ports import choose_port, read_ports
    from ibkeys.host.kernel.sysfs import Sysfs

    ports = [port for port in read_ports(Sysfs()) if port.is_infiniband]
    match named_port.address:
        case None | DirectedAddress(()):
            chosen = choose_port(ports, where.ca, where.port)
            candidates = [chosen] if chosen is not None else []
        case LidAddress(lid):
            candidates = [port for port in ports if port.id.lid == lid]
        case GuidAddress(guid):
            candidates = [port for port in ports if guid in (port.id.port_guid, port.id.node_guid)]
        case _:
            candidates = []
    return next((port for port in candidates if named_port.portnum in (None, port.num)), None)

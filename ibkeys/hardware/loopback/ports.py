"""The two ports of a loopback: both belong to this host, or nothing is written.

The identity of each port comes from libibumad on this host, which sends nothing. Only then is the fabric queried: it
must show the far port with the same GUIDs and LID, and no other port with them. Any node can claim any GUID, so the far
port's own device is also queried for its neighbour, which must be the neighbour that the sweep found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ibkeys.arguments import given
from ibkeys.client.address import LOCAL, DirectedAddress
from ibkeys.errors import Refused, UsageError
from ibkeys.fabric.handle import PortHandle
from ibkeys.fabric.open_port import OpenPort
from ibkeys.hardware.reading import FabricReading
from ibkeys.mad.attributes import NodeInfo
from ibkeys.printable import counted
from ibkeys.topology.nodes import Port
from ibkeys.umad.devices import ACTIVE, INFINIBAND, IS_SM_DISABLED
from ibkeys.umad.port import LocalCa, LocalPort, UmadPort

NOT_OWN: Final = "own-ports"
"""The name of the refusals of this module. No option overrides it."""


def named_ports(text: str, cas: Sequence[LocalCa]) -> tuple[LocalPort, LocalPort]:
    """Return the two ports of this host that ``CA/PORT,CA/PORT`` names. Sends nothing.

    Raises UsageError if the text does not name two different ports of this host; Refused for ports that are no
    InfiniBand ports, may not send SMPs, are not Active, have no port GUID of their own, or are in different subnets.
    """
    names = names_in(text)
    if len(names) != 2:
        raise UsageError(f"ports {text!r}: name two ports of this host, as in mlx5_0/1,mlx5_1/1")
    first, second = (_find_port(name, text, cas) for name in names)
    if (first.ca_name, first.port) == (second.ca_name, second.port):
        raise UsageError(f"ports {text!r}: this is the same port twice")
    every = [port.port_guid for ca in cas for port in ca.ports]
    for port in (first, second):
        far_name = f"{port.ca_name}/{port.port}"
        if why := _why_unfit(port):
            raise _refused(f"{far_name} {why}")
        if not port.port_guid or every.count(port.port_guid) > 1:
            raise _refused(f"{far_name} has no port GUID of its own in sysfs")
    if first.gid_prefix != second.gid_prefix:
        raise _refused("the two ports are in different subnets, by their GID prefix")
    return first, second


def names_in(text: str) -> list[tuple[str, str]]:
    """Return the CA name and the port number, both as text, of each port in ``CA/PORT,CA/PORT``. Checks nothing."""
    return [(ca, number) for ca, _, number in (part.strip().rpartition("/") for part in text.split(","))]


def _find_port(name: tuple[str, str], text: str, cas: Sequence[LocalCa]) -> LocalPort:
    for ca in cas:
        for port in ca.ports:
            if name == (ca.name, str(port.port)):
                return port
    have = ", ".join(f"{ca.name}/{port.port}" for ca in cas for port in ca.ports) or "none"
    asked = "/".join(name).lstrip("/")
    raise UsageError(f"ports {text!r}: this host has no port {asked!r}; its ports are {have}")


def _why_unfit(port: LocalPort) -> str:
    if port.link_layer not in INFINIBAND:
        return f"is no InfiniBand port ({port.link_layer})"
    if port.capability_mask & IS_SM_DISABLED:
        return "may not send SMPs (a virtual function)"
    return "" if port.state == ACTIVE else "is not Active: both need a LID and a link"


def prove_far_port(
    reading: FabricReading, near: LocalPort, far: LocalPort, open_far: Callable[[LocalPort], UmadPort]
) -> PortHandle:
    """Prove that the fabric, opened at *near*, shows the port *far* of this host, and return a handle on it.

    *open_far*: opens the device of *far*. Raises Refused if the proof fails: the fabric was not opened at *near*, it
    shows another port in place of *far* or several with its GUID or LID, or the route to it does not leave this host;
    the errors of a sweep, of queries and of *open_far*.
    """
    if (reading.local.ca_name, reading.local.port) != (near.ca_name, near.port):
        raise Refused(
            f"the fabric was opened at {reading.local.ca_name}/{reading.local.port}, not at the first port", NOT_OWN
        )
    far_name = f"{far.ca_name}/{far.port}"
    with_guid = [port for port in reading.topology.end_ports() if port.guid == far.port_guid]
    same_lid = [port for port in reading.topology.end_ports() if port.lid == far.base_lid]
    if len(with_guid) != 1 or same_lid != with_guid or not far.base_lid:
        raise _refused(
            f"the fabric does not show exactly one port with the GUID and the LID of {far_name} "
            f"({len(with_guid)} have the GUID, {len(same_lid)} the LID){_unasked_text(reading)}"
        )
    port = with_guid[0]
    if doubt := reading.fabric.doubt_of(port):
        raise _refused(f"{far_name}: {doubt}")
    handle = reading.fabric.handle(port)
    arrival = NodeInfo(handle.get(NodeInfo))
    identity = arrival.node_guid, arrival.port_guid, arrival.local_port_num
    [node_guid] = [ca.node_guid for ca in reading.cas() if ca.name == far.ca_name]
    if identity != (node_guid, far.port_guid, far.port):
        raise _refused(f"on {handle.route} another port answers than {far_name} of this host")
    if isinstance(handle.route, DirectedAddress) and not handle.route.path:
        raise _refused("the route to the second port does not leave this host")
    if why := _why_elsewhere(reading, far, port, open_far):
        raise _refused(f"{far_name}: {why}")
    return handle


def _unasked_text(reading: FabricReading) -> str:
    """Return the end of a message: the sweep did not query some ports, and how to have them queried; "" if it queried
    all."""
    if not (unasked := reading.topology.unasked):
        return ""
    return (
        f"; behind {counted(len(unasked), 'port')} the sweep queried no port, because a protected port may be there: "
        f"`ibkeys keystore list --settle`, or {given('--trust-topology')}"
    )


def _why_elsewhere(
    reading: FabricReading, far: LocalPort, port: Port, open_far: Callable[[LocalPort], UmadPort]
) -> str:
    """Query the own device of *far* and return why *far* cannot be *port* of the sweep; "" if it is the same port."""
    peer = port.peer
    if peer is None:
        return "the sweep does not say which port its cable leads to"
    with OpenPort(open_far(far), timing=reading.fabric.client.timing) as own:
        here = NodeInfo(own.get(NodeInfo, 0, LOCAL, port.m_key))
        there = NodeInfo(own.get(NodeInfo, 0, DirectedAddress((far.port,)), peer.end_port.m_key))
    if here.port_guid != far.port_guid:
        return "its own device shows another port GUID"
    if (there.node_guid, there.local_port_num) != (peer.node.guid, peer.num):
        return "its cable leads to another port than the sweep found"
    return ""


def _refused(why: str) -> Refused:
    return Refused(f"nothing was written to the two ports: {why}", NOT_OWN)

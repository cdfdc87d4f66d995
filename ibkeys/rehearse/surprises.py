"""Notes on conditions of the fabric and options of OpenSM under which OpenSM does not do what a plan expects. They name
the ports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ibkeys.keys.mkey import MKey
from ibkeys.managers.opensm.options_file import OptionsFile
from ibkeys.printable import counted, named
from ibkeys.rehearse.remembered_indexes import Memory
from ibkeys.sim.nodes import SimNode, SimPort
from ibkeys.sim.subnet import Subnet
from ibkeys.topology.model import Topology

_MOST = 3


def notes_before_start(subnet: Subnet, options: OptionsFile, m_key: MKey) -> Iterator[str]:
    """Yield notes on nodes that share a GUID, on options of OpenSM, and on M_Keys that the snapshot does not show.
    *options*: the options of the site's OpenSM; *m_key*: the key that replaces its option m_key."""
    nodes: dict[int, list[SimNode]] = {}
    for node in subnet.nodes:
        nodes.setdefault(node.guid, []).append(node)
    for guid, same in nodes.items():
        if len(same) > 1:
            ends = ", and ends if it finds them" if options.value("exit_on_fatal") is True else ""
            names = named([node.description for node in same])
            yield f"{len(same)} nodes have the GUID 0x{guid:016x} ({names}): OpenSM takes one for the other{ends}"
    if options.value("keep_pkey_indexes") is not True:
        yield "keep_pkey_indexes is FALSE: OpenSM packs its tables, so P_Keys in use move when others come or go"
    ends_of_links = [port for node in subnet.nodes for port in node.end_ports]
    others = [port for port in ends_of_links if port.m_key and port.m_key != m_key.reveal()]
    if others and options.value("m_key_lookup") is not True:
        yield (
            f"m_key_lookup is FALSE: OpenSM uses its m_key for every port; another M_Key has {_ports(others)}, which "
            "refuses its Sets"
        )
    hiding = [port for port in ends_of_links if port.protect_bits and not port.m_key]
    if hiding:
        yield (
            f"the snapshot does not show the M_Key of {_ports(hiding)}: the copy has none there, and on the fabric an "
            "OpenSM that does not know the key cannot set these ports"
        )


def notes_on_unread_nodes(found: Topology) -> Iterator[str]:
    """Yield a note on the ports of a snapshot behind which nothing was read. The copy has no node there."""
    ports = list(dict.fromkeys(str(each.port) for each in found.troubles if each.is_behind))
    if ports:
        rest = ", ..." if len(ports) > _MOST else ""
        yield (
            f"the snapshot does not say what is behind {counted(len(ports), 'port')} ({named(ports[:_MOST])}{rest}): "
            "the copy has nothing there, and on the fabric the change may fail there"
        )


def notes_on_full_tables(subnet: Subnet) -> Iterator[str]:
    """Yield a note on the end ports whose P_Key table has no free entry."""
    full = [port for node in subnet.nodes for port in node.end_ports if port.p_keys and all(port.p_keys)]
    if full:
        yield f"the P_Key table of {_ports(full)} is full: OpenSM leaves out a P_Key for which there is no entry"


def notes_on_remembered_indexes(subnet: Subnet, memory: Memory) -> Iterator[str]:
    """Yield a note on the end ports for which OpenSM remembers an index. A restarted OpenSM does not remember it."""
    ports = [port for node in subnet.nodes for port in node.end_ports if (node.guid, port.number) in memory]
    if ports:
        yield (
            f"OpenSM remembers an index of P_Keys that {_ports(ports)} had: a restart forgets it, and the P_Key then "
            "comes back at another index"
        )


def _ports(ports: Iterable[SimPort]) -> str:
    names = [f"{port.node.description} port {port.number}" for port in ports]
    rest = ", ..." if len(names) > _MOST else ""
    return f"{counted(len(names), 'port')} ({named(names[:_MOST])}{rest})"

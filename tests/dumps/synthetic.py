"""An ibdiagnet2.db_csv of a simulated subnet, in the columns that public parsers expect. Synthetic: no real one is
public."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ibkeys.discovery.wanted import EVERYTHING
from ibkeys.dumps.db_csv import NODE_COLUMNS, PORT_COLUMNS, SWITCH_COLUMNS
from ibkeys.sim.subnet import Subnet
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port
from tests.fabricsim import tool

_IN_HEX = frozenset(("MKey", "GIDPrfx", "SystemImageGUID"))
NODES = ("NodeDesc", "NumPorts", "NodeType", "ClassVersion", "BaseVersion", "NodeGUID", "PortGUID", *NODE_COLUMNS)
PORTS = ("NodeGuid", "PortGuid", "PortNum", *PORT_COLUMNS, "LinkSpeedActv", "OOOSLMask", "FECActv")


def swept(net: Subnet) -> Topology:
    """Return a sweep of all of *net*."""
    with tool(net) as fabric:
        return fabric.sweep(wanted=EVERYTHING)


def db_csv(fabric: Topology, leave_out: Sequence[str] = (), columns: Sequence[str] = PORTS) -> str:
    """Return the file; *leave_out*: sections. *columns*: those of section PORTS."""
    ports = [port for port in fabric.ports() if port.info is not None]
    links = (port for port in ports if port.peer is not None and _end(port) < _end(port.peer))
    sections: dict[str, tuple[Sequence[str], Iterable[Sequence[str]]]] = {
        "NODES": (NODES, _nodes(fabric)),
        "SWITCHES": (("NodeGUID", *SWITCH_COLUMNS), _switches(fabric)),
        "PORTS": (columns, ([_of_port(port, name) for name in columns] for port in ports)),
        "LINKS": (("NodeGuid1", "PortNum1", "NodeGuid2", "PortNum2"), ([*_end(p), *_end(p.peer)] for p in links)),  # type: ignore[arg-type]
        "PM_INFO": (("NodeGUID", "Anything"), [("0x1", '"a,b"')]),
    }
    lines = ["# synthetic", ""]
    for name, (header, rows) in sections.items():
        if name not in leave_out:
            body = [",".join(header), *(",".join(row) for row in rows)]
            lines += [f"START_{name}", *body, f"END_{name}", "", ""]
    return "\n".join(lines)


def _end(port: Port) -> tuple[str, str]:
    return f"0x{port.node.guid:016x}", str(port.num)


def _nodes(fabric: Topology) -> Iterator[list[str]]:
    for node in fabric.nodes:
        info = node.node_info
        known = {"NodeDesc": f'"{node.description}"', "NumPorts": str(node.num_ports), "NodeType": str(node.type)}
        known |= {"ClassVersion": "1", "BaseVersion": "1", "NodeGUID": f"0x{node.guid:016x}"}
        known["PortGUID"] = f"0x{info.port_guid:016x}"
        known |= {name: _value(name, row.decode(node.info)) for name, row in NODE_COLUMNS.items()}
        yield [known[name] for name in NODES]


def _switches(fabric: Topology) -> Iterator[list[str]]:
    for node in fabric.nodes:
        raw = node.switch_info_raw
        if raw is not None:
            yield [f"0x{node.guid:016x}", *(_value(name, row.decode(raw)) for name, row in SWITCH_COLUMNS.items())]


def _of_port(port: Port, name: str) -> str:
    assert port.info is not None
    if name in PORT_COLUMNS:
        return _value(name, PORT_COLUMNS[name].decode(port.info))
    known = {"NodeGuid": _end(port)[0], "PortGuid": f"0x{port.port_guid:016x}", "PortNum": str(port.num)}
    return known.get(name, "N/A")


def _value(name: str, value: int) -> str:
    return f"0x{value:016x}" if name in _IN_HEX else str(value)

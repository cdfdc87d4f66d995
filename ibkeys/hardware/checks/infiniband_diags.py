"""Checks that infiniband-diags, run on the same port, read the same values as ibkeys.

Their output may have M_Keys. While it is read, it is in a folder that only this user can read; of its contents only the
names of fields that differ are kept. No key is given to these programs.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from ibkeys import files
from ibkeys.dumps.dotted import split_dotted
from ibkeys.dumps.facts import DumpFacts, PortFacts
from ibkeys.dumps.lines import text_lines
from ibkeys.dumps.netdiscover import read_netdiscover
from ibkeys.dumps.saquery import read_saquery
from ibkeys.dumps.smpquery import read_smpquery
from ibkeys.errors import FileFormatError, IbkeysError, Unreachable
from ibkeys.hardware.check import CheckAnswer, as_assumed, check, checks_in, not_checked
from ibkeys.hardware.reading import FabricReading
from ibkeys.host.run_program import run_with_reason
from ibkeys.mad.attributes import NodeInfo, PortInfo
from ibkeys.mad.performance import PortCounters
from ibkeys.mad.records import PortInfoRecord
from ibkeys.printable import clean
from ibkeys.topology.nodes import LinkEnd

_CHANGING: Final = frozenset({"m_key", "diag_code", "client_reregister", "port_state", "port_physical_state"})
"""Fields of PortInfo that may change between two reads, and the key, which is not shown."""
_COUNTER: Final = re.compile(r"[0-9]{1,20}", re.ASCII)
_TIME_LIMIT: Final = 120.0
"""Seconds after which a program is ended: ibnetdiscover of a large fabric takes longest."""
_T = TypeVar("_T")


@check("smpquery.nodeinfo", "standard", "smpquery nodeinfo of the local port says what ibkeys reads")
def nodeinfo(reading: FabricReading) -> CheckAnswer:
    """Compare NodeInfo, field by field."""
    dump = _run(reading, ["smpquery", "nodeinfo", str(reading.local.base_lid)], read_smpquery)
    own = NodeInfo(reading.handle.get(NodeInfo))
    if not dump.nodes:
        return not_checked("smpquery printed no NodeInfo")
    node = dump.nodes[0]
    mine = {name: getattr(own, name) for name in node.fields}
    theirs = {**node.fields, "node_guid": node.guid, "num_ports": node.num_ports, "node_type": node.type}
    mine |= {"node_guid": own.node_guid, "num_ports": own.num_ports, "node_type": own.node_type}
    return _compare_fields(mine, theirs, NodeInfo)


@check("smpquery.portinfo", "standard", "smpquery portinfo of the local port says what ibkeys reads")
def portinfo(reading: FabricReading) -> CheckAnswer:
    """Compare the fields of PortInfo that smpquery prints and that do not change by themselves."""
    command = ["smpquery", "portinfo", str(reading.local.base_lid), str(reading.local.port)]
    return _compare_port_info(reading, _run(reading, command, read_smpquery))


@check("smpquery.pkeys", "standard", "smpquery pkeys of the local port prints the table that ibkeys reads")
def pkeys(reading: FabricReading) -> CheckAnswer:
    """Compare the P_Key table, entry by entry."""
    owner = PortFacts(None, reading.local.port, at_lid=reading.local.base_lid)
    command = ["smpquery", "pkeys", str(reading.local.base_lid), str(reading.local.port)]
    _run(reading, command, lambda path, limit: read_smpquery(path, limit, owner))
    table = owner.table or b""
    theirs = [int.from_bytes(table[at : at + 2]) for at in range(0, len(table), 2)]
    mine = [int(key) for key in reading.handle.read_p_keys()]
    wrong = [index for index, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b]
    text = f"{len(mine)} entries, {len(theirs)} by smpquery; {len(wrong)} differ"
    return as_assumed(len(mine) == len(theirs) and not wrong, text, indexes=wrong[:32])


@check("saquery.own-record", "standard", "saquery PIR of the local port says what ibkeys reads of the SA")
def own_record(reading: FabricReading) -> CheckAnswer:
    """Compare PortInfoRecord of the local port."""
    lid = reading.own_info.lid
    dump = _run(reading, ["saquery", "PIR", f"{lid}/{reading.local.port}"], read_saquery)
    record = reading.fabric.sa().get(PortInfoRecord, endport_lid=lid, port_num=reading.local.port)
    return _compare_port_info(reading, dump, record.port_info)


@check("ibnetdiscover.fabric", "standard", "ibnetdiscover finds the nodes and links that ibkeys finds")
def fabric(reading: FabricReading) -> CheckAnswer:
    """Compare nodes by GUID, and links by their ends."""
    dump = _run(reading, ["ibnetdiscover"], read_netdiscover, queries_fabric=True)
    theirs, mine = {node.guid for node in dump.nodes}, {node.guid for node in reading.topology.nodes}
    their_links = {frozenset(link) for link in dump.links or ()}
    my_links = {
        frozenset(((port.node.guid, port.num), (port.peer.node.guid, port.peer.num)))
        for port in reading.topology.ports()
        if port.peer is not None
    }
    ends: Collection[frozenset[LinkEnd]] = their_links ^ my_links
    text = f"{len(mine)} nodes and {len(my_links)} links; by ibnetdiscover {len(theirs)} and {len(their_links)}"
    return as_assumed(not (theirs ^ mine or ends), text, nodes_differ=len(theirs ^ mine), links_differ=len(ends))


@check("perfquery.counters", "standard", "perfquery reads counters between those that ibkeys reads before and after it")
def counters(reading: FabricReading) -> CheckAnswer:
    """Compare PortCounters of the local port with reads before and after perfquery, because they go on counting."""
    before = _own_counters(reading)
    theirs = _run(reading, ["perfquery", str(reading.local.base_lid), str(reading.local.port)], _read_counters)
    after = _own_counters(reading)
    by_name = {row.name: row.attr for row in PortCounters.rows.values()}
    shared = {name: by_name[name] for name in theirs if name in by_name and not name.endswith(("Select", "Select2"))}
    wrong = [name for name, attr in shared.items() if not getattr(before, attr) <= theirs[name] <= getattr(after, attr)]
    return _compare_values(shared, wrong)


def _own_counters(reading: FabricReading) -> PortCounters:
    port = reading.at_lid(reading.own_info.lid).port  # Counters are queried by LID.
    [(_, counters)] = reading.fabric.read_port_counters([port])
    if isinstance(counters, IbkeysError):
        raise counters
    return counters


def _read_counters(path: Path, limit: int) -> dict[str, int]:
    """Return the counters that perfquery printed, by name."""
    pairs = (split_dotted(line.text) for line in text_lines(path, limit))
    return {pair[0]: int(pair[1]) for pair in pairs if pair is not None and _COUNTER.fullmatch(pair[1])}


def _compare_port_info(reading: FabricReading, dump: DumpFacts, mine: PortInfo | None = None) -> CheckAnswer:
    ports = [port for port in dump.ports if port.info is not None]
    if not ports or ports[0].info is None:
        return not_checked("no PortInfo was printed")
    own, theirs = mine or reading.handle.read_port_info(), PortInfo(ports[0].info)
    names = [name for name in PortInfo.rows if name not in ports[0].lacks and name not in _CHANGING]
    return _compare_fields(
        {name: getattr(own, name) for name in names}, {name: getattr(theirs, name) for name in names}, PortInfo
    )


def _compare_fields(
    mine: dict[str, Any], theirs: dict[str, Any], layout: type[NodeInfo] | type[PortInfo]
) -> CheckAnswer:
    shared = {layout.rows[name].name: name for name in theirs}
    return _compare_values(shared, [title for title, name in shared.items() if mine[name] != theirs[name]])


def _compare_values(shared: Collection[str], wrong: list[str]) -> CheckAnswer:
    if not shared:
        return not_checked("nothing was printed that both have")
    text = f"{len(shared)} values" + (f", of which differ: {', '.join(wrong)}" if wrong else "")
    return as_assumed(not wrong, text, differing=wrong)


def _run(
    reading: FabricReading, command: Sequence[str], read: Callable[[Path, int], _T], *, queries_fabric: bool = False
) -> _T:
    """Run *command* on the local port and return the result of *read* for the file with its output.

    *read*: gets the file and the most bytes to read. *queries_fabric*: the program sends SMPs to other nodes too.
    Raises Unreachable, with a message for the report, if the program may not or cannot be run, or fails;
    FileFormatError if its output is not understood; the errors of reading the local port, and those of the sweep if
    *queries_fabric*.
    """
    if why := _why_not_run(reading, queries_fabric):
        raise Unreachable(why)
    program = command[0]
    if shutil.which(program) is None:
        raise Unreachable(f"{program} is not installed (infiniband-diags)")
    where = ["-C", reading.local.ca_name, "-P", str(reading.local.port)]
    result = run_with_reason([program, *where, *command[1:]], _TIME_LIMIT)
    if result.output is None:
        raise Unreachable(f"{program} failed: {clean(result.reason)}")
    with tempfile.TemporaryDirectory(prefix="ibkeys-") as folder:  # mode 0700
        path = Path(folder) / program
        path.touch(0o600)
        path.write_text(result.output, encoding="utf-8", errors="replace")
        try:
            return read(path, files.LARGE)
        except FileFormatError as error:
            # The error names the program, because the temporary folder is removed before anyone reads the message.
            raise FileFormatError(error.fault, program, error.line, error.column) from None


def _why_not_run(reading: FabricReading, queries_fabric: bool) -> str:
    """Return why a program may not be run; "" if it may. *queries_fabric*: it sends SMPs to other nodes too."""
    if reading.fabric.is_simulated:
        return "a subnet that is simulated in this process: no other program can reach it"
    if reading.own_is_protected:
        return "the local port has an M_Key at level 2 or 3: it would count the Gets of a program that has no key"
    return reading.why_no_other_program() if queries_fabric else ""


CHECKS: Final = checks_in(globals())

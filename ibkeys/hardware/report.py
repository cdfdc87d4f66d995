"""The report: its documents for the archive. No P_Key, no M_Key and no raw attribute is in it."""

from __future__ import annotations

import getpass
import socket
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from ibkeys.hardware.archive.key_forms import KeyForms
from ibkeys.hardware.archive.known_keys import known_keys
from ibkeys.hardware.archive.mask import Mask
from ibkeys.hardware.archive.packing import as_json, write_archive
from ibkeys.hardware.check import CheckOutcome, Finding
from ibkeys.hardware.reading import FabricReading
from ibkeys.mad.attributes import VIOLATION_COUNTERS, PortInfo
from ibkeys.topology.nodes import Node, Port
from ibkeys.version import __version__

SCHEMA: Final = "ibkeys.hardware/1"
WORDS: Final[Mapping[CheckOutcome, str]] = {
    "same": "same",
    "differs": "DIFFERS",
    "seen": "seen",
    "not-checked": "not checked",
}
_WIDTH: Final = max(map(len, WORDS.values()))
_PROTECTION: Final = (PortInfo.m_key_protect_bits, PortInfo.m_key_lease_period)
_ROOT: Final = "root"
"""A user name that identifies no person."""
_README: Final = """A report of `ibkeys doctor --report`: what a real fabric answered, and what ibkeys assumes.

report.txt   one line for each check, and what was assumed where it differs
report.json  the same, with what was assumed, why, and the values
fabric.json  nodes, ports and links of the sweep; of P_Key tables only how many entries are used
host.json    what doctor says of this host

No M_Key, SM_Key, SA_Key, class key and no P_Key is in here: they are left out, and then every file was searched for
every key that was known. {hashed}
Look through the files before you send them. The issue form "It ran on hardware" takes the archive.
"""
_HASHED: Final = (
    "GUIDs, LIDs and names are hashed with a secret that was thrown away; equal ones are equal in all files.",
    "GUIDs, LIDs and names of nodes are as they are; `ibkeys doctor --report FILE --hash-guids` hashes them.",
)


@dataclass(frozen=True)
class HardwareReport:
    """The report of one examination. `rows` and `write` mask all keys, and with ``hashed`` also addresses and names.

    ``reading``: None if the local port could not be opened. ``host``: doctor's findings about this host, one mapping
    for each check.
    """

    reading: FabricReading | None
    findings: Sequence[Finding]
    host: Sequence[Mapping[str, Any]] = ()
    hashed: bool = False

    def summary(self) -> dict[str, int]:
        """Return the number of checks with each outcome, 0 included."""
        counts = Counter(finding.answer.outcome for finding in self.findings)
        return {outcome: counts[outcome] for outcome in WORDS}

    @cached_property
    def mask(self) -> Mask:
        """The mask for all documents; a second mask would make different hashes. Raises StoreError as `known_keys`."""
        keys = known_keys(self.reading) if self.reading is not None else KeyForms(())
        return Mask(keys, self.hashed, _names(self.reading))

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The findings as they are in the JSON document. Values from the fabric are masked, texts of ibkeys are not.
        Raises the errors of `mask`."""
        return [
            {**row, "said": self.mask.text(row["said"]), "values": self.mask.document(row["values"])}
            for row in (finding.to_json() for finding in self.findings)
        ]

    def write(self, path: Path) -> None:
        """Write the archive to *path*. Raises FileError and the errors of `mask`; then the file at *path* is
        unchanged."""
        mask = self.mask
        document = {
            "schema": SCHEMA,
            "ibkeys": __version__,
            "taken": datetime.now(UTC).date().isoformat(),
            "simulated": self.reading is not None and self.reading.fabric.is_simulated,
            "hashed": self.hashed,
            "keys_looked_for": mask.keys.count,
            "short_keys": mask.keys.short,
            "summary": self.summary(),
            "findings": self.rows,
        }
        contents = {
            "README.txt": _README.format(hashed=_HASHED[0] if self.hashed else _HASHED[1]).encode(),
            "report.txt": "".join(line + "\n" for line in lines_of(self.rows)).encode("utf-8", "backslashreplace"),
            "report.json": as_json(document),
            "fabric.json": as_json(mask.document(self._fabric())),
            "host.json": as_json({"checks": mask.document(list(self.host))}),
        }
        write_archive(path, contents, mask.keys)

    def _fabric(self) -> dict[str, Any]:
        swept = self.reading.fabric.swept if self.reading is not None else None
        if swept is None:
            return {"nodes": None, "notes": []}
        return {"nodes": [_node(node) for node in swept.nodes], "notes": list(swept.notes)}


def lines_of(findings: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each of the *findings* (`HardwareReport.rows`), and a second line with the assumption if it
    differs."""
    width = max((len(row["id"]) for row in findings), default=0)
    for row in findings:
        yield f"{WORDS[row['outcome']]:<{_WIDTH}}  {row['id']:<{width}}  {row['said']}"
        if row["outcome"] == "differs":
            yield f"{'':<{_WIDTH}}  {'':<{width}}  assumed: {row['assumed']}"


def _node(node: Node) -> dict[str, Any]:
    info = node.node_info
    return {
        "node_guid": f"0x{node.guid:016x}",
        "node_desc": node.description,
        "node_type": node.type_name,
        "vendor_id": f"0x{info.vendor_id:06x}",
        "device_id": f"0x{info.device_id:04x}",
        "revision": f"0x{info.revision:x}",
        "num_ports": node.num_ports,
        "ports": [_port(port) for _, port in sorted(node.ports.items())],
    }


def _port(port: Port) -> dict[str, Any]:
    info, peer = port.port_info, port.peer
    return {
        "port": port.num,
        "port_guid": f"0x{port.port_guid:016x}",
        "lid": port.lid,
        "peer": {"node_guid": f"0x{peer.node.guid:016x}", "port": peer.num} if peer is not None else None,
        "p_key_capacity": port.capacity,
        "p_keys_used": len(port.occupied) if port.occupied is not None else None,
        "m_key_state": port.m_key_state if port.is_end_port else None,
        "port_state": info.port_state if info else None,
        "capability_mask": f"0x{info.capability_mask:08x}" if info else None,
        "capability_mask2": f"0x{info.capability_mask2:04x}" if info else None,
        **{row.attr: row.decode(info.raw) if info else None for row in (*_PROTECTION, *VIOLATION_COUNTERS)},
    }


def _names(reading: FabricReading | None) -> Iterator[str]:
    """Yield the possible names of nodes, of this host, and of its user."""
    host = socket.gethostname()
    yield from (host, host.split(".")[0], str(Path.home()))
    with suppress(KeyError, OSError):  # a user without a name
        yield from {getpass.getuser()} - {_ROOT}
    if reading is None:
        return
    yield from reading.fabric.node_names.values()
    for node in reading.fabric.swept.nodes if reading.fabric.swept is not None else ():
        yield node.description or ""

"""The request for a rehearsal, made of a snapshot."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from ibkeys.fabric.snapshot import Snapshot
from ibkeys.keys.mkey import MKey
from ibkeys.mad.attributes import PortInfo
from ibkeys.rehearse.rehearsal import RehearsalRequest
from ibkeys.rehearse.site_opensm import SiteOpensm
from ibkeys.rehearse.standbys import standbys_of
from ibkeys.replica.recorded import records_of
from ibkeys.sim.netfile.model import NetFile
from ibkeys.topology.port_id import PortKey
from ibkeys.topology.subnet_manager import shown_subnet_manager


def request_of(
    snapshot: Snapshot,
    name: str,
    opensm: SiteOpensm,
    host: str | None = None,
    change: bytes | None = None,
    is_policy: bool = False,
    command: Sequence[str] = (),
    operation: int | None = None,
    journal: Path | None = None,
    standbys: Sequence[str] = (),
    arguments: Sequence[str] = (),
    only_apply: Sequence[str] = (),
) -> RehearsalRequest:
    """Return the request for a rehearsal on a copy of *snapshot*. *name*: its file, for errors. *standbys*: as for
    `standbys_of`. The other parameters are as in `RehearsalRequest`. Raises FileFormatError for a snapshot that cannot
    be served; UsageError as `standbys_of`."""
    fabric = records_of(snapshot, name)
    made_up = _made_up_keys(snapshot, fabric)
    manager = shown_subnet_manager(snapshot.fabric)

    def number_of(key: MKey) -> int | None:
        if opensm.packed is not None:
            return key.reveal()  # A bundle has made-up keys already.
        number = snapshot.number_of(key)
        return None if number is None else made_up.get(number)

    return RehearsalRequest(
        fabric,
        opensm,
        host,
        manager.port_guid or snapshot.about.port_guid,
        manager.presence == "active",
        number_of,
        snapshot.about.has_keys or snapshot.fingerprints is not None or opensm.packed is not None,
        change,
        is_policy,
        command,
        operation,
        journal,
        standbys_of(snapshot, manager.port_guid, standbys),
        _believed(snapshot),
        arguments,
        only_apply,
    )


def _believed(snapshot: Snapshot) -> dict[PortKey, tuple[int, ...]]:
    """Return the P_Key tables as the SA of the master has them, by port; empty for a snapshot without them."""
    view = snapshot.sa_view
    found = {}
    for port, record in view.ports.items() if view is not None else ():
        if record.p_key_raw is not None:
            found[port.node.guid, port.num] = struct.unpack(f">{len(record.p_key_raw) // 2}H", record.p_key_raw)
    return found


def _made_up_keys(snapshot: Snapshot, fabric: NetFile) -> dict[int, int]:
    """Return the made-up M_Key in *fabric* of each M_Key of *snapshot*, by the number that *snapshot* has for it."""
    found = {}
    for node, record in zip(snapshot.fabric.nodes, fabric.nodes, strict=True):
        for num, port in node.ports.items():
            readings = record.ports[num].readings
            if port.is_end_port and port.info is not None and readings is not None and readings.port_info is not None:
                found[PortInfo(port.info).m_key] = PortInfo(readings.port_info).m_key
    return found

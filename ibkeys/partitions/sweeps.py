"""Simulating a running OpenSM over a series of policies: the P_KeyTables of all end ports after each sweep.

Pure: policies in, tables out. How one table is made: `ibkeys.partitions.opensm_tables`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ibkeys.keys.pkey import PKey
from ibkeys.partitions.membership import EndPort, resolve
from ibkeys.partitions.model import Policy
from ibkeys.partitions.opensm_tables import Entries, Placement, place


@dataclass(slots=True)
class Sweeps:
    """An OpenSM on *sm_port_guid*, and the ports whose tables it writes.

    ``tables``: the table of each port; ``capacity``: its entries; both by port GUID. ``allow_both`` and
    ``keep_indexes`` are OpenSM's allow_both_pkeys and keep_pkey_indexes. ``remembered``: the P_Keys that this OpenSM
    process has placed or found at each port, by index; nothing after a start. It decides the index of a new P_Key. For
    a process that is already running it is not known.
    """

    ports: Iterable[EndPort]
    sm_port_guid: int | None
    tables: dict[int, Entries]
    capacity: Mapping[int, int]
    allow_both: bool = False
    keep_indexes: bool = True
    remembered: dict[int, dict[int, PKey]] = field(default_factory=dict)

    def sweep(self, policy: Policy | None) -> dict[int, Placement]:
        """Let OpenSM read *policy*, None for a missing file, and return the new table of each port."""
        found = resolve(policy, self.ports, self.sm_port_guid, self.allow_both, emulate_fallback=True)
        placed = {
            guid: place(
                before,
                found.by_port.get(guid, ()),
                self.capacity[guid],
                found.index0.get(guid),
                allow_both=self.allow_both,
                keep_indexes=self.keep_indexes,
                remembered=self.remembered.get(guid),
            )
            for guid, before in self.tables.items()
        }
        for guid, placement in placed.items():
            self.tables[guid] = placement.entries
            self.remembered.setdefault(guid, {}).update(placement.entries)
        return placed

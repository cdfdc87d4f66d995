"""Simulating a running OpenSM over a series of policies: the P_KeyTables of all end ports after each sweep.

Nothing is sent or read. `ibkeys.partitions.opensm_tables` makes each single table.
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
    """A simulated OpenSM, and the ports whose tables it writes.

    ``ports``: all end ports. ``sm_port_guid``: the port of the OpenSM, None if not known. ``tables``: the present table
    of each port, by port GUID; ``capacity``: its number of entries. ``allow_both`` and ``keep_indexes``: OpenSM's
    allow_both_pkeys and keep_pkey_indexes. ``remembered``: by port GUID, the P_Keys by index that this OpenSM process
    has placed or found at the port; they decide the index of a new P_Key. Empty for a newly started process; for a
    process that runs already they are not known.
    """

    ports: Iterable[EndPort]
    sm_port_guid: int | None
    tables: dict[int, Entries]
    capacity: Mapping[int, int]
    allow_both: bool = False
    keep_indexes: bool = True
    remembered: dict[int, dict[int, PKey]] = field(default_factory=dict)

    def sweep(self, policy: Policy | None) -> dict[int, Placement]:
        """Let OpenSM read *policy* (None: there is no file) and write all tables. Return the new table of each port, by
        port GUID, and store it in ``tables``.
        """
        resolution = resolve(policy, self.ports, self.sm_port_guid, self.allow_both, emulate_fallback=True)
        placed = {
            guid: place(
                before,
                resolution.by_port.get(guid, ()),
                self.capacity[guid],
                resolution.index0.get(guid),
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

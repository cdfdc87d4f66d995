"""The P_Key indexes that a running OpenSM remembers. They are of P_Keys that a port had since that OpenSM started, and
does not have now.

OpenSM gives such a P_Key its former index again (keep_pkey_indexes); a restarted OpenSM has forgotten it. The tables
before and after each change are in the journal. The OpenSM of a rehearsal has to remember the same indexes. So its
ports get these P_Keys, and it starts with a policy that has them. Then it reads the policy in force and takes them
away. Source: opensm osm_pkey.c (accum_pkeys), osm_pkey_mgr.c.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ibkeys.change.images import P_KEY_BLOCK
from ibkeys.keys.pkey import FULL_BIT, PARTITION_MASK
from ibkeys.rehearse.tables import PortTables, Tables
from ibkeys.store.journal import Journal
from ibkeys.topology.port_id import PortKey

Memory = Mapping[PortKey, Mapping[int, int]]
"""Port → index → P_Key that OpenSM remembers there."""
_BLOCK: Final = 32
_BLOCK_MASK: Final = 0xFFFF


def indexes_remembered_by(journal: Path, since: str, tables: Tables) -> dict[PortKey, dict[int, int]]:
    """Return the P_Keys that an OpenSM remembers, by port and index. *since*: the time of its start; *tables*: the
    present tables. A P_Key of the *journal* is remembered if its port has no P_Key of that partition now, and the index
    is free. Raises StoreError."""
    last: dict[PortKey, dict[int, tuple[int, int]]] = {}
    with Journal.read(journal) as opened:
        for record in opened.list_operations():
            for entry in opened.entries(record.id) if record.started >= since else ():
                image = entry.image
                if image.attribute != "P_KeyTable":
                    continue
                first = _BLOCK * (image.attribute_modifier & _BLOCK_MASK)
                of_port = last.setdefault((image.node_guid, image.port), {})
                for block in (image.before, image.after):
                    for index, value in enumerate(P_KEY_BLOCK.unpack(block), first):
                        if value & PARTITION_MASK:
                            of_port[value & PARTITION_MASK] = index, value
    found = {}
    for key, entries in last.items():
        present = tables[key].p_keys if key in tables else ()
        partitions = {value & PARTITION_MASK for value in present}
        free = {
            index: value
            for partition, (index, value) in entries.items()
            if partition not in partitions and index < len(present) and not present[index]
        }
        if free:
            found[key] = free
    return found


def with_tables(tables: Tables, believed: Mapping[PortKey, tuple[int, ...]]) -> dict[PortKey, PortTables]:
    """Return *tables* with the P_Keys of *believed* at its ports; a longer table is left out."""
    after = dict(tables)
    for key, entries in believed.items():
        if key in after and len(entries) <= len(after[key].p_keys):
            rest = len(after[key].p_keys) - len(entries)
            after[key] = after[key]._replace(p_keys=(*entries, *[0] * rest))
    return after


def with_memory(tables: Tables, memory: Memory) -> dict[PortKey, PortTables]:
    """Return *tables* with the remembered P_Keys at their indexes."""
    after = dict(tables)
    for key, entries in memory.items():
        values = list(after[key].p_keys)
        for index, value in entries.items():
            values[index] = value
        after[key] = after[key]._replace(p_keys=tuple(values))
    return after


def policy_with_memory(policy: bytes, memory: Memory, guids: Mapping[PortKey, int]) -> bytes:
    """Return the policy in force with lines that give the remembered P_Keys to their end ports. *guids*: the port GUIDs
    of the end ports."""
    lines = [
        f"0x{value & PARTITION_MASK:04x} : 0x{guids[key]:016x}={'full' if value & FULL_BIT else 'limited'} ;"
        for key, entries in memory.items()
        if key in guids
        for value in entries.values()
    ]
    return policy + "".join(f"\nremembered{number}={line}" for number, line in enumerate(lines)).encode() + b"\n"


def new_partitions(before: Tables, after: Tables) -> list[PortKey]:
    """Return the ports that get a P_Key of a partition of which they have none in *before*. The index of each is
    uncertain: the journal does not know what others changed since OpenSM started."""
    found = []
    for key, tables in after.items():
        had = {value & PARTITION_MASK for value in before[key].p_keys}
        if any(value & PARTITION_MASK not in had for value in tables.p_keys if value):
            found.append(key)
    return found

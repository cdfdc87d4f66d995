"""A snapshot of a simulated subnet, and what two of them must have in common when one was made of the other."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import ibkeys
from ibkeys.fabric.snapshot import Snapshot, take_snapshot
from ibkeys.fabric.snapshot_file import load_snapshot, save_snapshot
from ibkeys.keys.fingerprint import Fingerprints
from ibkeys.keys.mkey import MKey
from ibkeys.mad.attributes import PortInfo
from ibkeys.mad.classes.gmp import KEY_CLASSES
from ibkeys.mad.const import CapabilityMask
from ibkeys.scripting import Fabric
from ibkeys.sim.subnet import Subnet
from ibkeys.topology.nodes import Port
from tests.protectedsim import end_ports, ring_of

SECRET = Fingerprints(bytes(range(32)))


def snapshot_of(
    net: Subnet, path: Path, locked: Collection[int] = (), class_keys: bool = False, with_keys: bool = False
) -> Snapshot:
    """Read *net* with the M_Keys of all its ports but those whose GUIDs are *locked*, write that into *path*, and
    return what is in it."""
    with ibkeys.open(net) as fabric:
        know_keys(fabric, net, locked)
        taken = take_snapshot(fabric, SECRET)
        if class_keys:
            questions = fabric.class_key_questions(taken.fabric.end_ports(), KEY_CLASSES.values(), ask_unkeyed=True)
            taken.class_keys = fabric.ask_class_keys(questions)
    save_snapshot(path, taken, with_keys)
    return load_snapshot(path)


def know_keys(fabric: Fabric, net: Subnet, locked: Collection[int] = ()) -> None:
    """Let *fabric* know the links of *net*, and the M_Keys of all its ports but those whose GUIDs are *locked*."""
    fabric.ring = ring_of(net)
    fabric.ring.trust_topology = True
    fabric.ring.by_guid = {port.guid: MKey(port.m_key) for port in end_ports(net) if port.guid not in locked}


def contents(snapshot: Snapshot) -> list[Any]:
    """Return what a replica must have as it was: all but the subnet managers, with a number for each M_Key."""
    numbers: dict[int, int] = {0: 0}

    def number(key: int) -> int:
        return numbers.setdefault(key, len(numbers))

    def of_port(port: Port) -> Any:
        info = port.info
        if info is not None:
            view = PortInfo(info)
            mask = view.capability_mask & ~CapabilityMask.IS_SM
            info = view.replace(capability_mask=mask, m_key=number(view.m_key) if port.is_end_port else 0).raw
        peer = (port.peer.node.guid, port.peer.node.twin, port.peer.num) if port.peer else None
        tables = (port.p_key_raw, port.guid_info, port.virtualization_raw)
        return (port.num, port.port_guid, port.lid, port.path, info, tables, peer, port.m_key_state, port.capacity)

    fabric = snapshot.fabric
    return [
        *(
            (
                (node.info, node.description_raw, node.switch_info_raw, node.path, node.twin),
                [of_port(port) for _, port in sorted(node.ports.items())],
            )
            for node in fabric.nodes
        ),
        [  # whether a place is asked in vain or, for a key's sake, not at all, is the reader's matter
            (each.port.node.guid, each.port.node.twin, each.port.num, each.attribute)
            for each in fabric.troubles
            if each.attribute != "SMInfo"
        ],
    ]


def counted_errors(snapshot: Snapshot) -> dict[Any, Any]:
    """Return the constraint errors that could be read, by port."""
    return {
        (port.node.guid, port.num): (errors.received, errors.transmitted)
        for port, errors in snapshot.constraint_errors.items()
        if errors.error is None
    }


def class_settings(snapshot: Snapshot) -> dict[Any, Any]:
    """Return what ports said of the keys of other classes, with 1 for each key."""
    found: dict[Any, Any] = {}
    for each in snapshot.class_keys or ():
        if each.state in ("set", "zero", "hidden") and each.settings is not None:
            settings = each.settings
            place = (each.port.node.guid, each.port.num, each.of)
            found[place] = (each.state, settings.replace(key=min(settings.key, 1)).raw)
    return found

"""Assigning an operation to a subnet, if several subnets share one journal.

Ports that an operation wrote to may be down when another one begins. So an operation keeps the GUIDs of all switches of
its subnet, and that of the port through which ibkeys read it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

from ibkeys.change.interlocks.overtaken import OVERTAKEN
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import Refused
from ibkeys.store.journal import Journal
from ibkeys.store.sqlite import guid_text
from ibkeys.topology.model import Topology
from ibkeys.topology.port_id import PortKey

KEPT_SUBNET: Final = "subnet"
"""The journal's name of the GUIDs that an operation keeps."""


def subnet_guids(writer: ChangeWriter, topology: Topology) -> list[str]:
    """Return the GUIDs of all switches in *topology*, the result of a sweep, and of the local port, as the journal
    keeps them."""
    own = writer.fabric.own_guid
    return sorted(guid_text(port.guid) for port in topology.end_ports() if port.node.is_switch or port.guid == own)


def is_of_other_subnet(journal: Journal, operation: int, guids: Collection[int]) -> bool:
    """Return whether an operation certainly belongs to another subnet than the one whose ports have *guids*: the
    journal keeps GUIDs for it, and neither one of these nor a port that it wrote to is among *guids*. For an undo the
    GUIDs of the operation that it undoes count too. Raises StoreError."""
    kept = _kept_guids(journal, operation)
    wrote = {guid for each in (operation, *journal.relatives(operation)) for guid in journal.port_guids(each)}
    return bool(kept) and kept.isdisjoint(map(guid_text, guids)) and wrote.isdisjoint(guids)


def _kept_guids(journal: Journal, operation: int) -> set[str]:
    numbers = (operation, *journal.relatives(operation))
    return {guid for each in numbers for guid in journal.kept(each, KEPT_SUBNET)}


def _is_any_of(ports: Iterable[PortKey], topology: Topology) -> bool | None:
    """Return whether at least one of *ports* is in *topology*; None if there are no ports."""
    wanted = set(ports)
    return any((port.node.guid, port.num) in wanted for port in topology.ports()) if wanted else None


def refuse_other_subnet(
    writer: ChangeWriter, operation: int, topology: Topology, planned: Callable[[], Iterable[PortKey]]
) -> None:
    """Raise Refused (``overtaken``) for an operation of another subnet than that of *topology*, the result of a sweep,
    by `is_of_other_subnet`. An earlier version of ibkeys kept no GUIDs of the subnet: then the operation is of another
    subnet if none of its *planned* ports was found. Raises StoreError."""
    guids = {port.guid for port in topology.end_ports()}
    with Journal.read(writer.fabric.stores.journal) as journal:
        if not is_of_other_subnet(journal, operation, guids) and (
            _kept_guids(journal, operation) or _is_any_of(planned(), topology) is not False
        ):
            return
    raise Refused(
        f"operation {operation} is of another subnet: the sweep found neither one of its switches, nor the port "
        "through which it was made, nor one that it wrote to",
        OVERTAKEN,
    ).unchanged(
        "name the local port that leads to its own subnet (-C, -P)",
        f"If all of these were replaced: `ibkeys resume {operation} --overtaken` only ends the record of an operation "
        "that is open.",
    )

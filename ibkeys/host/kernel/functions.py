"""Whether a device is a virtual function; and for mlx4 devices, which entries of the P_Key table each function has.
Source: Linux mlx4 and mlx5 (a virtual function has no QP0, and its CapabilityMask shows that). An mlx5 virtual function
is a virtual port of its own, whose P_Key table the subnet manager writes; its host has no file with that table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ibkeys.host.kernel.sysfs import Sysfs, numbers_in
from ibkeys.host.kernel.tables import MOST_INDEX, Table, index_of, read_table
from ibkeys.keys.pkey import PKey
from ibkeys.mad.const import CapabilityMask

NOT_MAPPED: Final = "none"
_PORTS: Final = "ports"


@dataclass(frozen=True, slots=True)
class VirtualFunction:
    """Whether a device is a virtual function. ``is_virtual``: None if this is not known. ``reason``: the evidence, in
    words."""

    is_virtual: bool | None
    reason: str


@dataclass(frozen=True, slots=True)
class MappedEntry:
    """An entry of the P_Key table that a function of an mlx4 device has. ``index``: its index in that table.
    ``physical``: the index of the same entry in the device's physical table, ``p_key``: the P_Key there; each is None
    if the entry is not mapped, or if it could not be read."""

    index: int
    physical: int | None
    p_key: PKey | None


@dataclass(frozen=True, slots=True)
class MappedFunction:
    """The entries of a port's P_Key table that one function of an mlx4 device has. ``pci``: the function's PCI address,
    such as 0000:04:00.1."""

    pci: str
    entries: tuple[MappedEntry, ...]


def find_virtual(sysfs: Sysfs, node: str, capability_mask: int | None) -> VirtualFunction:
    """Return whether a device is a virtual function. *node*: the device's directory in sysfs. *capability_mask*: that
    of its InfiniBand port; None for other ports, and if it could not be read. In a virtual machine the link to the
    physical function is missing, so there only the CapabilityMask shows a virtual function.
    """
    physical = sysfs.link(f"{node}/device/physfn")
    if physical is not None:
        return VirtualFunction(True, f"its physical function is {physical[:40]}")
    if capability_mask is None:
        return VirtualFunction(None, "neither a physical function nor a CapabilityMask of InfiniBand is shown")
    if capability_mask & CapabilityMask.IS_SM_DISABLED:
        return VirtualFunction(True, "its CapabilityMask says IsSMdisabled: it may not send SMPs")
    return VirtualFunction(False, "its CapabilityMask lacks IsSMdisabled: it may send SMPs")


def read_mapped(sysfs: Sysfs, node: str, port: int, p_keys: Table | None) -> tuple[MappedFunction, ...]:
    """Return, for each function of an mlx4 device, its entries of the *port*'s P_Key table; () for all other devices. A
    function without entries there is left out. *node*: the device's directory in sysfs, in which ``iov/ports/N/pkeys``
    is the physical table. *p_keys*: the table that the port itself shows, used in place of the physical table if that
    is empty or cannot be read.
    """
    slots = [pci for pci in sysfs.names(f"{node}/iov") or () if pci != _PORTS]
    if not slots:
        return ()
    physical = read_table(sysfs, f"{node}/iov/ports/{port}/pkeys") or p_keys or ()
    found = []
    for pci in slots:
        folder = f"{node}/iov/{pci}/ports/{port}/pkey_idx"
        indexes = numbers_in(sysfs.names(folder), MOST_INDEX)
        mapping = [(index, sysfs.parsed(f"{folder}/{index}", _parse_physical_index)) for index in indexes]
        entries = tuple(MappedEntry(index, at, _entry_at(physical, at)) for index, at in mapping)
        if entries:
            found.append(MappedFunction(pci, entries))
    return tuple(found)


def _entry_at(table: Table, index: int | None) -> PKey | None:
    return table[index] if index is not None and index < len(table) else None


def _parse_physical_index(text: str) -> int | None:
    """Parse an index of the physical table; return None for the word ``none``. Raises ValueError."""
    return None if text == NOT_MAPPED else index_of(text)

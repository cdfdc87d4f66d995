"""IPoIB interfaces of this host with their P_Keys, from sysfs.

Source: Linux drivers/infiniband/ulp/ipoib (ipoib_main.c, ipoib_vlan.c). A child that ``ip link add type ipoib`` made
has no file ``pkey``, ``parent``, ``mode`` or ``umcast``. The driver writes its P_Key into bytes 8 and 9 of its
broadcast address, and ``iflink`` has the index of its parent. Only netlink has its mode and umcast.

/sys/class/net has the interfaces of the network namespace in which /sys was mounted. ``ip netns exec`` mounts it anew;
after ``nsenter --net`` or ``unshare --net`` alone it is still the former one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ibkeys.host.kernel.ports import KernelPort
from ibkeys.host.kernel.sysfs import Sysfs
from ibkeys.keys.pkey import PKey

CLASS: Final = "class/net"
ARPHRD_INFINIBAND: Final = "32"
InterfaceSource = Literal["pkey", "broadcast"]
"""The source of an interface's P_Key: its file ``pkey``, or the address of its broadcast group."""

_IFF_UP: Final = 1
_MOST_INDEX: Final = 0x7FFF_FFFF
_ADDRESS: Final = re.compile("[0-9a-f]{2}(?::[0-9a-f]{2}){19}")
_CARRIERS: Final = {"1": True, "0": False}
_P_KEY_BYTES: Final = slice(8, 10)
_GUID_BYTES: Final = slice(12, 20)


@dataclass(frozen=True, slots=True)
class Interface:
    """One IPoIB interface. ``parent``: the name of its parent interface; None if it has none, or if the parent is in
    another network namespace. ``port``: its port, None if no port has the GUID of its address. ``index``: the index of
    its partition in that port's table, None if the table does not have it or was not read. ``mode``: "datagram" or
    "connected"; ``umcast``: whether user programs join multicast groups themselves; None for a child without these
    files. ``is_up``: whether IFF_UP is set, None if not known; ``is_running``: whether the kernel shows a carrier, None
    if that could not be read, and unless the interface is up."""

    name: str
    p_key: PKey | None
    source: InterfaceSource | None
    parent: str | None
    mode: str | None
    umcast: bool | None
    is_up: bool | None
    is_running: bool | None
    port: KernelPort | None
    index: int | None

    @property
    def problem(self) -> str | None:
        """The reason why the interface cannot work or may not work; None if no problem is known."""
        if self.p_key is None:
            return "its P_Key is not known"
        if self.port is None:
            return "no port of this host has the GUID of its address"
        if self.index is None and self.port.p_keys is not None and not self.port.unread:
            return f"partition 0x{self.p_key.partition:04x} is not in the P_Key table of {self.port}"
        if self.is_up and self.is_running is False:
            return (
                "up, but not running: its P_Key is not in the table, or the broadcast group of the partition could not "
                "be joined (`ibkeys compare --ipoib`)"
            )
        return None


def interface_names(sysfs: Sysfs) -> list[str]:
    """Return the names of the IPoIB interfaces."""
    return [name for name in sysfs.names(CLASS) or () if sysfs.text(f"{CLASS}/{name}/type") == ARPHRD_INFINIBAND]


def read_interfaces(sysfs: Sysfs, names: Sequence[str], ports: Iterable[KernelPort]) -> tuple[Interface, ...]:
    """Return the IPoIB interfaces *names*, each parent before its children. *ports*: the ports of the same host."""
    by_guid: dict[int | None, KernelPort] = {port.id.port_guid: port for port in ports if port.is_infiniband}
    by_guid.pop(None, None)
    guids = {name: _read_guid(sysfs, f"{CLASS}/{name}") for name in names}
    parents = _find_parents(sysfs, guids)
    found = [_read_interface(sysfs, name, parents.get(name), by_guid.get(guid)) for name, guid in guids.items()]
    return tuple(sorted(found, key=lambda each: (each.parent or each.name, each.parent is not None, each.name)))


def _read_guid(sysfs: Sysfs, folder: str) -> int | None:
    address = sysfs.parsed(f"{folder}/address", _parse_address)
    return None if address is None else int.from_bytes(address[_GUID_BYTES])


def _find_parents(sysfs: Sysfs, guids: Mapping[str, int | None]) -> dict[str, str]:
    """Return the name of each child's parent: that in its file ``parent``, else the interface whose index is in its
    file ``iflink``. *guids*: the GUID of each interface's port.

    The index may be one of another network namespace, from which the child was moved. So an interface counts as the
    parent only if it is on the same port and its ``iflink`` is its own index.
    """
    below = {name: sysfs.number(f"{CLASS}/{name}/iflink", 10, _MOST_INDEX) for name in guids}
    tops: dict[tuple[int | None, int | None], str] = {}
    for name, guid in guids.items():
        index = sysfs.number(f"{CLASS}/{name}/ifindex", 10, _MOST_INDEX)
        if index is not None and index == below[name] and guid is not None:
            tops[index, guid] = name
    by_link = {name: tops.get((below[name], guid)) for name, guid in guids.items()}
    return {
        name: parent
        for name, top in by_link.items()
        if (parent := sysfs.text(f"{CLASS}/{name}/parent") or top) is not None and parent != name
    }


def _read_interface(sysfs: Sysfs, name: str, parent: str | None, port: KernelPort | None) -> Interface:
    folder = f"{CLASS}/{name}"
    p_key, source = _read_p_key(sysfs, folder)
    flags = sysfs.number(f"{folder}/flags", 16, 0xFFFF_FFFF)
    is_up = None if flags is None else bool(flags & _IFF_UP)
    umcast = sysfs.text(f"{folder}/umcast")
    return Interface(
        name,
        p_key,
        source,
        parent,
        sysfs.text(f"{folder}/mode") or None,
        umcast == "1" if umcast in ("0", "1") else None,
        is_up,
        _CARRIERS.get(sysfs.text(f"{folder}/carrier") or "") if is_up else None,
        port,
        _find_index(port, p_key),
    )


def _read_p_key(sysfs: Sysfs, folder: str) -> tuple[PKey | None, InterfaceSource | None]:
    of_file = sysfs.number(f"{folder}/pkey", 16, 0xFFFF)
    if of_file is not None:
        return PKey(of_file), "pkey"
    group = sysfs.parsed(f"{folder}/broadcast", _parse_address)
    if group is not None:
        return PKey(int.from_bytes(group[_P_KEY_BYTES])), "broadcast"
    return None, None


def _find_index(port: KernelPort | None, p_key: PKey | None) -> int | None:
    """Return the index of an interface's partition in its port's table; None if it is not there, or was not read. The
    driver sets bit 15 in the interface's P_Key for full and limited members alike, so only the other 15 bits are
    compared."""
    if port is None or p_key is None or not p_key.is_valid:
        return None
    return next((index for index, key in port.occupied or () if key.partition == p_key.partition), None)


def _parse_address(text: str) -> bytes:
    """Parse a hardware address of IPoIB, and return its 20 bytes (RFC 4391, 9.1.1). Raises ValueError."""
    if not _ADDRESS.fullmatch(text):
        raise ValueError(f"{text[:80]!r} is not an address of 20 bytes")
    return bytes.fromhex(text.replace(":", ""))

"""IPoIB interfaces of this host with their P_Keys, parents first of all from sysfs, else from netlink.

Source: Linux drivers/infiniband/ulp/ipoib (vlan.c, netlink.c). A child that ``ip link add type
ipoib`` made has no pkey, parent or mode file: its P_Key is in netlink, and, in a copy of /sys, in bytes 8 and 9 of its
broadcast address.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from ibkeys.host.kernel.links import Link
from ibkeys.host.kernel.ports import KernelPort
from ibkeys.host.kernel.sysfs import Sysfs
from ibkeys.keys.pkey import PKey

CLASS: Final = "class/net"
ARPHRD_INFINIBAND: Final = "32"
Source = Literal["pkey", "netlink", "broadcast"]
"""Where a P_Key was seen: the file ``pkey``, netlink, or the address of the broadcast group."""

_IFF_UP: Final = 1
_ADDRESS: Final = re.compile("[0-9a-f]{2}(?::[0-9a-f]{2}){19}")
_P_KEY_BYTES: Final = slice(8, 10)
_GUID_BYTES: Final = slice(12, 20)


@dataclass(frozen=True, slots=True)
class Interface:
    """One IPoIB interface. ``port``: the port it is on, None where no port has the GUID of its address. ``index``:
    where that port's table has its partition, None where it has not, or was not read. ``is_up``: somebody set it up;
    ``is_running``: it works; None: not known."""

    name: str
    p_key: PKey | None
    source: Source | None
    parent: str | None
    mode: str | None
    umcast: bool | None
    is_up: bool | None
    is_running: bool | None
    port: KernelPort | None
    index: int | None

    @property
    def problem(self) -> str | None:
        """Why it cannot work, or may not; None where nothing is known against it."""
        if self.p_key is None:
            return "its P_Key is not known"
        if self.port is None:
            return "no port of this host has the GUID of its address"
        if self.index is None and self.port.p_keys is not None and not self.port.unread:
            return f"partition 0x{self.p_key.partition:04x} is not in the P_Key table of {self.port}"
        if self.is_up and self.is_running is False:
            return (
                "up, but not running: its P_Key is not in the table, or the broadcast group of the partition could not "
                "be joined (ibkeys compare --ipoib)"
            )
        return None


def interface_names(sysfs: Sysfs) -> list[str]:
    """Return the names of the IPoIB interfaces."""
    return [name for name in sysfs.names(CLASS) or () if sysfs.text(f"{CLASS}/{name}/type") == ARPHRD_INFINIBAND]


def read_interfaces(
    sysfs: Sysfs, names: Iterable[str], links: Mapping[str, Link], ports: Iterable[KernelPort]
) -> tuple[Interface, ...]:
    """Return the IPoIB interfaces *names*, each parent before its children. *links*: what netlink says, {} where it
    was not asked."""
    by_guid = {port.id.port_guid: port for port in ports if port.is_infiniband and port.id.port_guid is not None}
    found = [_interface(sysfs, name, links.get(name), by_guid) for name in names]
    return tuple(sorted(found, key=lambda each: (each.parent or each.name, each.parent is not None, each.name)))


def _interface(sysfs: Sysfs, name: str, link: Link | None, by_guid: Mapping[int, KernelPort]) -> Interface:
    folder = f"{CLASS}/{name}"
    address = sysfs.parsed(f"{folder}/address", _address)
    port = by_guid.get(int.from_bytes(address[_GUID_BYTES])) if address is not None else None
    p_key, source = _p_key(sysfs, folder, link)
    flags = sysfs.number(f"{folder}/flags", 16, 0xFFFF_FFFF)
    is_up = None if flags is None else bool(flags & _IFF_UP)
    umcast = sysfs.text(f"{folder}/umcast")
    return Interface(
        name,
        p_key,
        source,
        sysfs.text(f"{folder}/parent") or (link.parent if link is not None else None),
        sysfs.text(f"{folder}/mode") or (link.mode if link is not None else None),
        umcast == "1" if umcast in ("0", "1") else link.umcast if link is not None else None,
        is_up,
        sysfs.text(f"{folder}/carrier") == "1" if is_up else None,
        port,
        _index(port, p_key),
    )


def _p_key(sysfs: Sysfs, folder: str, link: Link | None) -> tuple[PKey | None, Source | None]:
    of_file = sysfs.number(f"{folder}/pkey", 16, 0xFFFF)
    if of_file is not None:
        return PKey(of_file), "pkey"
    if link is not None and link.p_key is not None:
        return PKey(link.p_key), "netlink"
    group = sysfs.parsed(f"{folder}/broadcast", _address)
    if group is not None:
        return PKey(int.from_bytes(group[_P_KEY_BYTES])), "broadcast"
    return None, None


def _index(port: KernelPort | None, p_key: PKey | None) -> int | None:
    """Return where a table has the partition of an interface: the driver sets bit 15 whatever the membership is."""
    if port is None or p_key is None or not p_key.is_valid:
        return None
    return next((index for index, key in port.occupied or () if key.partition == p_key.partition), None)


def _address(text: str) -> bytes:
    """Read a hardware address of IPoIB: 20 bytes (RFC 4391, 9.1.1). Raises ValueError."""
    if not _ADDRESS.fullmatch(text):
        raise ValueError(f"{text[:80]!r} is not an address of 20 bytes")
    return bytes.fromhex(text.replace(":", ""))

"""The ports of this host's RDMA devices in sysfs: P_Key tables by index, states, two counters. Source: Linux
Documentation/ABI/stable/sysfs-class-infiniband. sysfs has no M_Keys.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Final

from ibkeys.host.kernel.functions import MappedFunction, VirtualFunction, find_virtual, read_mapped
from ibkeys.host.kernel.sysfs import Sysfs, numbers_in
from ibkeys.host.kernel.tables import Table, read_table
from ibkeys.host.kernel.verbs import NOT_READ, Violations, read_violations
from ibkeys.host.run_program import RunProgram
from ibkeys.keys.guid import parse_guid
from ibkeys.keys.pkey import PKey
from ibkeys.mad.const import MAX_PORT, NODE_TYPE_NAMES
from ibkeys.topology.port_id import PortId

CLASS: Final = "class/infiniband"
LINK_LAYER: Final = "InfiniBand"
ACTIVE: Final = 4
COUNTERS: Final = ("port_xmit_constraint_errors", "port_rcv_constraint_errors")
"""Counters of the PMA, 8 bits, that stop at 255. Switch ports count in them; an HCA counts a bad P_Key in another
counter."""
NO_PMA: Final = "N/A"
"""The text in a counter file of old kernels if the port has no agent for performance management."""

_WORD16, _WORD32 = 0xFFFF, 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class KernelPort:
    """One port of an RDMA device. ``device``: the kernel's name of the device. ``id``: the port's identity; a node GUID
    that was not read is 0, and a port GUID that was not read is None, as is that of an Ethernet port.
    ``subnet_prefix``: the upper 64 bits of its GID, None likewise. ``state`` and ``state_name``: 4 and "ACTIVE" for
    example. ``p_keys``: None for a table that could not be read. ``counters``: by the names of `COUNTERS`, None for a
    counter that the kernel does not show. ``violations``: read by verbs, not from sysfs. ``mapped``: the entries that
    each function of an mlx4 device has.
    """

    device: str
    id: PortId
    subnet_prefix: int | None
    link_layer: str | None
    state: int | None
    state_name: str | None
    sm_lid: int | None
    p_keys: Table | None
    counters: dict[str, int | None]
    violations: Violations
    virtual: VirtualFunction
    mapped: tuple[MappedFunction, ...]

    @property
    def num(self) -> int:
        """The port's number."""
        return self.id.port

    @property
    def is_infiniband(self) -> bool:
        """Whether the link layer is InfiniBand. On Ethernet (RoCE, rxe) P_Keys are no partitions of a subnet."""
        return self.link_layer == LINK_LAYER

    @property
    def is_active(self) -> bool:
        """Whether the port's state is ACTIVE: with InfiniBand, a subnet manager has brought it up."""
        return self.state == ACTIVE

    @property
    def capacity(self) -> int | None:
        """The number of entries of the P_Key table; None if it could not be read."""
        return None if self.p_keys is None else len(self.p_keys)

    @property
    def occupied(self) -> list[tuple[int, PKey]] | None:
        """The entries with a valid P_Key, by index; None if the table could not be read."""
        if self.p_keys is None:
            return None
        return [(index, key) for index, key in enumerate(self.p_keys) if key is not None and key.is_valid]

    @property
    def unread(self) -> list[int]:
        """The indexes of entries that could not be read; [] if the whole table could not be read."""
        return [index for index, key in enumerate(self.p_keys or ()) if key is None]

    def __str__(self) -> str:
        return f"{self.device} port {self.num}"


def read_ports(sysfs: Sysfs, run: RunProgram | None = None) -> tuple[KernelPort, ...]:
    """Return the ports of all devices, sorted by device name and port number. Files that could not be read are in
    ``sysfs.troubles`` afterwards. *run*: runs ibv_devinfo for the violation counters; None: these are not read.
    """
    found = []
    for device in sysfs.names(CLASS) or ():
        numbers = numbers_in(sysfs.names(f"{CLASS}/{device}/ports", required=True), MAX_PORT)
        found += [_read_port(sysfs, run, device, number) for number in numbers if number]
    return tuple(found)


def _read_port(sysfs: Sysfs, run: RunProgram | None, device: str, number: int) -> KernelPort:
    node = f"{CLASS}/{device}"
    folder = f"{node}/ports/{number}"
    link_layer = sysfs.text(f"{folder}/link_layer", required=True)
    mask = sysfs.number(f"{folder}/cap_mask", 16, _WORD32)
    state = sysfs.parsed(f"{folder}/state", _parse_state, required=True)
    p_keys = read_table(sysfs, f"{folder}/pkeys", required=True)
    is_infiniband = link_layer == LINK_LAYER
    return KernelPort(
        device,
        PortId(
            sysfs.parsed(f"{node}/node_guid", parse_guid, required=True) or 0,
            sysfs.parsed(f"{folder}/gids/0", _parse_guid_of_gid, required=True) if is_infiniband else None,
            sysfs.text(f"{node}/node_desc"),
            sysfs.parsed(f"{node}/node_type", _parse_node_type) or "ca",
            number,
            sysfs.number(f"{folder}/lid", 16, _WORD16),
        ),
        sysfs.parsed(f"{folder}/gids/0", _parse_prefix_of_gid) if is_infiniband else None,
        link_layer,
        state[0] if state else None,
        state[1] if state else None,
        sysfs.number(f"{folder}/sm_lid", 16, _WORD16),
        p_keys,
        {name: sysfs.parsed(f"{folder}/counters/{name}", _parse_counter) for name in COUNTERS},
        read_violations(run, device, number) if run is not None and is_infiniband else NOT_READ,
        find_virtual(sysfs, node, mask if is_infiniband else None),
        read_mapped(sysfs, node, number, p_keys),
    )


def _parse_guid_of_gid(text: str) -> int | None:
    """Return the GUID of a GID, None if the GID has none yet (all zero, or a prefix alone). Raises ValueError."""
    return parse_guid(text) if text.strip("0:").removeprefix("fe8") else None


def _parse_prefix_of_gid(text: str) -> int:
    """Return the subnet prefix of a GID. Raises ValueError."""
    return int(IPv6Address(text)) >> 64


def _parse_state(text: str) -> tuple[int, str]:
    """Parse a state such as ``4: ACTIVE``, and return its number and name. Raises ValueError."""
    number, colon, name = text.partition(":")
    if not colon or not number.isascii() or not number.isdigit() or len(number) > 2:
        raise ValueError(f"{text[:40]!r} is not a state of a port such as 4: ACTIVE")
    return int(number), name.strip()[:20]


def _parse_node_type(text: str) -> str:
    """Parse a node type such as ``1: CA``, and return its name in ibkeys; "ca" for an unknown type. Raises
    ValueError."""
    return NODE_TYPE_NAMES.get(_parse_state(text)[0], "ca")


def _parse_counter(text: str) -> int | None:
    """Parse a decimal counter; return None for `NO_PMA`. Raises ValueError."""
    if text.startswith(NO_PMA):
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 20:
        raise ValueError(f"{text[:40]!r} is not a counter")
    return int(text)


def choose_port(ports: Iterable[KernelPort], device: str | None, number: int | None) -> KernelPort | None:
    """Return the InfiniBand port for the options -C (*device*) and -P (*number*): the first active port, else the first
    one; None if there is none."""
    able = [port for port in chosen_ports(ports, device, number) if port.is_infiniband]
    return next((port for port in able if port.is_active), able[0] if able else None)


def chosen_ports(ports: Iterable[KernelPort], device: str | None, number: int | None) -> list[KernelPort]:
    """Return the ports of *device* (None: of all) with *number* (None: all)."""
    return [port for port in ports if device in (None, port.device) and number in (None, port.num)]


def job_ports(ports: Iterable[KernelPort]) -> list[KernelPort]:
    """Return those of *ports* that a job uses: active ones with link layer InfiniBand."""
    return [port for port in ports if port.is_infiniband and port.is_active]

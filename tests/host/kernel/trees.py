"""Trees of /sys as kernels make them, SYNTHETIC: built by the descriptions in the kernel's ABI documents and drivers.

Nothing here was recorded on a host with an adapter.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

IS_SM_DISABLED: Final = 1 << 10
_CAP_MASK: Final = 0xA751E848 & ~IS_SM_DISABLED
_PREFIX: Final = "fe80:0000:0000:0000"
ACTIVE: Final = "4: ACTIVE"


class Tree:
    """A tree of /sys below ``root``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(exist_ok=True)

    def write(self, path: str, text: str) -> Path:
        """Write one attribute."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"{text}\n")
        return place

    def write_all(self, folder: str, values: Mapping[str, str]) -> None:
        """Write the attributes of a folder."""
        for name, text in values.items():
            self.write(f"{folder}/{name}", text)

    def device(
        self, name: str, pci: str = "0000:03:00.0", guid: int = 0x0002C90300A10020, desc: str = "node01", kind: int = 1
    ) -> str:
        """Make a device below its PCI function, with the links of the kernel; return its folder."""
        folder = f"devices/pci0000:00/{pci}/infiniband/{name}"
        self.write_all(folder, {"node_guid": words_of(guid), "node_desc": f"{desc} {name}", "node_type": f"{kind}: CA"})
        (self.root / folder / "device").symlink_to("../../../" + pci)
        place = self.root / "class" / "infiniband" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(f"../../{folder}")
        return folder

    def port(
        self,
        folder: str,
        p_keys: Sequence[int],
        number: int = 1,
        guid: int = 0x0002C90300A10021,
        lid: int = 5,
        capacity: int | None = None,
        state: str = ACTIVE,
        link_layer: str = "InfiniBand",
        mask: int = _CAP_MASK,
        counters: Mapping[str, str] | None = None,
    ) -> str:
        """Make a port with its P_Key table, filled up with empty entries; return its folder."""
        place = f"{folder}/ports/{number}"
        self.write_all(
            place,
            {
                "link_layer": link_layer,
                "state": state,
                "phys_state": "5: LinkUp",
                "lid": hex(lid),
                "sm_lid": "0x1",
                "cap_mask": f"0x{mask:08x}",
                "gids/0": f"{_PREFIX}:{words_of(guid)}",
                "gids/1": ":".join(["0000"] * 8),
            },
        )
        size = capacity if capacity is not None else len(p_keys)
        for index, key in enumerate([*p_keys, *[0] * (size - len(p_keys))]):
            self.write(f"{place}/pkeys/{index}", f"0x{key:04x}")
        if counters is None:
            counters = {"port_xmit_constraint_errors": "0", "port_rcv_constraint_errors": "0"}
        self.write_all(f"{place}/counters", counters)
        return place

    def parent(self, name: str, guid: int, p_key: int, carrier: str = "1") -> None:
        """Make the parent interface of a port: it has all files."""
        self._interface(name, guid, p_key, carrier)
        self.write_all(f"class/net/{name}", {"pkey": f"0x{p_key:04x}", "mode": "datagram", "umcast": "0"})

    def child_by_sysfs(self, guid: int, p_key: int, name: str | None = None) -> None:
        """Make a child of ib0 as create_child does."""
        name = name or f"ib0.{p_key:04x}"
        self._interface(name, guid, p_key | 0x8000, "1")
        files = {"pkey": f"0x{p_key | 0x8000:04x}", "mode": "datagram", "umcast": "0", "parent": "ib0"}
        self.write_all(f"class/net/{name}", files)

    def child_by_netlink(self, name: str, guid: int, p_key: int, parent: str | None = None, carrier: str = "1") -> None:
        """Make a child as `ip link add type ipoib` does: without pkey, parent, mode and umcast. Without a *parent* it
        has that in another network namespace."""
        self._interface(name, guid, p_key | 0x8000, carrier)
        self.write(f"class/net/{name}/iflink", str(99 if parent is None else self.index(parent)))

    def index(self, name: str) -> int:
        """Return the index of an interface."""
        return int((self.root / "class/net" / name / "ifindex").read_text())

    def _interface(self, name: str, guid: int, p_key: int, carrier: str) -> None:
        address = bytes([0x80, 0, 1, 0x48]) + bytes.fromhex("fe80000000000000") + guid.to_bytes(8)
        group = bytes.fromhex("00ffffffff12401b") + (p_key | 0x8000).to_bytes(2) + bytes(6) + b"\xff" * 4
        self._net(name, "32", carrier, address, broadcast=group.hex(":"))

    def _net(self, name: str, kind: str, carrier: str, address: bytes, **more: str) -> None:
        folder = self.root / "class/net"
        index = str(2 + (len(list(folder.iterdir())) if folder.exists() else 0))  # 1 is lo
        values = {"type": kind, "flags": "0x1003", "carrier": carrier, "address": address.hex(":"), **more}
        self.write_all(f"class/net/{name}", {**values, "ifindex": index, "iflink": index})

    def ethernet(self, name: str = "eth0") -> None:
        """Make an interface that is none of IPoIB."""
        self._net(name, "1", "1", bytes.fromhex("020000000001"))

    def selinux(self, enforce: str, classes: Iterable[str] = ("infiniband_pkey", "infiniband_endport")) -> None:
        """Make what selinuxfs shows."""
        self.write("fs/selinux/enforce", enforce)
        for each in ("file", *classes):
            self.write(f"fs/selinux/class/{each}/index", "1")

    def open_to_all(self) -> None:
        """Let every user read the tree, as /sys does."""
        for folder, _, files in os.walk(self.root):
            os.chmod(folder, 0o755)
            for place in (Path(folder, name) for name in files):
                if not place.is_symlink():
                    place.chmod(0o444)


def words_of(guid: int) -> str:
    """Return a GUID as sysfs writes it."""
    text = f"{guid:016x}"
    return ":".join(text[at : at + 4] for at in range(0, 16, 4))


def connectx(root: Path, ports: int = 1, p_keys: Sequence[int] = (0xFFFF, 0x8010), capacity: int = 128) -> Tree:
    """ConnectX-4 to -7 on mlx5: one device for each port, P_Key tables of 128 entries."""
    tree = Tree(root)
    for number in range(ports):
        guid = 0x0C42A10300A10000 + number * 0x10
        device = tree.device(f"mlx5_{number}", f"0000:{3 + number:02x}:00.0", guid)
        tree.port(device, p_keys, guid=guid, lid=5 + number, capacity=capacity)
        tree.parent(f"ib{number}", guid, 0xFFFF)
    tree.ethernet()
    return tree


def mlx5_virtual_function(root: Path, in_guest: bool) -> Tree:
    """A virtual function of mlx5: a virtual port of its own; only its host sees the physical function."""
    tree = Tree(root)
    device = tree.device("mlx5_2", "0000:03:00.2", 0x0C42A10300A100F0)
    mask = _CAP_MASK | IS_SM_DISABLED if in_guest else _CAP_MASK
    tree.port(device, (0x7FFF, 0x8010), guid=0x0C42A10300A100F0, capacity=128, mask=mask)
    if not in_guest:
        (tree.root / "devices/pci0000:00/0000:03:00.2/physfn").symlink_to("../0000:03:00.0")
    return tree


def mlx4_sriov(root: Path) -> Tree:
    """mlx4 with two virtual functions: the physical tables and each function's mapping, on the physical function."""
    tree = Tree(root)
    device = tree.device("mlx4_0", "0000:04:00.0", 0x0002C90300B20000, desc="vmhost")
    table = (0xFFFF, 0x7FFF, 0x8010, 0x0010)
    tree.port(device, table, guid=0x0002C90300B20001, capacity=127)
    tree.port(device, (0xFFFF,), 2, 0x0002C90300B20002, 0, 127, "1: DOWN")
    for port, keys in ((1, table), (2, (0xFFFF,))):
        for index, key in enumerate([*keys, *[0] * (127 - len(keys))]):
            tree.write(f"{device}/iov/ports/{port}/pkeys/{index}", f"0x{key:04x}")
    for slot, mapping in (("0000:04:00.0", (0, 1, 2, 3)), ("0000:04:00.1", (1, 3)), ("0000:04:00.2", (0, None))):
        for index, physical in enumerate(mapping):
            text = "none" if physical is None else str(physical)
            tree.write(f"{device}/iov/{slot}/ports/1/pkey_idx/{index}", text)
    return tree


def qib(root: Path) -> Tree:
    """qib: a small table, and a PMA that old kernels do not ask."""
    tree = Tree(root)
    device = tree.device("qib0", "0000:05:00.0", 0x0011750000FF8BB6, desc="node09")
    missing = dict.fromkeys(("port_xmit_constraint_errors", "port_rcv_constraint_errors"), "N/A (no PMA)")
    tree.port(device, (0x7FFF, 0x8005), guid=0x0011750000FF8BB6, capacity=4, counters=missing)
    return tree


def rxe(root: Path) -> Tree:
    """rxe, RDMA over Ethernet: one P_Key, 0xffff."""
    tree = Tree(root)
    folder = "devices/virtual/infiniband/rxe0"
    tree.write_all(folder, {"node_guid": words_of(0x505400FFFE000001), "node_desc": "rxe0", "node_type": "1: CA"})
    (tree.root / "class/infiniband").mkdir(parents=True)
    (tree.root / "class/infiniband/rxe0").symlink_to(f"../../{folder}")
    tree.port(folder, (0xFFFF,), link_layer="Ethernet", mask=0x10000, lid=0, counters={})
    tree.ethernet()
    return tree

"""The files of the real host that are hidden from programs on a simulated host.

They are the adapters; the files of OpenSM and ibkeys, which the same programs on the simulated host would otherwise
read or replace; and the sockets of services that start programs on the real host.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from typing import Final

DEVICES: Final = "/dev/infiniband"
ADAPTERS: Final = "/sys/class/infiniband*"
OWN_FOLDERS: Final = (
    "/etc/ibkeys",
    "/etc/infiniband-diags",
    "/etc/opensm",
    "/etc/rdma",
    "/var/cache/opensm",
    "/var/lib/ibkeys",
    "/var/log",
)
"""The folders in which ibkeys, infiniband-diags and OpenSM have files. Each simulated host has folders of its own in
their place, which are empty at first."""
SERVICES: Final = (
    "/run/dbus",
    "/run/systemd/private",
    "/run/docker.sock",
    "/run/containerd",
    "/run/podman",
    f"/run/user/{os.getuid()}/bus",
    f"/run/user/{os.getuid()}/systemd",
)
"""Sockets of services that start programs: by them `systemctl start opensm` would start OpenSM on the real host."""


def adapter_classes() -> list[str]:
    """Return the folders in which the kernel lists adapters."""
    return sorted(glob.glob(ADAPTERS))


def managing_devices() -> list[str]:
    """Return the umad devices, which send MADs, and the issm devices, which set IsSM."""
    return [each for name in ("umad", "issm") for each in sorted(glob.glob(f"{DEVICES}/{name}*"))]


def visible_adapters() -> Iterator[str]:
    """Yield the paths of adapters that this process can still see."""
    for folder in (DEVICES, *adapter_classes()):
        try:
            yield from (os.path.join(folder, name) for name in os.listdir(folder))
        except (FileNotFoundError, PermissionError):
            continue

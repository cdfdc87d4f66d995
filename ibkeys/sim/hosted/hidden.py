"""What a program on a simulated host does not see of the real host, and what it has in its place.

Adapters; files of the real host's subnet manager and of ibkeys, which an OpenSM or ibkeys on the simulated host would
otherwise read or replace; and the sockets of services that start programs on the real host.
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
"""Folders that each simulated host has for itself, empty at first: of ibkeys, of infiniband-diags and of OpenSM."""
SERVICES: Final = (
    "/run/dbus",
    "/run/systemd/private",
    "/run/docker.sock",
    "/run/containerd",
    "/run/podman",
    f"/run/user/{os.getuid()}/bus",
    f"/run/user/{os.getuid()}/systemd",
)
"""Sockets whose owners start programs for others: `systemctl start opensm` would start that of the real host."""


def adapter_classes() -> list[str]:
    """Return the folders in which the kernel lists adapters."""
    return sorted(glob.glob(ADAPTERS))


def managing_devices() -> list[str]:
    """Return the devices by which MADs leave this host, and the bit IsSM is set."""
    return [each for name in ("umad", "issm") for each in sorted(glob.glob(f"{DEVICES}/{name}*"))]


def visible() -> Iterator[str]:
    """Yield what is seen of adapters that should be hidden."""
    for folder in (DEVICES, *adapter_classes()):
        try:
            yield from (os.path.join(folder, name) for name in os.listdir(folder))
        except (FileNotFoundError, PermissionError):
            continue

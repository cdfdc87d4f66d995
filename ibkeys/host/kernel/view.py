"""All that the kernel shows of this host's keys, read at once: `ibkeys host-show`."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ibkeys.host.kernel.interfaces import Interface, interface_names, read_interfaces
from ibkeys.host.kernel.links import Link, read_links
from ibkeys.host.kernel.ports import KernelPort, read_ports
from ibkeys.host.kernel.selinux import Policy, read_policy
from ibkeys.host.kernel.sysfs import Sysfs, Trouble
from ibkeys.host.run_program import Run, run_program


@dataclass(frozen=True, slots=True)
class HostView:
    """``troubles``: what could not be read. ``netlink_error``: why netlink was of no use; None also where it was not
    asked: without IPoIB interfaces, and for a copy of another host's /sys."""

    ports: tuple[KernelPort, ...]
    interfaces: tuple[Interface, ...]
    selinux: Policy
    troubles: tuple[Trouble, ...]
    netlink_error: str | None


def read_host(sysfs: Sysfs, run: Run = run_program) -> HostView:
    """Read a tree of /sys, and where it is that of this host its interfaces by netlink and its violation counters by
    verbs too. Raises nothing. *run*: how a program is run."""
    ports = read_ports(sysfs, run if sysfs.is_this_host else None)
    names = interface_names(sysfs)
    links: dict[str, Link] = {}
    error = None
    if sysfs.is_this_host and names:
        try:
            links = read_links()
        except OSError as failure:
            error = failure.strerror or os.strerror(failure.errno or 0)
    interfaces = read_interfaces(sysfs, names, links, ports)
    return HostView(ports, interfaces, read_policy(sysfs), tuple(sysfs.troubles), error)

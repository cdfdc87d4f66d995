"""All facts about this host's keys that the kernel shows, read at once: `ibkeys host-show`."""

from __future__ import annotations

from dataclasses import dataclass

from ibkeys.host.kernel.interfaces import Interface, interface_names, read_interfaces
from ibkeys.host.kernel.ports import KernelPort, read_ports
from ibkeys.host.kernel.selinux import SelinuxPolicy, read_policy
from ibkeys.host.kernel.sysfs import Sysfs, SysfsTrouble
from ibkeys.host.run_program import RunProgram, run_program


@dataclass(frozen=True, slots=True)
class HostView:
    """The facts about this host's keys that the kernel shows. ``troubles``: the files that could not be read."""

    ports: tuple[KernelPort, ...]
    interfaces: tuple[Interface, ...]
    selinux: SelinuxPolicy
    troubles: tuple[SysfsTrouble, ...]


def read_host(sysfs: Sysfs, run: RunProgram = run_program) -> HostView:
    """Return the facts in a tree of /sys. If it is the tree of this host, also read the violation counters, by verbs,
    and SELinux's labels of P_Keys. Raises nothing. *run*: runs a program and returns its output."""
    ports = read_ports(sysfs, run if sysfs.is_this_host else None)
    interfaces = read_interfaces(sysfs, interface_names(sysfs), ports)
    policy = read_policy(sysfs, run if sysfs.is_this_host else None)
    return HostView(ports, interfaces, policy, tuple(sysfs.troubles))

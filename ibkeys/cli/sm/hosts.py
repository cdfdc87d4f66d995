"""From options to the hosts whose OpenSMs are looked at, and what would be done there."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ibkeys.cli.exits import clean, write
from ibkeys.cli.options import SmHosts, Where
from ibkeys.cli.where import is_simulated
from ibkeys.errors import UsageError

if TYPE_CHECKING:
    from ibkeys.sm.hosts import SmHost


def hosts_of(where: Where, given: SmHosts) -> list[SmHost]:
    """Return the hosts that the options mean: this one first. None of a simulated subnet, and none with --from.

    Raises UsageError.
    """
    from ibkeys.sm.hosts import SmHost
    from ibkeys.sm.ssh import SshHost

    others = [SmHost(SshHost(name, given.sudo, given.ssh_config)) for name in dict.fromkeys(given.sm_host)]
    if where.snapshot is not None or is_simulated(where):
        if others:
            what = "--from reads a file" if where.snapshot is not None else "a simulated subnet has no hosts"
            raise UsageError(f"{what}: --sm-host does not go with it")
        return []
    return [SmHost(), *others]


def write_dry_run(where: Where, hosts: Sequence[SmHost]) -> None:
    """Say what would be asked where; with -v the program that would run on other hosts."""
    from ibkeys.sm.remote import program

    source = f"the snapshot {where.snapshot}" if where.snapshot is not None else "the fabric, by a sweep with SMInfo"
    write(clean(f"would read {source}"))
    for host in hosts:
        if host.ssh is None:
            write("would read /proc of this host, and the files that each OpenSM here uses")
        else:
            write(clean(f"would read the same of {host.name}, by a program on the standard input of:"))
            write(clean(f"  {shlex.join(host.ssh.command())}"))
    if any(host.ssh is not None for host in hosts):
        if where.verbose:
            write("the program, which reads and changes nothing:")
            write(program().rstrip("\n"))
        else:
            write("(-v shows the program)")

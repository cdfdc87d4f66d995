"""The hosts whose OpenSMs are examined, from the options, and the text of a dry run about them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ibkeys.cli.exits import clean, write, write_exact
from ibkeys.cli.given import is_typed
from ibkeys.cli.opening import is_simulated, journal_of
from ibkeys.cli.options import SmHosts, Where
from ibkeys.errors import UsageError

if TYPE_CHECKING:
    from ibkeys.managers.hosts import SmHost
    from ibkeys.managers.settings import SmSettings


def hosts_of(where: Where, sm_hosts: SmHosts) -> list[SmHost]:
    """Return the hosts that the options and ``sm.toml`` name, this host first.

    The list is empty for a simulated subnet and with --from. Raises UsageError for --sm-host there and for an invalid
    host; FileFormatError and StoreError for ``sm.toml``.
    """
    if where.snapshot is not None or is_simulated(where):
        if sm_hosts.sm_host and is_typed("sm_host"):
            what = "--from reads a file" if where.snapshot is not None else "a simulated subnet has no hosts"
            raise UsageError(f"{what}: omit --sm-host")
        return []
    return settings_of(sm_hosts.sm_config).choose_hosts(sm_hosts.sm_host, sm_hosts.sudo, sm_hosts.ssh_config)


def hosts_of_operation(where: Where, sm_hosts: SmHosts, operation: int | None) -> list[SmHost]:
    """Return the hosts of `hosts_of`; if that is this host only, also the hosts that *operation* was made with.

    *operation*: None for a new change. Raises the errors of `hosts_of`, and StoreError for a damaged journal.
    """
    from ibkeys.managers.site import hosts_in
    from ibkeys.store.journal import Journal

    hosts = hosts_of(where, sm_hosts)
    if operation is None or len(hosts) != 1:
        return hosts
    with Journal.read(journal_of(where)) as journal:
        return [*hosts, *hosts_in(journal.options_of(operation))]


def settings_of(path: str | None) -> SmSettings:
    """Return the settings of the ``sm.toml`` at *path*; None: of the system's file, or the defaults if it is missing.

    Raises FileFormatError for a mistake in the file, StoreError if it cannot be read.
    """
    from ibkeys.managers import settings

    return settings.read_settings_or_default(path)


def write_dry_run(where: Where, hosts: Sequence[SmHost]) -> None:
    """Write what the command would read without --dry-run; with -v also the program that would run on other hosts."""
    from ibkeys.managers.elsewhere.remote import program

    source = f"the snapshot {where.snapshot}" if where.snapshot is not None else "the fabric, by a sweep with SMInfo"
    write(clean(f"would read {source}"))
    for host in hosts:
        if host.access is None:
            write("would read /proc of this host, and the files that each OpenSM here uses")
        else:
            write(clean(f"would read the same of {host.name}, by sending a program to the standard input of:"))
            write(clean(f"  {shlex.join(host.access.command())}"))
    if any(host.access is not None for host in hosts):
        if where.verbose:
            write("the program, which only reads:")
            write_exact(program().rstrip("\n"))
        else:
            write("(-v shows the program)")

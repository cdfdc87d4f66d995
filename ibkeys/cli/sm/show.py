"""The command `sm-show`: subnet managers, and the files and options of each OpenSM that matter here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ibkeys.cli import exits, options
from ibkeys.cli.documents.managers import SM_SHOW
from ibkeys.cli.help.command import command
from ibkeys.cli.opening import open_source
from ibkeys.cli.options import SmHosts, Where
from ibkeys.cli.render import write_json
from ibkeys.cli.showing import errors_of, finish, sweep
from ibkeys.cli.sm.hosts import hosts_of, write_dry_run
from ibkeys.errors import AddressError, EncodeError, FileFormatError, IbkeysError, UsageError

if TYPE_CHECKING:
    from ibkeys.managers.hosts import SmHost
    from ibkeys.managers.report import SmReport
    from ibkeys.topology.model import Topology

_USAGE = (UsageError, AddressError, EncodeError, FileFormatError)


@command("sm-show")
@options.format_of(["table", "json"], "Form of the output.  [default: table]")
@options.sm_hosts
@options.flag("--dry-run", help="Show what would be queried where, and query nothing.")
@options.reading
def sm_show(where: Where, sm_hosts: SmHosts, dry_run: bool, format: str) -> int:
    """Show master and standby SMs, their files and dangers.

    The master and every standby are found on the fabric (SMInfo), each OpenSM of this host among its processes, and
    those of other hosts by ssh (--sm-host). Data that cannot be read is reported as such, never guessed. Changes
    nothing. Keys are shown only as zero, default or set.
    """
    from ibkeys.cli.sm.words import write_words
    from ibkeys.managers.dangers.catalogue import all_dangers
    from ibkeys.managers.document import to_json

    hosts = hosts_of(where, sm_hosts)
    if dry_run:
        write_dry_run(where, hosts)
        return exits.DONE
    report, found = _look(where, hosts)
    dangers = list(all_dangers(report))
    errors = errors_of(found) if found is not None else []
    if format == "json":
        unreached = found.unreached if found is not None else None
        write_json(SM_SHOW, {**to_json(report, dangers), "errors": errors, "unreached": unreached})
    else:
        write_words(report, dangers)
    return _finish(report, finish(errors, format))


def _look(where: Where, hosts: Sequence[SmHost]) -> tuple[SmReport, Topology | None]:
    """Read the fabric and the hosts; return the report, and the topology if the fabric answered.

    Without an answer the hosts are still reported. Raises errors of wrong usage.
    """
    from ibkeys.discovery.wanted import Wanted
    from ibkeys.managers.hosts import look_at_hosts
    from ibkeys.managers.opensm.on_this_host import own_socket
    from ibkeys.managers.report import join
    from ibkeys.managers.subnet_managers import managers_of

    found, error = None, ""
    try:
        with open_source(where) as source:
            found = sweep(source, where, wanted=Wanted(sm_info=True))
    except IbkeysError as failure:
        if isinstance(failure, _USAGE):
            raise
        error = str(failure)
    looked_at = look_at_hosts(hosts, socket=own_socket())
    if found is None:
        return join(None, looked_at, [], error), None
    own = next((port.guid for port in found.end_ports() if port.path == ()), 0)
    return join(managers_of(found), looked_at, [own] if own else [], error), found


def _finish(report: SmReport, code: int) -> int:
    """Write everything that could not be read to standard error, and return the exit code."""
    problems = [f"the fabric: {report.error}"] if report.error else []
    problems += [f"{host.name}: {host.error}" for host in report.hosts if host.error]
    problems += [f"{each.name}: {unknown}" for each in report.instances() for unknown in each.unknowns()]
    exits.warn_each(problems, "not read")
    return exits.NOT_COMPLETED if problems else code

"""The commands `sim ls` and `sim stop`: the simulated fabrics of this machine, and what runs on their hosts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ibkeys.cli import exits, options
from ibkeys.cli.documents.sim import SIM_LS, SIM_LS_COLUMNS
from ibkeys.cli.exits import clean, write
from ibkeys.cli.help.command import command
from ibkeys.cli.render import write_columns, write_document
from ibkeys.cli.sim.shared import socket_option
from ibkeys.errors import TransportError
from ibkeys.printable import counted

if TYPE_CHECKING:
    from ibkeys.sim.hosted.processes import HostedProcess
    from ibkeys.sim.hosted.servers import RunningServer


@command("ls")
@options.format
@options.common
def list_servers(format: str) -> int:
    """List the simulated fabrics of this machine, and the processes on their hosts.

    Only fabrics whose server admits this user are listed. 'ibkeys sim stop' ends one.
    """
    from ibkeys.sim.hosted.processes import hosted_processes
    from ibkeys.sim.hosted.servers import running_servers

    processes = list(hosted_processes())
    servers = [_document_of(server, processes) for server in running_servers()]
    rows = [{**server, **each} for server in servers for each in server["processes"]]
    if not write_document(format, SIM_LS, lambda: {"servers": servers}, rows):
        if servers:
            write_columns(SIM_LS_COLUMNS, map(_row_of, servers))
        else:
            write("No simulated fabric is served for this user.")
    return exits.DONE


@command("stop")
@socket_option
@options.common
def stop(name: str) -> int:
    """End the processes on all hosts of a simulated fabric, then its server.

    A process that does not end within 3 seconds is killed.
    """
    from ibkeys.sim.hosted import servers
    from ibkeys.sim.hosted.processes import end_all

    signalled, failed = end_all(name)
    try:
        server = servers.ask(name)
    except TransportError:
        if not signalled:
            raise
    else:
        servers.stop(server)
    write(clean(f"{name}: ended, with {counted(signalled - len(failed), 'program')} on its hosts"))
    if failed:
        exits.warn_each(clean(f"not ended: process {each.pid}: {each.command}") for each in failed)
        return exits.NOT_COMPLETED
    return exits.DONE


def _document_of(server: RunningServer, processes: Iterable[HostedProcess]) -> dict[str, Any]:
    own_processes = [each for each in processes if each.host.socket == server.socket]
    return {
        "socket": server.socket,
        "fabric": server.host.fabric,
        "pid": server.pid,
        "processes": [{"host": each.host.host, "pid": each.pid, "command": each.command} for each in own_processes],
    }


def _row_of(server: Mapping[str, Any]) -> dict[str, Any]:
    return {**server, "hosts": [*_lines(server["processes"])]}


def _lines(processes: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for each in processes:
        yield clean(f"{each['host']}: {each['pid']} {each['command']}")

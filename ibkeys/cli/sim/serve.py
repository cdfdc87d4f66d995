"""The commands `sim serve` and `sim ctl`: a simulated subnet as a server for other programs, and its control."""

from __future__ import annotations

import os
import re
import resource
import signal
import socket
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final

import click

from ibkeys import files
from ibkeys.cli import exits, options
from ibkeys.cli.exits import write, write_exact
from ibkeys.cli.help.command import command
from ibkeys.cli.sim.mads import TraceOptions, mad_watcher, trace_options
from ibkeys.cli.sim.shared import SubnetOptions, make_subnet, shell_starter, socket_option
from ibkeys.cli.sim.source import assumed_lines, end_ports_of, write_ready
from ibkeys.errors import IbkeysError, UsageError
from ibkeys.printable import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ibkeys.sim.server.server import Server
    from ibkeys.sim.steering.script import Script

_LOOPBACK: Final = "127.0.0.1"
_MOST_DESCRIPTORS: Final = 4096
"""Open files: more than two for each of the most ports that programs can open, and those of the server itself."""
_BLANKS: Final = re.compile(r"^(?=.*\s)(.*?)(\[\d+\]|:\d+)?$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _ServeOptions:
    """The options for the programs that attach, the state file and the events."""

    at: str | None = options.field(
        "--at", metavar="NODE", help="Node to which programs attach if they do not set SIM_HOST."
    )
    export_keys: Path | None = options.field(
        "--export-keys",
        env=False,
        metavar="DIR",
        type=click.Path(path_type=Path),
        help="Write the M_Keys of the subnet into DIR as OpenSM's key files.",
    )
    state: str | None = options.field("--state", metavar="PATH", help="Keep the state of the subnet in this file.")
    script: str | None = options.field(
        "--script", metavar="FILE", help="File of events: lines as for 'sim ctl', with times."
    )
    remote: bool = options.field("-r", "--remote", is_flag=True, help="Serve over UDP instead of local sockets.")
    listen: str | None = options.field(
        "-l", "--listen", metavar="[ADDRESS:]PORT", help="First UDP port; sets -r.  [default: 127.0.0.1:7070]"
    )
    allow_others: bool = options.flag_field(
        "--allow-others", help="Let programs of other users attach; required with -r."
    )


@command("serve")
@click.argument("sources", metavar="[FILE]...", nargs=-1)
@socket_option
@options.group("subnet_options", SubnetOptions)
@options.group("serve_options", _ServeOptions)
@trace_options
@options.format
@options.common
def serve(
    sources: tuple[str, ...],
    name: str,
    subnet_options: SubnetOptions,
    serve_options: _ServeOptions,
    trace: TraceOptions,
    format: str,
) -> int:
    """Serve a simulated subnet to any libibumad program.

    FILE is a snapshot, a net file of ibsim, output of ibnetdiscover, or a file that 'ibkeys import' reads: several
    files of one fabric are joined as there. Without FILE a small demo fabric is served. What the files do not say is
    listed, with what is assumed. Runs until SIGTERM or SIGINT. The lines it prints first say how programs attach; the
    last of them is 'ready'.
    """
    from ibkeys.managers.simulated_keys import export_keys
    from ibkeys.sim.server.server import Server
    from ibkeys.sim.state.file import StateFile

    allow_descriptors()
    subnet = make_subnet(sources, subnet_options)
    where = _udp_address(serve_options.listen) if serve_options.remote or serve_options.listen else None
    home = subnet.node(serve_options.at) if serve_options.at else subnet.nodes[0]
    events = _read_script(serve_options.script) if serve_options.script else None
    failures: list[Exception] = []
    with ExitStack() as stack:
        keeper = StateFile(serve_options.state, subnet) if serve_options.state else None
        if keeper is not None:
            stack.callback(keeper.close)
        server = stack.enter_context(
            Server(
                subnet,
                name,
                listen=where,
                allow_others=serve_options.allow_others,
                home=home,
                watch=mad_watcher(stack, trace),
                save=None if keeper is None else lambda: _stop_if_it_fails(server, failures, keeper.save_if_changed),
                log=_say,
                log_clients=_say if trace.verbose else None,
                fabric=" ".join(sources) or "demo",
                folder=f"{os.path.abspath(serve_options.state)}.hosts" if serve_options.state else None,
                start_shell=shell_starter(name),
            )
        )
        _stop_on_signals(stack, server)
        _save_names(server, stack)
        if serve_options.script and events is not None:
            _play(server, events, serve_options.script)
        m_keys = export_keys(subnet, serve_options.export_keys) if serve_options.export_keys is not None else None
        if write_ready(format, server, sources, _settings(server, where), m_keys):
            exits.require_stdout()
        else:
            _write_instructions(server, sources, where)
        server.serve()
    if failures:
        raise failures[0]
    return exits.DONE


def allow_descriptors() -> None:
    """Raise the limit of open files, as far as the system allows: the server needs two for each port of a program."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY:
        most = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_MOST_DESCRIPTORS, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


@command("ctl", context_settings={"ignore_unknown_options": True})
@socket_option
@click.argument("words", nargs=-1, required=True, metavar="COMMAND...", type=click.UNPROCESSED)
@options.common
def ctl(name: str, words: tuple[str, ...]) -> int:
    """Control a simulated subnet that is being served.

    Sends one line to the server that has this socket name and prints the answer. 'ibkeys sim ctl help' lists the
    commands; ibkeys-sim(1) explains them.
    """
    from ibkeys.sim.server.ibsim_protocol import check_name
    from ibkeys.sim.server.steer_socket import ask

    line = _line_of(words)
    if "\n" in line:
        raise UsageError("a command is one line")
    outcome, text = ask(check_name(name), line)
    if outcome == "usage":
        raise UsageError(text)
    if outcome == "error":
        raise IbkeysError(text)
    if text:
        write("\n".join(map(exits.clean, text.splitlines())))
    return exits.DONE


def _line_of(words: tuple[str, ...]) -> str:
    """Return the command line that the shell divided into *words*. A node's name with blanks gets double quotes."""
    if len(words) == 1:
        return words[0]
    return " ".join(_BLANKS.sub(r'"\1"\2', word) if '"' not in word else word for word in words)


def _udp_address(text: str | None) -> tuple[str, int]:
    from ibkeys.sim.server.clients import MAX_CLIENTS
    from ibkeys.sim.server.ibsim_protocol import DEFAULT_PORT

    if text is None:
        return _LOOPBACK, DEFAULT_PORT
    address, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or not 0 < int(port) <= 65535 - MAX_CLIENTS:
        raise UsageError(f"--listen {text}: the port is a number from 1 to {65535 - MAX_CLIENTS}")
    try:
        return socket.gethostbyname(address or _LOOPBACK), int(port)
    except (OSError, UnicodeError):
        raise UsageError(f"--listen {text}: {address!r} is not an address of this host") from None


def _say(line: str) -> None:
    exits.warn(line, "sim")


def _read_script(path: str) -> Script:
    from ibkeys.sim.steering.script import Script

    with files.os_errors_as(UsageError, path):
        return Script.parse(files.read_text(path, files.LIST, "replace"), path)


def _play(server: Server, script: Script, path: str) -> None:
    try:
        server.steering.play(script)
    except UsageError as error:
        raise UsageError(f"{path}, {error}") from None


def _stop_if_it_fails(server: Server, failures: list[Exception], work: Callable[[], object]) -> None:
    """Call *work*. If it fails (a full disk, a pipe without reader), add the error to *failures* and stop the server.

    The command then ends with this error.
    """
    if failures:
        return
    try:
        work()
    except Exception as error:
        failures.append(error)
        server.stop()


def _stop_on_signals(stack: ExitStack, server: Server) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        before = signal.signal(number, lambda *_: server.stop())
        stack.callback(signal.signal, number, before)


def _save_names(server: Server, stack: ExitStack) -> None:
    """Save the names of the nodes for the completion of `sim ctl`. They are removed when the server ends."""
    from ibkeys.cli.completing import names

    try:
        list_name = names.list_of_server(server.name)
        names.save_names(list_name, (name for node in server.subnet.nodes for name in (node.node_id, node.description)))
    except (OSError, RuntimeError) as error:
        _say(f"names of nodes are not saved for completion: {error}")
    else:
        stack.callback(names.remove_list, list_name)


def _settings(server: Server, where: tuple[str, int] | None) -> dict[str, str]:
    """Return the environment variables with which programs attach. *where*: the UDP address; None: local sockets."""
    if where is None:
        variables = {"IBSIM_SOCKNAME": server.name}
    else:
        variables = {"IBSIM_SERVER_NAME": where[0], "IBSIM_SERVER_PORT": str(where[1])}
    return {**variables, "SIM_HOST": server.home.node_id}


def _write_instructions(server: Server, sources: Sequence[str], where: tuple[str, int] | None) -> None:
    """Write how programs attach, and "ready" as the last line.

    Raises StdoutFailed if standard output cannot be written.
    """
    subnet, home = server.subnet, server.home
    what = " ".join(sources) or "the demo fabric"
    server_option = f"--socket {quote(server.name)}"
    settings = " ".join(f"{variable}={quote(value)}" for variable, value in _settings(server, where).items())
    lines = [
        f"Serving {what}: {counted(len(subnet.nodes), 'node')}, {counted(end_ports_of(subnet), 'end port')}.",
        *assumed_lines(subnet),
        f"Programs run on {home.description} ({home.node_id}) unless --host names another node. In another shell:",
        f"  ibkeys sim run {server_option} -- opensm",
        f"  ibkeys sim run {server_option} -- ibkeys mkey-show --all",
        f"  ibkeys sim ctl {server_option} help",
        f"For ibsim-run: export {settings}",
        "ready",
    ]
    for line in lines:
        write_exact(exits.clean(line))
    exits.require_stdout()

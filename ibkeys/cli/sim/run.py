"""The commands `sim run` and `sim shell`: programs on a host of a simulated fabric."""

from __future__ import annotations

import os
import re
import secrets
import shlex
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ibkeys.cli import exits, options
from ibkeys.cli.help.command import command
from ibkeys.cli.sim.shared import SubnetOptions, make_subnet, shell_starter, socket_option

if TYPE_CHECKING:
    from ibkeys.simulated_host import SimulatedHost

DEMO: Final = "demo"
"""The name of the demo fabric."""
_NOT_IN_PROMPT: Final = re.compile(r"[^\w.:@ -]")


@dataclass(frozen=True, slots=True)
class _HostOptions:
    """The options for the host on which a program runs. ``on``: files of a fabric to serve for this program only."""

    host: str = options.field(
        "--host", metavar="NODE[:ADAPTER]", default="", help="Host of the fabric.  [default: the first one]"
    )
    name: str = options.field_of(socket_option, "sim")
    on: tuple[str, ...] = options.repeated_field(
        "--on", "FILE", "Serve this fabric as long as the program runs: a file as for 'sim serve', or demo."
    )


@dataclass(frozen=True, slots=True)
class _OpenHost:
    """A host on which a program can run.

    ``wait``: a function that serves the fabric until the program ends; None: another process serves the fabric.
    """

    host: SimulatedHost
    wait: Callable[[int], object] | None = None


_host_options: Final = options.group("place", _HostOptions)


@command("run", context_settings={"allow_interspersed_args": False})
@click.argument("words", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@_host_options
@options.common
def run(place: _HostOptions, words: tuple[str, ...]) -> int:
    """Run a program on a host of a simulated fabric.

    The program and all that it starts see the adapters of that host, and none of this one: their devices are hidden,
    and no privilege gets them back. Without --on, 'ibkeys sim serve' has to run. Exits with the status of the program;
    with 4 if the adapters of this host cannot be hidden.
    """
    with _host_of(place) as open_host:
        return _run(list(words), place, open_host)


@command("shell")
@_host_options
@options.common
def shell(place: _HostOptions) -> int:
    """Start a shell on a host of a simulated fabric, which its prompt names.

    All programs that are started in it run on that host, as with 'ibkeys sim run'.
    """
    with _host_of(place) as open_host:
        return _run(_shell_on(open_host.host), place, open_host)


@contextmanager
def _host_of(place: _HostOptions) -> Iterator[_OpenHost]:
    if place.on:
        with _serve_for(place) as open_host:
            yield open_host
        return
    from ibkeys.sim.hosted.servers import ask

    server = ask(place.name, place.host, with_folder=True)
    folder = server.host.folder
    # Another user could change the files of a program in his folder, or have a link there to a file of this user.
    if server.user == os.geteuid() and os.access(folder, os.W_OK | os.X_OK):
        yield _OpenHost(_host(place.name, server.host.name, folder))
        return
    with tempfile.TemporaryDirectory(prefix="ibkeys-sim-hosts-", ignore_cleanup_errors=True) as own_folder:
        yield _OpenHost(_host(place.name, server.host.name, own_folder))


@contextmanager
def _serve_for(place: _HostOptions) -> Iterator[_OpenHost]:
    """Serve the fabric of --on under a name that no other server has, and yield the host for the program."""
    from ibkeys.sim.server.server import Server
    from ibkeys.sim.server.umad.hosts import adapters_of, name_of

    sources = [] if place.on == (DEMO,) else place.on
    subnet = make_subnet(sources, SubnetOptions())
    exits.warn_each((f"the files do not say: {each}" for each in subnet.assumed), "note")
    name = f"run-{os.getpid()}-{secrets.token_hex(4)}"
    say = lambda line: exits.warn(line, "sim")  # noqa: E731
    with Server(subnet, name, log=say, fabric=" ".join(place.on), start_shell=shell_starter(name)) as server:
        host = name_of(subnet, adapters_of(subnet, place.host, server.home))
        yield _OpenHost(_host(name, host, server.folder()), server.serve)


def _host(socket: str, host: str, folder: str) -> SimulatedHost:
    from ibkeys.simulated_host import SimulatedHost, folder_name

    return SimulatedHost(socket, host, os.path.join(folder, folder_name(host)))


def _run(words: Sequence[str], place: _HostOptions, open_host: _OpenHost) -> int:
    from ibkeys.sim.hosted import program
    from ibkeys.sim.hosted.processes import hosted_processes

    host = open_host.host
    Path(host.folder).mkdir(0o700, exist_ok=True)
    peers = [each.pid for each in hosted_processes(host.socket) if each.host == host]
    environment = program.environment_of(host, place.host or host.host, os.environ)
    return program.run(words, host, environment, peers, open_host.wait)


def _shell_on(host: SimulatedHost) -> list[str]:
    """Return the command line of the user's shell, with the name of *host* in its prompt.

    For bash this writes a startup file into the host's folder; for other shells it sets PS1 in the environment.
    """
    program = os.environ.get("SHELL") or "/bin/sh"
    name = _NOT_IN_PROMPT.sub("_", host.host)
    if os.path.basename(program) != "bash":
        os.environ["PS1"] = f"[{name}] $ "
        return [program]
    Path(host.folder).mkdir(0o700, exist_ok=True)
    startup_file = Path(host.folder) / "bashrc"
    startup_file.write_text(f'[ -f ~/.bashrc ] && . ~/.bashrc\nPS1={shlex.quote(f"[{name}] ")}"$PS1"\n')
    return [program, "--rcfile", str(startup_file)]

"""The command group `sim`."""

from __future__ import annotations

import click

from ibkeys.cli import options
from ibkeys.cli.help.command import CommandGroup
from ibkeys.cli.sim.listing import list_servers, stop
from ibkeys.cli.sim.run import run, shell
from ibkeys.cli.sim.serve import ctl, serve


@click.group("sim", cls=CommandGroup)
@options.common
def sim() -> None:
    """Simulate a fabric, or a snapshot, and run programs on it.

    OpenSM, infiniband-diags and ibkeys itself run unchanged on the hosts of a fabric made of a snapshot, a dump or a
    net file. None of them reaches an adapter of this host. To try a change with ibkeys alone, no server is needed: give
    each command --backend sim:SNAPSHOT,state=FILE.
    """


for each in (run, shell, list_servers, stop, serve, ctl):
    sim.add_command(each)

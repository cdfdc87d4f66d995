"""The command `counters-clear`: setting violation counters to 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibkeys.cli import options
from ibkeys.cli.addresses import port_arguments
from ibkeys.cli.changing import MissingPorts, change
from ibkeys.cli.documents.port import COUNTERS_CLEAR
from ibkeys.cli.help.command import command
from ibkeys.cli.listing.filters import has_counted
from ibkeys.cli.opening import open_fabric
from ibkeys.cli.options import AddressKinds, ChangeOptions
from ibkeys.cli.showing import errors_of, finish, sweep

if TYPE_CHECKING:
    from ibkeys.change.plan import Plan
    from ibkeys.change.writer import ChangeWriter


@command("counters-clear")
@options.every_port
@options.address()
@options.change
def counters_clear(command_options: ChangeOptions, kind: AddressKinds, words: tuple[str, ...], every_port: bool) -> int:
    """Clear the violation counters.

    Clears the counters of one port, or with --all those of every port that has counted a violation. The old values are
    kept in the journal.
    """
    from ibkeys.change.counters import plan_clear

    named_port = port_arguments(words, kind, every_port)
    missing = MissingPorts()
    with open_fabric(command_options.where, changing=True) as fabric:

        def make_plan(writer: ChangeWriter) -> Plan:
            if not every_port:
                return plan_clear(writer, [fabric.find_port(*named_port)])
            topology = sweep(fabric, command_options.where)
            missing.errors, missing.unreached = errors_of(topology), topology.unreached
            # Only ports that were read and have a counter to clear are queried again.
            ports = [port for port in topology.ports() if port.port_info is not None]
            without_violations = [port for port in ports if not has_counted(port)]
            counting = [fabric.handle(port) for port in ports if has_counted(port)]
            return plan_clear(writer, counting, without_violations)

        code = change(fabric, COUNTERS_CLEAR, command_options, make_plan, missing if every_port else None)
    return finish(missing.errors, command_options.format) or code

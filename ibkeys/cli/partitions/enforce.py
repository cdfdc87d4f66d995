"""The command `enforce-set`: partition enforcement of a switch port."""

from __future__ import annotations

import click

from ibkeys.cli import options
from ibkeys.cli.addresses import port_arguments
from ibkeys.cli.changing import change_port
from ibkeys.cli.documents.port import ENFORCE_SET
from ibkeys.cli.help.command import command
from ibkeys.cli.options import AddressKinds, ChangeOptions
from ibkeys.errors import UsageError

_ON_OR_OFF = click.Choice(["on", "off"])


@command("enforce-set")
@options.address("ADDR PORTNUM", required=True)
@click.option("--inbound", type=_ON_OR_OFF, help="Packets that enter the switch from the attached node.")
@click.option("--outbound", type=_ON_OR_OFF, help="Packets that leave the switch to the attached node.")
@options.change
def enforce_set(
    command_options: ChangeOptions,
    kind: AddressKinds,
    words: tuple[str, ...],
    inbound: str | None,
    outbound: str | None,
) -> int:
    """Switch enforcement of a switch port on or off.

    ADDR names the switch, PORTNUM one of its external ports. A direction that is not given stays as it is. A router
    port is changed only if it already enforces, because no field says whether a router can enforce.
    """
    from ibkeys.change.enforce import plan_enforce

    if inbound is None and outbound is None:
        raise UsageError("nothing to set: give --inbound on|off or --outbound on|off")
    named_port = port_arguments(words, kind)
    if named_port.portnum is None:
        raise UsageError("PORTNUM is missing: enforcement belongs to one external port of a switch")
    directions = _is_on(inbound), _is_on(outbound)
    return change_port(
        ENFORCE_SET, command_options, named_port, lambda writer, port: plan_enforce(writer, port, *directions)
    )


def _is_on(word: str | None) -> bool | None:
    return None if word is None else word == "on"

"""The command vports: whether a port has virtual ports, and how many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ibkeys.errors import UsageError
from ibkeys.mad.const import NodeType
from ibkeys.mad.virtualization import VirtualizationInfo
from ibkeys.sim.agents import virtual_ports
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.steering.words import LineError, Token, find, one_of, to_number
from ibkeys.sim.subnet import Subnet

VPORTS_USAGE: Final = "vports NODE[PORT] on|off|none [possible=N] [top=N]"
_NUMBERS: Final = {"possible": 127, "top": 3}
"""The values that the command may set, with their defaults."""


def read_vports(words: Sequence[Token]) -> Callable[[Subnet], str]:
    """Parse the *words* after vports; return the action that sets or removes the virtual ports. Raises LineError."""
    place_word, state = words[0], one_of(words[1], ("on", "off", "none"))
    numbers = dict(_NUMBERS)
    for word in words[2:]:
        name, equals, text = word.text.partition("=")
        if state == "none" or not equals or name not in _NUMBERS:
            raise LineError(f"after on and off, write {'=, '.join(_NUMBERS)}=; after none nothing", word.column)
        numbers[name] = to_number(word, text, f"number for {name}=", 0xFFFF)
    info = VirtualizationInfo.new(
        vport_cap=numbers["possible"], vport_index_top=numbers["top"], virtualization_enable=int(state == "on")
    )

    def place(subnet: Subnet) -> str:
        ports = _ca_ports(subnet, place_word)
        for port in ports:
            if state == "none":
                virtual_ports.remove(port)
            else:
                virtual_ports.place(port, info)
        subnet.history.changes += 1
        return f"{', '.join(map(str, ports))}: virtual ports {describe_virtual_ports(ports[0])}"

    return place


def describe_virtual_ports(port: SimPort) -> str:
    """Return in words whether *port* has virtual ports, and how many it may have."""
    if port.virtualization is None:
        return "none"
    info = VirtualizationInfo(port.virtualization)
    return (
        f"{'on' if info.virtualization_enable else 'off'}, {info.vport_cap} possible, top index {info.vport_index_top}"
    )


def _ca_ports(subnet: Subnet, place_word: Token) -> list[SimPort]:
    """Return the CA port that the word *place_word* names, or all ports of the CA that it names. Raises UsageError,
    AddressError."""
    node, number = find(subnet, place_word)
    if node.node_type != NodeType.CA:
        raise UsageError(f"{node.description} is no CA: switches and routers have no virtual ports")
    return list(node.end_ports) if number is None else [subnet.port(node, number)]

"""The commands classkey, which adds a class with a key to ports or removes it, and classrule, which chooses between two
assumptions about a class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ibkeys.errors import EncodeError, UsageError
from ibkeys.keys.classkey import ClassKey
from ibkeys.mad.classes.gmp import KEY_CLASSES
from ibkeys.sim.agents import class_keys
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.steering.words import LineError, Token, find, is_first, one_of, to_number
from ibkeys.sim.subnet import Subnet

CLASSKEY_USAGE: Final = "classkey NODE[PORT] CLASS on|off [key=KEY] [protect=0|1] [lease=SECONDS] [violations=N]"
CLASSRULE_USAGE: Final = "classrule CLASS RULE VALUE"
_NUMBERS: Final = {"protect": 1, "lease": 0xFFFF, "violations": 0xFFFF}
_ARGUMENTS: Final = {"protect": "protect_bit", "lease": "lease_period", "violations": "violations"}


def read_classkey(words: Sequence[Token]) -> Callable[[Subnet], str]:
    """Parse the *words* after classkey; return the action that adds the class to the ports or removes it. Raises
    LineError."""
    place_word, key_class, on = words[0], KEY_CLASSES[one_of(words[1], KEY_CLASSES)], is_first(words[2], "on", "off")
    key = ClassKey(0)
    values: dict[str, int] = {}
    for word in words[3:]:
        name, equals, text = word.text.partition("=")
        if not on or not equals or (name != "key" and name not in _NUMBERS):
            raise LineError(f"after on, write key=, {'=, '.join(_NUMBERS)}=; after off nothing", word.column)
        if name == "key":
            key = _key_of(word, text)
        else:
            values[_ARGUMENTS[name]] = to_number(word, text, name, _NUMBERS[name])

    def place(subnet: Subnet) -> str:
        ports = _end_ports(subnet, place_word)
        for port in ports:
            if on:
                class_keys.place(port, key_class, key=key.reveal(), **values)
            else:
                class_keys.remove(port, key_class)
        subnet.history.changes += 1
        what = (
            f"{key_class.key_name} {'none' if key.is_zero else 'set (not shown)'}"
            if on
            else f"no class {key_class.name}"
        )
        return f"{', '.join(map(str, ports))}: {what}"

    return place


def read_classrule(words: Sequence[Token]) -> Callable[[Subnet], str]:
    """Parse the *words* after classrule; return the action that sets the rule of the class. Raises LineError."""
    key_class, rule = KEY_CLASSES[one_of(words[0], KEY_CLASSES)], one_of(words[1], class_keys.CHOICES)
    value = one_of(words[2], class_keys.CHOICES[rule], " or ")

    def set_rule(subnet: Subnet) -> str:
        setattr(subnet.carrier.class_rules[int(key_class.mgmt_class)], rule, value)
        subnet.history.changes += 1
        return f"class {key_class.name}: {rule} {value}"

    return set_rule


def _key_of(word: Token, text: str) -> ClassKey:
    """Parse the key of a simulated port. Raises LineError, whose message does not show *text*: it may be a real key,
    typed by mistake."""
    try:
        return ClassKey.parse(text)
    except EncodeError:
        raise LineError("key= has no number of 64 bits, decimal or 0x (text not shown)", word.column) from None


def _end_ports(subnet: Subnet, place_word: Token) -> list[SimPort]:
    """Return the end port that the word *place_word* names, or all end ports of the node that it names. Raises
    UsageError, AddressError."""
    node, number = find(subnet, place_word)
    if number is None:
        return list(node.end_ports)
    port = subnet.port(node, number)
    if not port.is_end_port:
        raise UsageError(f"{port} is not an end port: only CA and router ports and switch port 0 have class keys")
    return [port]

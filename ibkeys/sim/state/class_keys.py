"""The keys of other classes, and the chosen guesses about them, in the document of a subnet's state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ibkeys.mad.classes.gmp import KEY_CLASS_OF, KEY_CLASSES
from ibkeys.mad.classes.key_info import KeySettings
from ibkeys.sim.agents.class_keys import CHOICES, ClassRules, first_rules
from ibkeys.sim.nodes import ClassAgent
from ibkeys.sim.state.values import bytes_of, number_of, seconds_of


def dump_agents(agents: Mapping[int, ClassAgent]) -> dict[str, Any]:
    """Return the keys of one port. They are in clear, as M_Keys are in this document."""
    return {
        KEY_CLASS_OF[mgmt_class].name: [agent.info.hex(), agent.capability_mask, agent.deadline]
        for mgmt_class, agent in agents.items()
    }


def load_agents(record: Mapping[str, Any]) -> dict[int, ClassAgent]:
    """Return the keys of a port from the result of `dump_agents`. Raises KeyError, TypeError or ValueError if it is
    invalid."""
    found = {}
    for name, (info, capabilities, deadline) in record.items():
        agent = ClassAgent(bytearray(bytes_of(info, KeySettings.size)), number_of(capabilities, 0xFFFF))
        agent.deadline = None if deadline is None else seconds_of(deadline)
        found[int(KEY_CLASSES[name].mgmt_class)] = agent  # type: ignore[index]
    return found


def dump_rules(rules: Mapping[int, ClassRules]) -> dict[str, Any]:
    """Return the rules that differ from the first rules."""
    first = first_rules()
    found: dict[str, Any] = {}
    for mgmt_class, each in rules.items():
        other = {
            name: getattr(each, name) for name in CHOICES if getattr(each, name) != getattr(first[mgmt_class], name)
        }
        if other:
            found[KEY_CLASS_OF[mgmt_class].name] = other
    return found


def load_rules(rules: Mapping[int, ClassRules], record: Mapping[str, Any]) -> None:
    """Set the rules of the result of `dump_rules`. Raises the errors of `load_agents`."""
    for name, chosen in record.items():
        for field, value in chosen.items():
            if value not in CHOICES[field]:
                raise ValueError("a rule that there is not")
            setattr(rules[int(KEY_CLASSES[name].mgmt_class)], field, value)  # type: ignore[index]

"""The names of partitions where a policy is known: for output, and for ``--partition`` with a name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ibkeys.cli.types import parse_p_key
from ibkeys.errors import UsageError
from ibkeys.keys.pkey import FULL_BIT, PKey
from ibkeys.printable import clean
from ibkeys.similar_names import did_you_mean

if TYPE_CHECKING:
    from ibkeys.partitions.model import Policy
    from ibkeys.topology.nodes import Port


def is_number(text: str) -> bool:
    """Return whether *text*, a partition that a user names, is a P_Key and not a name."""
    return text[:1].isdigit()


def names_in(policy: Policy | None) -> Mapping[int, str]:
    """Return the names of the partitions of *policy* by their 15 bits; None: no policy is known."""
    return {each.base: each.name for each in policy.partitions if each.name} if policy is not None else {}


def packet_key(text: str, names: Mapping[int, str], sender: Port) -> PKey:
    """Return the P_Key of a packet that a user names by its P_Key or by the name of a partition.

    ``NAME:full`` and ``NAME:limited`` have their membership. A name alone is the P_Key that *sender* has in this
    partition, the full one if it has both or none. Raises as `partition_number`.
    """
    if is_number(text):
        return parse_p_key(text)
    name, colon, membership = text.partition(":")
    number = partition_number(name, names)
    if colon:
        return PKey.parse(f"{number:#x}:{membership}")
    held = [key for _, key in sender.occupied or () if key.partition == number]
    return max(held, default=PKey(number | FULL_BIT))


def partition_number(text: str, names: Mapping[int, str]) -> int:
    """Return the partition, 15 bits, that a user names by its P_Key, its name, or both (``lustre=0x21``).

    *names*: the names that are known. Raises UsageError for a name that is not known or that several partitions have,
    and for a number with another name; EncodeError for an invalid P_Key.
    """
    name, equals, key = text.partition("=")
    if is_number(text) or equals:
        number = parse_p_key(key if equals else text).partition
        if equals and names.get(number, name) != name:
            raise UsageError(f"{clean(text)!r}: partition 0x{number:04x} is called {clean(names[number])!r}")
        return number
    found = [number for number, known in names.items() if known == name]
    if len(found) > 1:
        listed = ", ".join(f"0x{number:04x}" for number in found)
        raise UsageError(f"{clean(name)!r} is the name of {len(found)} partitions: {listed}; give the P_Key")
    if not found:
        known = did_you_mean(name, names.values()) if names else ", as far as is known here: give its P_Key"
        raise UsageError(f"{clean(name)!r}: no partition has this name{known}")
    return found[0]

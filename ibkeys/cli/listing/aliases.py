"""Notes about GUIDs of a policy that are alias GUIDs of a port."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ibkeys.cli import exits
from ibkeys.printable import NAMED, counted

if TYPE_CHECKING:
    from ibkeys.topology.model import Topology


def note_aliases(topology: Topology, policy: str, guids: Iterable[int]) -> frozenset[int]:
    """Write a note about each of *guids* that is an alias GUID of a port, and return these alias GUIDs.

    *policy*: the name of the policy that has the GUIDs, for the notes. Of more than `NAMED` alias GUIDs the others are
    only counted.
    """
    from ibkeys.topology.find import ALIAS_MEANS, find_aliases

    aliases = find_aliases(topology, guids)
    for guid, (port, index) in list(aliases.items())[:NAMED]:
        exits.note(f"{policy} names 0x{guid:016x}, which is alias GUID {index} of {port}: {ALIAS_MEANS}")
    if len(aliases) > NAMED:
        exits.note(f"{policy} names {counted(len(aliases) - NAMED, 'more alias GUID')} (`ibkeys plan` names them all)")
    return frozenset(aliases)

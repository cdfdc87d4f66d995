"""Looking up the words of a command line: the partition, and the ports whose GUIDs a policy is to name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ibkeys.cli import exits
from ibkeys.cli.tools.names import exempt_guids

if TYPE_CHECKING:
    from ibkeys.automation.named_ports import PortsOfWords
    from ibkeys.partitions.editing.partition_name import PartitionName
    from ibkeys.topology.model import Topology


def parse_partition(text: str) -> PartitionName:
    """Return the PARTITION of a command line: ``lustre``, ``0x21`` or ``lustre=0x21``.

    Raises UsageError, EncodeError.
    """
    from ibkeys.cli.types import parse_p_key
    from ibkeys.partitions.editing.partition_name import PartitionName

    return PartitionName.parse(text, parse_p_key)


def look_up(topology: Topology, words: Sequence[str]) -> PortsOfWords:
    """Look *words* up on a fabric, as `ibkeys.automation.named_ports.look_up`, and write its notes and warnings to
    standard error."""
    from ibkeys.automation import named_ports

    exempt_guids(word for word in words if word not in named_ports.KEYWORDS)
    found = named_ports.look_up(topology, words)
    say(found)
    return found


def say(found: PortsOfWords) -> None:
    """Write the notes and warnings on the ports that words stand for to standard error."""
    exits.warn_each(found.warnings)
    exits.warn_each(found.notes, "note")

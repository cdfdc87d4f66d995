"""The note that names the command for adapters that were likely replaced."""

from __future__ import annotations

from collections.abc import Iterable

from ibkeys.cli import exits
from ibkeys.printable import counted
from ibkeys.topology.moves import Move


def note_replaced(moved: Iterable[Move], baseline: str) -> None:
    """Write a note if an adapter is at the place of another, with its name. *baseline*: the name of the earlier
    snapshot."""
    number = sum(move.is_likely_replacement for move in moved)
    if number:
        exits.note(
            f"{counted(number, 'adapter')} took the place and the name of another: if it was replaced, `ibkeys replace "
            f"--baseline {baseline}` gives the new adapter the memberships of the former one"
        )

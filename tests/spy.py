"""One spy on what is sent: it records each MAD that leaves, and lets a test act at one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from ibkeys.mad.const import Method
from ibkeys.umad.port import Outgoing, SendFailure

LOST: Final = -1
"""What ``refuse`` returns for a MAD that leaves and arrives nowhere."""


def spy(
    fabric: Any,
    *,
    before: Callable[[Outgoing], object] | None = None,
    refuse: Callable[[Outgoing], int] | None = None,
    after: Callable[[Outgoing], object] | None = None,
) -> list[bytes]:
    """Return a list that grows with every MAD that *fabric* (or whatever has a ``umad``) sends from now on.

    They leave one by one. *before* and *after* are called with each; what they raise reaches the sender, as Ctrl-C
    would. *refuse* returns the errno with which the kernel refuses this one, `LOST`, or 0.
    """
    record: list[bytes] = []
    send = fabric.umad.send

    def one_by_one(batch: Sequence[Outgoing]) -> list[SendFailure]:
        failures: list[SendFailure] = []
        for index, outgoing in enumerate(batch):
            if before is not None:
                before(outgoing)
            code = refuse(outgoing) if refuse is not None else 0
            if code > 0:
                failures.append(SendFailure(index, code))
                continue
            record.append(outgoing.mad)
            if code != LOST:
                failures += [SendFailure(index, failure.errno) for failure in send([outgoing])]
            if after is not None:
                after(outgoing)
        return failures

    fabric.umad.send = one_by_one
    return record


def is_set(outgoing: Outgoing) -> bool:
    """Whether this is a SubnSet."""
    return outgoing.mad[3] == Method.SET


def at_sets(act: Callable[[Outgoing], object]) -> Callable[[Outgoing], object]:
    """Return what calls *act* with the SubnSets only."""
    return lambda outgoing: act(outgoing) if is_set(outgoing) else None


def interrupt_at_a_set(outgoing: Outgoing) -> None:
    """Press Ctrl-C at a SubnSet."""
    if is_set(outgoing):
        raise KeyboardInterrupt


def sets(record: Sequence[bytes]) -> list[bytes]:
    """Return the SubnSets of what was sent."""
    return [mad for mad in record if mad[3] == Method.SET]

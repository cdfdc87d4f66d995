"""The values of a change for a script: the proposal before it, the progress during it, the result after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ibkeys.change.consent import Consent, Objection, Question
from ibkeys.change.wanted import PlannedChange
from ibkeys.errors import IbkeysError
from ibkeys.topology.port_id import PortId


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change as it would be made now, for the ``consent`` function. None of it was written.

    ``method``: ``direct``, ``opensm`` or ``ufm``. ``changes``: the planned changes of each port, as far as ports are
    written. ``objections``: the interlocks that it triggers, including overridden ones. ``questions``: consequences
    that the user has to accept. ``notes``: other facts to know, such as lines of files that change, pairs that
    temporarily lose connectivity, other operations that are open.
    """

    command: str
    method: str = ""
    changes: tuple[PlannedChange, ...] = ()
    objections: tuple[Objection, ...] = ()
    questions: tuple[Question, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def ports(self) -> tuple[PortId, ...]:
        """The ports that change, each once."""
        return tuple(dict.fromkeys(change.port for change in self.changes))


Consenting = Callable[[Proposal], Consent | None]
"""A function that gets a proposal and returns the overrides, or None for no. Overrides count only for interlocks that
the proposal names. If there are more than before, the change is planned again, and the function is called again."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a change.

    ``step``: in words, or the name of a phase; ``done`` of ``whole`` ports have it, 0 of 0 where that is not counted.
    ``operation``: its number in the journal, once it has begun. ``awaits_confirmation``: all is written, and it is
    rolled back unless `Operation.confirm` or `ibkeys confirm` confirms it in time.
    """

    step: str
    done: int = 0
    whole: int = 0
    operation: int | None = None
    awaits_confirmation: bool = False

    def __str__(self) -> str:
        return f"{self.step}: {self.done} of {self.whole}" if self.whole else self.step


OnProgress = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class PortOutcome:
    """The outcome at one port.

    ``port`` is None for another subject, such as a file; ``reason``: why it failed or is left, "" for one that is done.
    """

    port: PortId | None
    reason: str = ""

    def __str__(self) -> str:
        return ": ".join(filter(None, (str(self.port or ""), self.reason)))


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """The result of a change: the outcome at each port, and whether fresh reads have proven all of it.

    ``operation``: its number in the journal, None where nothing was to be done or written. ``changed``: whether
    anything was, or may have been, written. ``proven``: whether everything has its wanted value, by a fresh read of
    every port; true as well where nothing had to be changed. ``done``: ports that were changed and proven. ``failed``:
    those that were not written or proven. ``left``: those that were not begun, or left alone. ``gone_back``: it was not
    confirmed in time, so it was rolled back; of M_Keys the level only. ``objections``: of a dry run, the interlocks
    that would refuse it. ``problem``: why it stopped, or of a dry run, what else would refuse it.
    """

    command: str
    operation: int | None = None
    changed: bool = False
    proven: bool = False
    done: tuple[PortOutcome, ...] = ()
    failed: tuple[PortOutcome, ...] = ()
    left: tuple[PortOutcome, ...] = ()
    gone_back: bool = False
    notes: tuple[str, ...] = ()
    objections: tuple[Objection, ...] = ()
    problem: IbkeysError | None = None


def outcomes(ports: Iterable[PortId], reason: str = "") -> tuple[PortOutcome, ...]:
    """Return the same outcome for each of *ports*."""
    return tuple(PortOutcome(port, reason) for port in dict.fromkeys(ports))

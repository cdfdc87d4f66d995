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
    """A change that would be made now, for the ``consent`` function. Nothing was written yet.

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

    ``step``: the step in words, or the name of a phase. ``done`` of ``whole`` ports have finished the step; both are 0
    if ports are not counted. ``operation``: the number of the operation in the journal, once it has begun.
    ``awaits_confirmation``: everything is written, and the change is rolled back unless `Operation.confirm` or `ibkeys
    confirm` confirms it in time.
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

    ``operation``: the number of the operation in the journal; None if nothing had to be written, and for a change of
    sm_key, sa_key or part_enforce. ``changed``: whether anything was, or may have been, written. ``proven``: whether
    everything has its wanted value, by a fresh read of every port; also true if nothing had to be changed. ``done``:
    ports that were changed and proven. ``failed``: ports that were not written or proven. ``left``: ports that were not
    begun, or left alone. ``gone_back``: whether the change was rolled back because it was not confirmed in time; a
    change of M_Keys has only the level rolled back. ``waiting``: flags of multicast groups, with their partitions in
    words: OpenSM may keep a group that exists as it is, and no port shows that. ``objections``: after a dry run, the
    interlocks that would refuse the change. ``problem``: why the change stopped; after a dry run, any other reason for
    which it would be refused.
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
    waiting: tuple[str, ...] = ()
    objections: tuple[Objection, ...] = ()
    problem: IbkeysError | None = None


def outcomes(ports: Iterable[PortId], reason: str = "") -> tuple[PortOutcome, ...]:
    """Return the same outcome for each of *ports*."""
    return tuple(PortOutcome(port, reason) for port in dict.fromkeys(ports))

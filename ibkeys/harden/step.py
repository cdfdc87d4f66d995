"""One step of a hardening: it plans its change, makes it, and names its rollback command.

A step stores nothing of its own for the next run. An unfinished change of a step is in the key store or the journal, as
the command that makes the same change stores it. So that command, or a later hardening, can continue the change.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

from ibkeys.apply.apply import Permissions
from ibkeys.change.consent import Objection, Question
from ibkeys.change.plan import ExposureNote, Plan, StepNote
from ibkeys.change.runner import WAIT
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import IbkeysError
from ibkeys.harden.findings import StepName
from ibkeys.managers.hosts import SmHost
from ibkeys.mkeys.planning_options import RunListener
from ibkeys.partitions.model import Policy

COMMAND: Final = "harden"
"""The command in the journal for the steps that no other command makes."""


@dataclass(frozen=True, slots=True)
class HardenRequest:
    """The user's request for a hardening.

    ``hosts``: the hosts of the OpenSMs, this host first; ``wait``: seconds without progress after which a step stops
    waiting for OpenSM; ``lease``: the lease of the M_Keys, in seconds; ``policy``: the policy to apply, None if P_Keys
    are not changed; ``permissions``: the changes that the policy may make; ``listener``: called with the progress;
    ``say``: called with each action that cannot be counted.
    """

    hosts: Sequence[SmHost]
    wait: float = WAIT
    lease: int = 60
    policy: Policy | None = None
    permissions: Permissions = field(default_factory=Permissions)
    listener: RunListener = field(default_factory=RunListener)
    say: Callable[[str], None] = lambda text: None
    is_dry: bool = False
    """Whether this is a dry run. Its audit has not tested whether the SA accepts the default SA_Key."""


@dataclass(slots=True)
class StepChange:
    """The planned change of a step.

    ``words``: the changes, line by line; ``rollback``: how to undo them, in words; ``make``: makes them, and returns
    the parts that were not done, in words; ``refusals``: reasons for a refusal, besides interlocks; ``notes``,
    ``objections`` and ``questions``: as in `Plan`.
    """

    words: Sequence[str]
    rollback: str
    make: Callable[[], Sequence[str]]
    notes: Sequence[str] = ()
    objections: Sequence[Objection] = ()
    questions: Sequence[Question] = ()
    refusals: Sequence[IbkeysError] = ()

    @classmethod
    def of(cls, plan: Plan, words: Sequence[str], rollback: str, make: Callable[[], Sequence[str]]) -> Self:
        """Return the change that *plan* makes. Its notes on single steps are left out, because they are in *words*."""
        notes = [each for each in plan.notes if not isinstance(each, StepNote) or isinstance(each, ExposureNote)]
        return cls(words, rollback, make, notes, plan.objections, plan.questions, plan.refusals)


def undo_of(operation: int | None) -> str:
    """Return the command that undoes a step. *operation*: the number of the step's operation, None before it begins."""
    return f"ibkeys undo {'with the number that `ibkeys journal` shows' if operation is None else operation}"


class HardeningStep(ABC):
    """One step of a hardening.

    ``name``: its name in JSON documents. ``title``: its description. ``command``: the command of its operation in the
    journal. ``serves``: steps that are never made without this one. ``lifts``: interlocks that this step removes for
    the steps after it.
    """

    name: StepName
    title: str
    command: str = COMMAND
    serves: frozenset[StepName] = frozenset()
    lifts: frozenset[str] = frozenset()

    def is_asked_for(self, asked: HardenRequest) -> bool:
        """Return whether the user's options allow this step."""
        return True

    def is_due(self, writer: ChangeWriter, asked: HardenRequest) -> bool:
        """Return whether the step is made without a finding: an earlier run is not finished, or the user requests
        it."""
        return False

    @abstractmethod
    def plan_change(self, writer: ChangeWriter, asked: HardenRequest) -> StepChange | None:
        """Return the change that the step would make now, None if it would change nothing. Sends only Gets.

        Raises the errors of the command that makes the same change, if the change cannot be planned.
        """

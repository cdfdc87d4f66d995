"""The interface of the backends that make a change of many ports: by Sets of ibkeys, or through a subnet manager. The
wanted tables, the permissions, the interlocks of tables, the journal, the confirmation and the last fresh read are the
same for all of them. A carrier is the part that differs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ibkeys.apply.former_values import FormerValues
from ibkeys.apply.remaining import RemainingChanges
from ibkeys.apply.survey import Survey
from ibkeys.change.consent import Objection
from ibkeys.change.method import MethodChoice
from ibkeys.change.runner import OnStep
from ibkeys.change.target import PortTarget
from ibkeys.errors import IbkeysError
from ibkeys.keys.pkey import PKey
from ibkeys.plan.model import Break, PartitionPlan
from ibkeys.plan.order import Phase
from ibkeys.store.journal import RunningOperation
from ibkeys.topology.port_id import PortId, PortKey

Failed = tuple[PortId | None, str]
"""A port that could not be written, and the reason; None for a file or another thing that is no port."""


@dataclass(frozen=True, slots=True)
class WrittenPort:
    """The values that a port should have after a carrier wrote it: its table, and the fields of PortInfo that were
    set."""

    target: PortTarget
    table: Mapping[int, PKey]
    bits: Mapping[str, int]


@dataclass(slots=True)
class CarrierResult:
    """The result of `Carrier.carry_out`. ``written``: the ports that it tried to write; ``failed``: the ports that
    could not be written, and the error; ``stopped``: the phase after which it did not go on, None if all were made;
    ``problem``: the interrupt or error that stopped it early, such as a store that cannot be written.
    ``went_back``: the result of the rollback that the carrier made by itself, None if it made none;
    ``rollback_reason``: why it made it. ``notes``: notes for the user at the end."""

    written: dict[PortKey, WrittenPort] = field(default_factory=dict)
    failed: dict[PortKey, IbkeysError] = field(default_factory=dict)
    stopped: Phase | None = None
    problem: IbkeysError | KeyboardInterrupt | None = None
    rollback_reason: str = ""
    went_back: RollbackResult | None = None
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class RollbackResult:
    """The result of `Carrier.go_back`, an automatic rollback. ``failed``: the ports that were not restored;
    ``is_refused``: another program or administrator has changed values that the operation wrote, so nothing was
    restored; ``notes``: on what a complete rollback leaves."""

    failed: list[Failed]
    is_refused: bool = False
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Assignment:
    """A change that a carrier has to make.

    ``phases``: its steps, in an order that disconnects no pair that may talk before and after. ``targets``: the ports,
    as they were read. ``empties``: by port, index → value for entries without a P_Key that get 0x8000 and not 0.
    ``operation``: gets the values to be overwritten, before each Set or file. ``check``: called often; raises
    IbkeysError or KeyboardInterrupt to stop. ``progress``: called after each part of a step.
    """

    phases: Sequence[Phase]
    targets: Mapping[PortKey, PortTarget]
    empties: Mapping[PortKey, Mapping[int, int]]
    operation: RunningOperation
    check: Callable[[], None]
    progress: OnStep


class Carrier(Protocol):
    """A backend that makes changes of many ports; the base class of all of them. ``name``: its name in the journal.
    ``sends_sets``: it sends Sets, which carry M_Keys, so the M_Keys must be known. ``rewrites_tables``: it writes whole
    blocks of a table, so entries that another program or administrator wrote there are lost. ``rollback_effects``: the
    side effects of `go_back` on pairs of ports, in words; "" if there are none. ``can_rewrite``: the subnet manager can
    be made to write every table first; ``can_be_rehearsed``: `ibkeys rehearse` shows such a change on a copy.
    ``choice``: the choice by which ibkeys took this carrier for a new operation; None if the user named it.
    """

    name: str
    sends_sets: bool = False
    rewrites_tables: bool = False
    rollback_effects: str = ""
    can_rewrite: bool = False
    can_be_rehearsed: bool = False
    choice: MethodChoice | None = None

    @property
    def sm_in_words(self) -> str:
        """The subnet manager, and the files or partitions that are changed through it, in words; "" if the carrier
        sends Sets. Known after `find_remaining`."""
        return ""

    @property
    def done_in_words(self) -> str:
        """What is known when the change is complete, in words. Known after `find_remaining`."""
        return "done, verified by a fresh read"

    @property
    def waiting(self) -> tuple[str, ...]:
        """The facts that no fresh read can verify, in words: flags of the policy that the subnet manager may not take
        over at once, and members that are not on the fabric. Known after `find_remaining`."""
        return ()

    def survey(self, ports: Collection[PortKey], *, by_port_guid: bool = False) -> Survey:
        """Return *ports* and all other ports that the carrier needs, as they are on the fabric. See
        `ibkeys.apply.survey`."""

    def objections(self) -> list[Objection]:
        """Return the objections to this carrier itself, whatever the change is. Sends only Gets."""

    def find_remaining(
        self, wanted: PartitionPlan | FormerValues, survey: Survey, former: FormerValues | None = None
    ) -> RemainingChanges:
        """Return the changes that are left until the ports are as a plan wants, or until the values that an operation
        overwrote (`FormerValues`) are back. *former*: the values that an earlier run of the plan found and wrote, which
        do not count as foreign.
        """

    def phases(self, remaining: RemainingChanges, survey: Survey) -> list[Phase]:
        """Return the steps that make the remaining changes; adds values that it still has to read to *remaining*."""

    def breaks(self, wanted: PartitionPlan | FormerValues, remaining: RemainingChanges) -> tuple[Break, ...]:
        """Return the pairs of ports that temporarily lose connectivity."""

    def journal_options(self) -> Mapping[str, Any]:
        """Return the carrier's options for the journal, by which an operation can be finished or undone: JSON, without
        any key."""
        return {}

    def arm(self, operation: RunningOperation, seconds: float) -> None:
        """Start the guards on other hosts, which roll back *seconds* after `start_time_limit` if this process cannot.
        Most carriers have no guards. Called before anything is written."""
        return

    def start_time_limit(self) -> list[str]:
        """Start the time limit of the guards, after everything is written. Return their problems, in words."""
        return []

    def disarm(self, confirmed: bool) -> list[str]:
        """End the guards: the change is *confirmed*, or was undone. Return their problems, in words."""
        return []

    def carry_out(self, assignment: Assignment) -> CarrierResult:
        """Make the change, and return its result."""

    def go_back(self, operation: RunningOperation) -> RollbackResult:
        """Restore the values that *operation*, which is still open, overwrote, in one step: the user is not asked, and
        no interlock stops it. Raises IbkeysError if it cannot be planned, or if an error stops it before any port has
        failed."""

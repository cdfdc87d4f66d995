"""The way on which a change of many ports gets to the fabric: by Sets of ibkeys, or through a subnet manager.

What is wanted, the permissions, the interlocks of tables, the journal, the confirmation and the last fresh read are the
same on each way. A carrier is what differs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ibkeys.apply.former import Former
from ibkeys.apply.remaining import Remaining
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
"""A port that could not be written, None for what is not a port, and why."""


@dataclass(frozen=True, slots=True)
class WrittenPort:
    """What a port should hold after a carrier was at it: its table, and the fields of PortInfo that were set."""

    target: PortTarget
    table: Mapping[int, PKey]
    bits: Mapping[str, int]


@dataclass(slots=True)
class Carried:
    """How far a carrier came. ``written``: the ports that it was at, also in vain; ``failed``: those that could not be
    written, and why; ``stopped``: the phase after which it did not go on, None where all were made; ``problem``: what
    stopped it before its end: an interrupt, a store that cannot be written. ``gone_back``: why the carrier rolled back
    by itself, "" where it did not; what could not be restored then is in ``not_given_back``; ``is_refused``: nothing
    was restored, as in `WentBack`. ``notes``: what its user should hear at the end."""

    written: dict[PortKey, WrittenPort] = field(default_factory=dict)
    failed: dict[PortKey, IbkeysError] = field(default_factory=dict)
    stopped: Phase | None = None
    problem: IbkeysError | KeyboardInterrupt | None = None
    gone_back: str = ""
    not_given_back: list[Failed] = field(default_factory=list)
    is_refused: bool = False
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class WentBack:
    """How an automatic rollback ended. ``failed``: what was not restored; ``is_refused``: somebody else has changed
    what the operation wrote, so nothing was restored."""

    failed: list[Failed]
    is_refused: bool = False


@dataclass(frozen=True, slots=True)
class Assignment:
    """A change that a carrier has to make.

    ``phases``: its steps, in an order that disconnects no pair that may talk before and after. ``targets``: the ports,
    as they were read. ``empties``: by port, index → value where an entry without P_Key shall hold 0x8000 and not 0.
    ``operation``: gets what is overwritten, before each Set or file. ``check``: called often; raises IbkeysError or
    KeyboardInterrupt to stop. ``progress``: called after each part of a step.
    """

    phases: Sequence[Phase]
    targets: Mapping[PortKey, PortTarget]
    empties: Mapping[PortKey, Mapping[int, int]]
    operation: RunningOperation
    check: Callable[[], None]
    progress: OnStep


class Carrier(Protocol):
    """A way to make changes of many ports, the base class of all of them.

    ``name``: what the journal calls it. ``sends_sets``: it sends Sets, which carry M_Keys, so that they must be known.
    ``rewrites_tables``: whole blocks of a table are written: entries that somebody else put into them are lost.
    ``way_back``: what `go_back` may do to others, in words, "" where it cuts and joins nobody who was named.
    ``choice``: why this one, where ibkeys chose it for a new operation; None where the user did.
    """

    name: str
    sends_sets: bool = False
    rewrites_tables: bool = False
    way_back: str = ""
    choice: MethodChoice | None = None

    @property
    def way(self) -> str:
        """What it goes through, in words, once the state is known; "" where that needs no word."""
        return ""

    def survey(self, ports: Collection[PortKey], *, by_port_guid: bool = False) -> Survey:
        """Return what is on the fabric of *ports*, and of all others that it has to know. See `ibkeys.apply.survey`."""

    def check(self) -> list[Objection]:
        """Return the interlocks that going this way triggers, whatever the change is. Sends only Gets."""

    def state(self, wanted: PartitionPlan | Former, survey: Survey, former: Former | None = None) -> Remaining:
        """Return what is left to do until a plan is true, or until what an operation overwrote (`Former`) is back.

        *former*: what an earlier run of the plan overwrote and wrote: that is no surprise.
        """

    def phases(self, remaining: Remaining, survey: Survey) -> list[Phase]:
        """Return in which steps what is left is done; reads what it still has to know into *remaining*."""

    def breaks(self, wanted: PartitionPlan | Former, remaining: Remaining) -> tuple[Break, ...]:
        """Return who temporarily loses connectivity."""

    def kept(self) -> Mapping[str, Any]:
        """Return what the journal keeps of it, so that an operation can be finished or undone: JSON, no key in it."""
        return {}

    def arm(self, operation: RunningOperation, seconds: float) -> None:
        """Start those on other hosts that wait and roll back when this process cannot, *seconds* after `let_time_run`;
        most carriers have nobody there. Called before anything is written."""
        return

    def let_time_run(self) -> list[str]:
        """All is written: let their time run. Return what is wrong with them, in words."""
        return []

    def disarm(self, confirmed: bool) -> list[str]:
        """End them: the change is *confirmed*, or was undone. Return what is wrong, in words."""
        return []

    def carry_out(self, assignment: Assignment) -> Carried:
        """Make the change."""

    def go_back(self, operation: RunningOperation) -> WentBack:
        """Restore what *operation*, which is still open, overwrote, in one step: nothing is asked, and no interlock
        stops it. Raises IbkeysError where nothing could be tried."""

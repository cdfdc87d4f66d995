"""The steps of a change through a subnet manager: the contents that each gives the subnet manager, and the tables that
the ports have after it. The runner gets the numbers of these steps (`ibkeys.apply.by_sm.run`).

Also the options of the user for such a change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ibkeys.apply.by_sm.changed_together import ChangedTogether
from ibkeys.apply.remaining import RemainingChanges
from ibkeys.change.consent import Objection
from ibkeys.change.runner import WAIT
from ibkeys.change.wanted import EnforcementChange, Entries
from ibkeys.plan.model import Break
from ibkeys.plan.order import PhaseName
from ibkeys.topology.port_id import PortKey

Contents = TypeVar("Contents")


@dataclass(frozen=True, slots=True)
class CarrierSettings:
    """The user's options for a change through a subnet manager. ``wait``: see `WAIT`; ``gaps``: pairs may temporarily
    lose connectivity; ``rewrite``: OpenSM writes every table again first; ``at_once``: an undo rolls back in one step;
    ``had_gaps``: the operation that is undone was made with ``gaps``; ``changed_together``: the files and places that
    change with the policy; ``spreads``: the policy of the master is copied to the other OpenSMs, and changes no port.
    """

    wait: float = WAIT
    gaps: bool = False
    rewrite: bool = False
    at_once: bool = False
    had_gaps: bool = False
    changed_together: ChangedTogether = field(default_factory=ChangedTogether)
    spreads: bool = False


@dataclass(frozen=True, slots=True)
class TablesStep(Generic[Contents]):
    """One step. ``contents``: the new contents of each file, or of each partition of UFM, that the subnet manager gets.
    ``tables``: the tables of all ports that were read, as they are once the step is in force."""

    name: PhaseName
    contents: Contents
    tables: Mapping[PortKey, Entries]


@dataclass(slots=True)
class TablesCourse(Generic[Contents]):
    """All steps of a change. ``start``: the tables before the first step; ``enforcement``: the enforcement bits that
    the last step changes; ``breaks``: the pairs that are disconnected; ``objections``: the interlocks that are
    triggered; ``remaining``: the ports that are not as the plan found them; ``waiting``: facts that no fresh read can
    verify, in words: flags of multicast groups that exist, which the subnet manager may not take over at once, and the
    GUIDs of members that are not on the fabric."""

    start: Mapping[PortKey, Entries] = field(default_factory=dict)
    steps: list[TablesStep[Contents]] = field(default_factory=list)
    enforcement: list[EnforcementChange] = field(default_factory=list)
    breaks: tuple[Break, ...] = ()
    objections: list[Objection] = field(default_factory=list)
    remaining: RemainingChanges = field(default_factory=RemainingChanges)
    waiting: tuple[str, ...] = ()

    @property
    def end(self) -> Mapping[PortKey, Entries]:
        """The tables after the last step."""
        return self.steps[-1].tables if self.steps else self.start

    def tables_before(self, number: int) -> Mapping[PortKey, Entries]:
        """Return the tables before a step."""
        return self.steps[number - 1].tables if number else self.start

    def enforcement_of_step(self, number: int) -> Sequence[EnforcementChange]:
        """Return the enforcement bits that a step changes: only the last one does."""
        return self.enforcement if number == len(self.steps) - 1 else ()

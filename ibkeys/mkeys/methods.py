"""The methods of a run of M_Keys by name. Each plans a new run, the rest of the last run, and the way back. The journal
has the name of the method of each run, and the same method finishes or undoes the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ibkeys.change.method import MethodName
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import StoreError
from ibkeys.keys.mkey import MKey
from ibkeys.mkeys.opensm import planned
from ibkeys.mkeys.opensm.record import NAME
from ibkeys.mkeys.planning_options import PlanningOptions
from ibkeys.mkeys.rollout.going_back import plan_return
from ibkeys.mkeys.rollout.new_keys import KeyCommand, plan_run
from ibkeys.mkeys.rollout.planned_run import PlannedRun
from ibkeys.mkeys.rollout.removal import plan_removal
from ibkeys.mkeys.rollout.rest_of_run import plan_rest
from ibkeys.store.journal.runs import DIRECT, MKeyRun, RunOptions


@dataclass(frozen=True, slots=True)
class KeyMethod:
    """A method of a run of M_Keys. ``name``: its name on the command line and in the journal; ``words``: how a run was
    started by it. ``sends_sets``: ibkeys sends the Sets, port by port; else a subnet manager sets one key on all ports
    in one sweep.

    ``plan_keys`` plans a new run of mkey-deploy or mkey-rotate, with the key for all ports, or None, which generates
    keys. ``plan_removal`` plans a new run that removes the M_Key of every port, ``plan_rest`` the rest of the last run.
    ``plan_return`` plans to restore the keys and levels that the last run found.
    """

    name: MethodName
    words: str
    sends_sets: bool
    plan_keys: Callable[[ChangeWriter, KeyCommand, RunOptions, MKey | None, PlanningOptions], PlannedRun]
    plan_removal: Callable[[ChangeWriter, RunOptions, PlanningOptions], PlannedRun]
    plan_rest: Callable[[ChangeWriter, PlanningOptions], PlannedRun]
    plan_return: Callable[[ChangeWriter, PlanningOptions], PlannedRun]


_METHODS: Final = (
    KeyMethod(DIRECT, "directly", True, plan_run, plan_removal, plan_rest, plan_return),
    KeyMethod(
        NAME,
        "through OpenSM",
        False,
        planned.plan_keys,
        planned.plan_removal,
        planned.plan_rest,
        planned.plan_return,
    ),
)
KEY_METHODS: Final[Mapping[str, KeyMethod]] = {each.name: each for each in _METHODS}
"""Name → method."""


def method_of_run(run: MKeyRun) -> KeyMethod:
    """Return the method of a run in the journal. Raises StoreError for a method that this version does not know."""
    method = KEY_METHODS.get(run.method)
    if method is None:
        raise StoreError(f"the run was made through {run.method!r}, which this ibkeys does not know")
    return method

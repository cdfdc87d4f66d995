"""The user's options for planning a run of M_Keys, also for one through OpenSM, and the callbacks of such a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from ibkeys.change.runner import WAIT, OnStep
from ibkeys.discovery.wanted import OnFound
from ibkeys.managers.hosts import SmHost

Order = Literal["farthest", "nearest"]
"""Which ports are changed first, by hops from the local port."""
STANDBY_WAIT: Final = 600.0
"""Seconds that a user has to log in to a host and start a standby there."""


@dataclass(frozen=True, slots=True)
class RunListener:
    """Callbacks of a run. ``say``: called with an instruction for the user; ``progress``: called with the progress of a
    step; ``began``: called for a run that has to be confirmed, with the number of its operation and of its start, when
    its keys are in the key store and before any file changes. The caller passes both to the process that guards the
    run.
    """

    say: Callable[[str], None] = lambda text: None
    progress: OnStep = lambda words, done, whole: None
    began: Callable[[int, int], None] = lambda operation, start: None


@dataclass(frozen=True, slots=True)
class ViaOpensm:
    """Options for a run through OpenSM. ``hosts``: the hosts with OpenSMs, this one first; ``wait``: seconds without
    progress after which OpenSM is signalled again; after as many more seconds the run stops; ``open``: whether the key
    changes at level 0; ``confirm``: whether a user has to confirm the run; ``standby_wait``: seconds that a user has to
    start a standby.
    """

    hosts: Sequence[SmHost]
    wait: float
    open: bool = False
    listener: RunListener = field(default_factory=RunListener)
    confirm: bool = False
    standby_wait: float = STANDBY_WAIT


@dataclass(frozen=True, slots=True)
class PlanningOptions:
    """The user's options for planning a run. A method uses those that it has; the caller refuses the others.

    ``through``: returns the options for a run through OpenSM; ``progress``: called with the progress of the sweep.
    ``leaves_open``: the user has agreed that ports may have no M_Key afterwards.

    The others are for a run whose Sets ibkeys sends. Of a new run: ``order``: which ports are changed first;
    ``key_file``: the name of the file that the new key came from, "" for none. ``opensm_conf``: an options file with
    which an SM of this subnet starts, besides those that are found on this host. Of an earlier run: ``at_once`` and
    ``max_failures``: None keeps the limit of the run; ``first``: most ports to change of those after the first ones,
    None for all; ``hosts``: the hosts that may have an OpenSM, this one first; if empty, it is not checked whether
    ibkeys would choose the same method again.
    """

    through: Callable[[], ViaOpensm] = lambda: ViaOpensm((SmHost(),), WAIT)
    progress: OnFound | None = None
    order: Order = "farthest"
    key_file: str = ""
    opensm_conf: Path | None = None
    at_once: int | None = None
    max_failures: int | None = None
    first: int | None = None
    hosts: Sequence[SmHost] = (SmHost(),)
    leaves_open: bool = False


NO_OPTIONS: Final = PlanningOptions()
"""The options of a user who gave none."""

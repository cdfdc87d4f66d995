"""The user's options of a run through OpenSM, and the callbacks of the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ibkeys.change.runner import OnStep
from ibkeys.managers.hosts import SmHost
from ibkeys.mkeys.opensm.standbys import STANDBY_WAIT


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

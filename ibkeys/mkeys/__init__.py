"""Managing M_Keys: stored keys, setting one, deploying and rotating over a subnet, recovery, and known port locations.

For scripts: one port's M_Key is set by `ChangeRun.set_m_key`. Over a whole fabric `plan_run` plans first or new keys,
`plan_removal` removes them, `plan_rest` plans the rest of the last run, and `plan_return` plans its rollback.
`carry_out` applies any of these plans. `plan_recovery` finds locked ports and `Recovery.run` recovers their keys. Each
takes ``change.writer`` of a `ChangeRun`. Use a new one for each run, because it reads what the previous run stored. The
names are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibkeys.lazily import loads

if TYPE_CHECKING:
    from ibkeys.mkeys.recovery.recover import Recovery, plan_recovery
    from ibkeys.mkeys.recovery.recovery_options import RecoveryOptions
    from ibkeys.mkeys.recovery.result import RecoveryResult, RecoverySummary, Status
    from ibkeys.mkeys.rollout.going_back import plan_return
    from ibkeys.mkeys.rollout.new_keys import plan_run
    from ibkeys.mkeys.rollout.planned_run import PlannedRun, carry_out
    from ibkeys.mkeys.rollout.removal import plan_removal
    from ibkeys.mkeys.rollout.rest import plan_rest
    from ibkeys.mkeys.rollout.result import PortResult, RunOutcome
    from ibkeys.store.journal.runs import RunOptions

__all__ = [
    "PlannedRun",
    "PortResult",
    "Recovery",
    "RecoveryOptions",
    "RecoveryResult",
    "RecoverySummary",
    "RunOptions",
    "RunOutcome",
    "Status",
    "carry_out",
    "plan_recovery",
    "plan_removal",
    "plan_rest",
    "plan_return",
    "plan_run",
]

_HOMES = {
    "Recovery": "mkeys.recovery.recover",
    "plan_recovery": "mkeys.recovery.recover",
    "RecoveryResult": "mkeys.recovery.result",
    "RecoverySummary": "mkeys.recovery.result",
    "Status": "mkeys.recovery.result",
    "RecoveryOptions": "mkeys.recovery.recovery_options",
    "PlannedRun": "mkeys.rollout.planned_run",
    "carry_out": "mkeys.rollout.planned_run",
    "plan_removal": "mkeys.rollout.removal",
    "plan_rest": "mkeys.rollout.rest",
    "plan_return": "mkeys.rollout.going_back",
    "plan_run": "mkeys.rollout.new_keys",
    "RunOutcome": "mkeys.rollout.result",
    "PortResult": "mkeys.rollout.result",
    "RunOptions": "store.journal.runs",
}
"""Name → the module that it is loaded from when it is first used."""


__getattr__ = loads(__name__, _HOMES)

"""Managing M_Keys: stored keys, setting one, deploying and rotating over a subnet, recovery, and known port locations.

For scripts: one port's M_Key is set by `ChangeRun.set_m_key`, those of a whole fabric by `Fabric.deploy_m_keys`,
`rotate_m_keys` and `remove_m_keys`. Here are the parts of these, by Sets of ibkeys: `plan_run` plans first or new keys,
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
    from ibkeys.mkeys.rollout.beginning import PlannedRun
    from ibkeys.mkeys.rollout.going_back import plan_return
    from ibkeys.mkeys.rollout.new_keys import plan_run
    from ibkeys.mkeys.rollout.planned_run import carry_out
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

_MODULES = {
    "mkeys.recovery.recover": ("Recovery", "plan_recovery"),
    "mkeys.recovery.recovery_options": ("RecoveryOptions",),
    "mkeys.recovery.result": ("RecoveryResult", "RecoverySummary", "Status"),
    "mkeys.rollout.going_back": ("plan_return",),
    "mkeys.rollout.new_keys": ("plan_run",),
    "mkeys.rollout.planned_run": ("PlannedRun", "carry_out"),
    "mkeys.rollout.removal": ("plan_removal",),
    "mkeys.rollout.rest": ("plan_rest",),
    "mkeys.rollout.result": ("PortResult", "RunOutcome"),
    "store.journal.runs": ("RunOptions",),
}
"""Module → the names that are loaded from it when they are first used."""


__getattr__ = loads(__name__, _MODULES)

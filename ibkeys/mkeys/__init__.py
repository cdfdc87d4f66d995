"""Recovering lost M_Keys: `plan_recovery` finds locked ports, and `Recovery.run` recovers their keys.

Both take ``change.writer`` of a `ChangeRun`; use a new one for each run, because it reads what the previous run stored.
One port's M_Key is changed by `ChangeRun.plan_set_m_key`, those of a whole fabric by `Fabric.deploy_m_keys`,
`rotate_m_keys` and `remove_m_keys`. The names are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibkeys.lazily import lazy_getattr

if TYPE_CHECKING:
    from ibkeys.mkeys.recovery.recover import Recovery, plan_recovery
    from ibkeys.mkeys.recovery.recovery_options import RecoveryOptions
    from ibkeys.mkeys.recovery.result import RecoveryResult, RecoverySummary, Status

__all__ = ["Recovery", "RecoveryOptions", "RecoveryResult", "RecoverySummary", "Status", "plan_recovery"]

_MODULES = {
    "mkeys.recovery.recover": ("Recovery", "plan_recovery"),
    "mkeys.recovery.recovery_options": ("RecoveryOptions",),
    "mkeys.recovery.result": ("RecoveryResult", "RecoverySummary", "Status"),
}
"""Module → the names that are loaded from it when they are first used."""


__getattr__ = lazy_getattr(__name__, _MODULES)

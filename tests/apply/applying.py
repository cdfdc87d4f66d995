"""Applying, resuming and undoing plans on the lab's fabric, in one word each."""

from __future__ import annotations

from typing import Any

from ibkeys.apply.apply import Permissions, plan_apply, plan_resume
from ibkeys.apply.apply_plan import ApplyHooks, ApplyPlan
from ibkeys.apply.undo import plan_undo
from ibkeys.plan.model import PartitionPlan
from ibkeys.store.journal import Journal
from ibkeys.store.paths import StorePaths
from tests.apply.lab import ALL, Lab
from tests.fabricsim import tool, writer
from tests.plan.plans import entries

MORE = {1: entries(0xFFFF, 0x8001), 2: entries(0x7FFF, 0x8001), 3: entries(0x7FFF, 0, 0x8002)}


def apply(fabric: Any, plan: PartitionPlan, *overrides: str, **options: Any) -> ApplyPlan:
    with writer(fabric, *overrides) as w:
        work = plan_apply(w, plan, ALL, ApplyHooks(**options))
        w.apply(work)
    return work


def resume(fabric: Any, *overrides: str, permissions: Permissions | None = None, **options: Any) -> ApplyPlan:
    with writer(fabric, *overrides) as w:
        work = plan_resume(w, permissions, ApplyHooks(**options))
        w.apply(work)
    return work


def undo(fabric: Any, operation: int | None = None, *overrides: str) -> ApplyPlan:
    with writer(fabric, *overrides) as w:
        work = plan_undo(w, operation)
        w.apply(work)
    return work


def opened(lab: Lab, stores: StorePaths, **options: Any) -> Any:
    fabric = tool(lab.net, **options)
    fabric.stores = stores
    return fabric


def state_of(stores: StorePaths, operation: int = 1) -> str:
    with Journal(stores.journal, create=False) as journal:
        return journal.find(operation).state


def interrupted_at(number: int) -> Any:
    """Return a check that is stopped by a signal at its call with this number."""
    calls = iter(range(1, 1_000_000))

    def check() -> None:
        if next(calls) == number:
            raise KeyboardInterrupt("by SIGTERM")

    return check

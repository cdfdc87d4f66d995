"""Rolling a run back: from the present setting of all ports to the setting before the run, by steps of the same kind.

The automatic rollback of an unconfirmed run only lowers the level that the run raised, and never changes a key.
"""

from __future__ import annotations

from collections.abc import Collection

from ibkeys.arguments import given
from ibkeys.errors import Refused, UsageError
from ibkeys.keys.key_setting import KeySetting
from ibkeys.mkeys.opensm.course import KeyStep, RunKeys, plan_steps
from ibkeys.mkeys.opensm.fit_managers import MIXED
from ibkeys.mkeys.opensm.record import RunRecord


def refuse_mixed_keys(record: RunRecord, settings: Collection[KeySetting]) -> None:
    """Raise Refused (`MIXED`) if the ports of a run that is to be rolled back have different keys. A rollback that has
    begun already is not refused. *settings*: the settings of its ports now.
    """
    if not record.goes_back and len({each.key for each in settings}) > 1:
        raise Refused(
            "some ports have the former M_Key and some the new one: rolling back would mix them again, "
            "so the run can only be finished: `ibkeys resume`",
            MIXED,
        ).unchanged()


def plan_rollback(
    record: RunRecord,
    settings: Collection[KeySetting],
    in_file: KeySetting,
    of_standbys: Collection[KeySetting] = (),
    open_while_rotating: bool = False,
) -> None:
    """Replace the steps of *record* by the steps of the rollback. A record of a rollback stays as it is.

    *settings*: the settings of its ports now, which have the same key. *in_file*: the setting in the master's options
    file; OpenSM may be raising the ports to the level there at this moment, so the first step waits for that level
    before a key changes. *of_standbys*: the settings in the standbys' options files; if one has another key, a step
    changes it, because that standby would lose the ports when it takes over. *open_while_rotating*: as in `plan_steps`.
    """
    if record.goes_back:
        return
    target, record.earlier = record.keys.former, record.settings
    record.at, record.goes_back = 0, True
    if record.undoes_nothing:
        record.steps, record.keys = [], RunKeys(target, target)
        return
    now = min(settings, key=lambda each: (each.protect, each.lease), default=target)
    first = []
    if in_file.key == now.key and in_file.protect > now.protect:
        first = [KeyStep("level", "former", in_file.protect, in_file.lease)]
    at = in_file if first else now
    steps = first + plan_steps(at, target, open_while_rotating)
    if at.key == target.key and any(each.key != target.key for each in of_standbys) and not target.key.is_zero:
        steps.insert(len(first), KeyStep("key", "wanted", at.protect, at.lease, standbys=True))
    # There is always a step, because only a step writes the options files, and a file may already have a later setting
    # than the ports.
    record.steps = steps or [KeyStep("level", "wanted", now.protect, now.lease)]
    record.keys = RunKeys(now, target)


# --- the rollback of a run that is not confirmed in time --------------------------------------------------------------


def fallback_level(record: RunRecord) -> int:
    """Return the level that the ports get if the run is not confirmed in time: the former one, but at least 1, because
    at level 0 every port would show the new key to everybody."""
    return max(record.keys.former.protect, 1)


def raising_step(record: RunRecord) -> int | None:
    """Return the number of the step that raises the level above `fallback_level`; None for a run without one."""
    if record.goes_back:
        return None
    level = fallback_level(record)
    return next((at for at, each in enumerate(record.steps) if each.key == "wanted" and each.protect > level), None)


def is_raised(record: RunRecord) -> bool:
    """Return whether a port may be above the `fallback_level`: the step that raises the level above it was begun, and
    the level was not lowered since."""
    number = raising_step(record)
    return number is not None and record.at >= _lowering_step(record, number)


def lower_level(record: RunRecord) -> int:
    """Make the step that lowers the level the next step of *record*, and return its number. This step has the key and
    lease of the step that raised the level; the steps after it raise the level again. Only for a run whose level
    `is_raised`."""
    raising = raising_step(record)
    assert raising is not None
    number, step = _lowering_step(record, raising), record.steps[raising]
    if number == raising:
        record.steps.insert(number, KeyStep("lowered", step.key, fallback_level(record), step.lease))
    record.at = number
    return number


def _lowering_step(record: RunRecord, raising: int) -> int:
    """Return the number of the step before *raising* if that step lowers the level; else *raising*."""
    return raising - 1 if raising and record.steps[raising - 1].kind == "lowered" else raising


def require_raised_level(record: RunRecord) -> None:
    """Raise UsageError if a run raises no level: then nothing could be lowered if its confirmation does not come."""
    if raising_step(record) is None:
        none = f"this run raises no level above {fallback_level(record)} that could be rolled back"
        raise UsageError(none).unchanged(
            f"omit {given('--confirm-within')}",
            "A key is never rolled back automatically; `ibkeys undo ID` restores the former state.",
        )

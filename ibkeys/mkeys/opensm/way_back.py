"""Rolling a run back: from the present setting of all ports to the one before the run, by steps of the same kind.

The automatic rollback of an unconfirmed run does less: it only lowers a level that was raised, and never changes a key.
"""

from __future__ import annotations

from collections.abc import Collection

from ibkeys.arguments import given
from ibkeys.errors import Refused, UsageError
from ibkeys.keys.key_setting import KeySetting
from ibkeys.mkeys.opensm.course import KeyStep, RunKeys, course
from ibkeys.mkeys.opensm.fit_managers import MIXED
from ibkeys.mkeys.opensm.record import RunRecord


def refuse_mixed_keys(record: RunRecord, settings: Collection[KeySetting]) -> None:
    """Raise Refused (`MIXED`) if a run would be rolled back while its ports have different keys: see `turn_back`.
    *settings*: the settings of its ports now.
    """
    if not record.goes_back and len({each.key for each in settings}) > 1:
        raise Refused(
            "some ports have the former M_Key and some the new one: rolling back would mix them again, "
            "so the run can only be finished: `ibkeys resume`",
            MIXED,
        ).unchanged()


def turn_back(
    record: RunRecord,
    settings: Collection[KeySetting],
    in_file: KeySetting,
    of_standbys: Collection[KeySetting] = (),
    open_while_rotating: bool = False,
) -> None:
    """Change *record* so that the run is rolled back from now on; a record that is rolled back already stays as it is.
    *settings*: the settings of its ports now, with one key; *in_file*: the setting in the master's options file. OpenSM
    may be raising the level to that one at this moment, so the first step waits for that level before a key changes.
    *of_standbys*: the settings in the standbys' options files: a standby with another key would lose the ports when it
    takes over.
    """
    if record.goes_back:
        return
    target, record.earlier = record.keys.former, record.settings
    record.at, record.goes_back = 0, True
    if record.takes_nothing_back:
        record.steps, record.keys = [], RunKeys(target, target)
        return
    now = min(settings, key=lambda each: (each.protect, each.lease), default=target)
    first = []
    if in_file.key == now.key and in_file.protect > now.protect:
        first = [KeyStep("level", "former", in_file.protect, in_file.lease)]
    at = in_file if first else now
    steps = first + course(at, target, open_while_rotating)
    if at.key == target.key and any(each.key != target.key for each in of_standbys) and not target.key.is_zero:
        steps.insert(len(first), KeyStep("key", "wanted", at.protect, at.lease, standbys=True))
    # At least one step, because only a step writes the options files, and one of these may be ahead of the ports.
    record.steps = steps or [KeyStep("level", "wanted", now.protect, now.lease)]
    record.keys = RunKeys(now, target)


# --- the rollback of a run that is not confirmed in time --------------------------------------------------------------


def level_to_fall_to(record: RunRecord) -> int:
    """Return the level that the ports get if the run is not confirmed in time: the former one, but at least 1, because
    at level 0 every port would show the new key to everybody."""
    return max(record.keys.former.protect, 1)


def raising_step(record: RunRecord) -> int | None:
    """Return the number of the step that raises the level above `level_to_fall_to`; None for a run without one."""
    if record.goes_back:
        return None
    level = level_to_fall_to(record)
    return next((at for at, each in enumerate(record.steps) if each.key == "wanted" and each.protect > level), None)


def is_raised(record: RunRecord) -> bool:
    """Return whether a port may be above the level of `level_to_fall_to`: the step that raises it was begun, and no
    step that lowers it was made since."""
    number = raising_step(record)
    return number is not None and record.at >= _lowering_step(record, number)


def lower_level(record: RunRecord) -> int:
    """Make the step that lowers the level the next step of a run whose level `is_raised`, and return its number. Key
    and lease stay. The steps after it raise the level again."""
    raising = raising_step(record)
    assert raising is not None
    number, step = _lowering_step(record, raising), record.steps[raising]
    if number == raising:
        record.steps.insert(number, KeyStep("lowered", step.key, level_to_fall_to(record), step.lease))
    record.at = number
    return number


def _lowering_step(record: RunRecord, raising: int) -> int:
    """Return the number of the step before *raising* if that step lowers the level; else *raising*."""
    return raising - 1 if raising and record.steps[raising - 1].kind == "lowered" else raising


def refuse_to_wait(record: RunRecord) -> None:
    """Raise UsageError if a run has no level that could be lowered if its confirmation does not come in time."""
    if raising_step(record) is None:
        none = f"this run raises no level above {level_to_fall_to(record)} that could be rolled back"
        raise UsageError(none).unchanged(
            f"omit {given('--confirm-within')}",
            "A key is never rolled back automatically; `ibkeys undo ID` restores the former state.",
        )

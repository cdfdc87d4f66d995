"""Rolling a run back: from what all ports have now to what they had before it, by steps of the same kind.

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
    """Raise Refused (`MIXED`) if a run would turn back while ports have different keys: see `turn_back`.

    *settings*: what its ports have now.
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
    """Let a run be rolled back from now on; one that is rolled back already stays as it is.

    *settings*: what its ports have now, one key; *in_file*: what the options file of the master says. OpenSM may be
    raising the level to that at this moment, so that level is waited for before a key changes. *of_standbys*: what
    those of the standbys say: one with another key works with that one, and would be lost when it takes over.
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
    # Without a step no options file would be written, and one of them may be ahead of the ports.
    record.steps = steps or [KeyStep("level", "wanted", now.protect, now.lease)]
    record.keys = RunKeys(now, target)


# --- the rollback of a run that nobody confirms -----------------------------------------------------------------------


def level_to_fall_to(record: RunRecord) -> int:
    """Return the level that the ports of a run get where nobody confirms it: the former one. Never below 1, for at 0
    every port would show the new key to everybody who asks."""
    return max(record.keys.former.protect, 1)


def raising_step(record: RunRecord) -> int | None:
    """Return the number of the step that raises the level above what it falls to; None for a run without one."""
    if record.goes_back:
        return None
    level = level_to_fall_to(record)
    return next((at for at, each in enumerate(record.steps) if each.key == "wanted" and each.protect > level), None)


def is_raised(record: RunRecord) -> bool:
    """Whether a port may be above the level to which it would fall: the step that raises it was begun, and none that
    lowers it was made since."""
    number = raising_step(record)
    return number is not None and record.at >= _lowering_step(record, number)


def lower_level(record: RunRecord) -> int:
    """Let a run whose level `is_raised` make the step that lowers it next, and return the number of that step. Key and
    lease stay. What comes after it raises the level again."""
    raising = raising_step(record)
    assert raising is not None
    number, step = _lowering_step(record, raising), record.steps[raising]
    if number == raising:
        record.steps.insert(number, KeyStep("lowered", step.key, level_to_fall_to(record), step.lease))
    record.at = number
    return number


def _lowering_step(record: RunRecord, raising: int) -> int:
    """Return the number of the step before the one that is *raising*, where it was made to go back; else *raising*."""
    return raising - 1 if raising and record.steps[raising - 1].kind == "lowered" else raising


def refuse_to_wait(record: RunRecord) -> None:
    """Raise UsageError if nothing of a run would go back where nobody confirms it."""
    if raising_step(record) is None:
        none = f"this run raises no level above {level_to_fall_to(record)} that could be rolled back"
        raise UsageError(none).unchanged(
            f"omit {given('--confirm-within')}",
            "A key is never rolled back automatically; `ibkeys undo ID` restores the former state.",
        )

"""A run that turns back: from what all ports have now to what they had before, by steps of the same kind."""

from __future__ import annotations

from collections.abc import Collection

from ibkeys.errors import Refused, UsageError
from ibkeys.keys.key_setting import KeySetting
from ibkeys.mkeys.opensm.course import Keys, KeyStep, course
from ibkeys.mkeys.opensm.managers import MIXED
from ibkeys.mkeys.opensm.record import RunRecord


def refuse_going_back(record: RunRecord) -> None:
    """Raise UsageError for a run that goes back: it may be anywhere between, and forward is no way on from there."""
    if record.goes_back:
        raise UsageError("the last run is on its way back: --abort finishes that; nothing was changed")


def refuse_mixed_keys(record: RunRecord, settings: Collection[KeySetting]) -> None:
    """Raise Refused (`MIXED`) where a run would turn back while ports have different keys: see `turn_back`.

    *settings*: what its ports have now.
    """
    if not record.goes_back and len({each.key for each in settings}) > 1:
        raise Refused(
            "some ports have the former M_Key and some the new one: a way back would mix them again, so there is only "
            "the way forward: --resume; nothing was changed",
            MIXED,
        )


def turn_back(
    record: RunRecord, settings: Collection[KeySetting], said: KeySetting, open_while_rotating: bool = False
) -> None:
    """Let a run go back from now on; one that goes back already stays as it is.

    *settings*: what its ports have now, one key; *said*: what the options file of the master says. OpenSM may be
    raising the level to that at this moment. So that is waited for before a key changes.
    """
    if record.goes_back:
        return
    target = record.keys.former
    now = min(settings, key=lambda each: (each.protect, each.lease), default=target)
    first = []
    if said.key == now.key and said.protect > now.protect:
        first = [KeyStep("level", "former", said.protect, said.lease)]
    steps = first + course(said if first else now, target, open_while_rotating)
    # The options files may say more than any port has seen: then they are written all the same.
    record.steps = steps or [KeyStep("level", "wanted", now.protect, now.lease)]
    record.keys, record.at, record.goes_back = Keys(now, target), 0, True

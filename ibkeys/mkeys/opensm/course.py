"""The sequence of steps from one M_Key, level and lease to another through OpenSM that loses no port.

The key changes only while every port is at level 0 or 1. If OpenSM crashes in the meantime, restarting it with the new
key in its options file repairs the fabric. The level rises step by step, the lease before level 2, and each step is
proven on every port before the next. Source: opensm osm_lid_mgr.c, osm_state_mgr.c; a running OpenSM, observed
(restarts in the middle of a sweep).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from ibkeys.errors import StoreError
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import NO_MKEY

KeyName = Literal["none", "former", "wanted"]
"""The name of the key that a step sets: 0, the former key of the ports, or the new one. The keys are in the key
store."""
KeyStepKind = Literal["key", "level", "lease", "lowered"]
"""The purpose of a step. ``lowered``: a level that is rolled back because the run was not confirmed in time."""


@dataclass(frozen=True, slots=True)
class KeyStep:
    """One step: every options file gets these values, and then every port. ``kind``: the purpose of the step; ``key``:
    the name of its key; ``protect``: M_KeyProtectBits; ``lease``: seconds; ``standbys``: whether the standbys are
    started when the step is proven.
    """

    kind: KeyStepKind
    key: KeyName
    protect: int
    lease: int
    standbys: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the step as JSON values for the journal."""
        return asdict(self)

    @classmethod
    def of_json(cls, kept: Mapping[str, Any]) -> KeyStep:
        """Return the step of which the journal has these values. Raises StoreError for values that are no step."""
        try:
            step = cls(kept["kind"], kept["key"], int(kept["protect"]), int(kept["lease"]), bool(kept["standbys"]))
        except (KeyError, TypeError, ValueError):
            raise StoreError("the journal is damaged: a step of the run cannot be read") from None
        if (
            step.kind not in get_args(KeyStepKind)
            or step.key not in ("none", "former", "wanted")
            or not 0 <= step.protect <= 3
        ):
            raise StoreError("the journal is damaged: a step of the run is invalid")
        return step


def plan_steps(now: KeySetting, wanted: KeySetting, open_while_rotating: bool = False) -> list[KeyStep]:
    """Return the steps from *now*, the setting of all ports, to *wanted*; an empty list if both are the same.

    *open_while_rotating*: whether the key changes at level 0, where a crash of OpenSM causes no violations, but
    everybody can read the keys. Otherwise it changes at level 1, or at the level of *now* if that is lower.
    """
    if wanted.key.is_zero:
        steps = list(_steps_to_no_key(now))
    elif now.key.is_zero:
        steps = [KeyStep("key", "wanted", 0, 0, standbys=True), *_steps_up(KeySetting(wanted.key, 0, 0), wanted)]
    elif now.key == wanted.key:
        steps = list(_steps_up(now, wanted)) if wanted.protect >= now.protect else list(_steps_down(now, wanted))
        if now.protect == 0 < wanted.protect:
            # A standby that started without the key goes wrong only above level 0, so it is started again before that.
            steps.insert(0, KeyStep("key", "wanted", 0, now.lease, standbys=True))
    else:
        level = min(now.protect, 0 if open_while_rotating else 1)
        steps = [KeyStep("level", "former", level, now.lease)] if level != now.protect else []
        steps.append(KeyStep("key", "wanted", level, now.lease, standbys=True))
        steps += _steps_up(KeySetting(wanted.key, level, now.lease), wanted)
    return steps


def _steps_to_no_key(now: KeySetting) -> Iterator[KeyStep]:
    """Yield the steps to M_Key 0. Level and lease become 0 before the key, because key 0 at level 1 would look like a
    hidden key."""
    if now.key.is_zero and not (now.protect or now.lease):
        return
    if not now.key.is_zero and (now.protect or now.lease):
        yield KeyStep("level", "former", 0, 0)
    yield KeyStep("key", "none", 0, 0)


def _steps_up(now: KeySetting, wanted: KeySetting) -> Iterator[KeyStep]:
    """Yield the steps to a higher level: level 1, then the lease, then level 2 or 3. A lease must be set before level
    2, or a port whose key is lost would never open by itself."""
    at = now
    if at.protect < 1 <= wanted.protect:
        at = replace(at, protect=1)
        yield KeyStep("level", "wanted", at.protect, at.lease)
    if at.lease != wanted.lease:
        at = replace(at, lease=wanted.lease)
        yield KeyStep("lease", "wanted", at.protect, at.lease)
    if at.protect != wanted.protect:
        yield KeyStep("level", "wanted", wanted.protect, wanted.lease)


def _steps_down(now: KeySetting, wanted: KeySetting) -> Iterator[KeyStep]:
    """Yield the steps to a lower level: the level, then the lease."""
    yield KeyStep("level", "wanted", wanted.protect, now.lease)
    if now.lease != wanted.lease:
        yield KeyStep("lease", "wanted", wanted.protect, wanted.lease)


@dataclass(frozen=True, slots=True)
class RunKeys:
    """The M_Key, level and lease that all ports had before a run (``former``), and that the run sets (``wanted``)."""

    former: KeySetting
    wanted: KeySetting

    def setting(self, step: KeyStep) -> KeySetting:
        """Return the setting of all ports after *step*."""
        key = {"none": NO_MKEY, "former": self.former.key, "wanted": self.wanted.key}[step.key]
        return KeySetting(key, step.protect, step.lease)

    def before(self, steps: list[KeyStep], number: int) -> KeySetting:
        """Return the setting of all ports before step *number* of *steps*, counted from 0."""
        return self.setting(steps[number - 1]) if number else self.former


def describe_step(step: KeyStep, goes_back: bool = False) -> str:
    """Return a step in words, without the key. *goes_back*: whether the step is part of a rollback, whose new key is
    the one from before the run."""
    if step.key == "none":
        return "M_Key 0 on every port"
    if step.kind == "key":
        return f"the {'former' if goes_back else 'new'} M_Key at level {step.protect}"
    if step.kind == "lease":
        return f"lease {step.lease} s at level {step.protect}"
    return f"level {step.protect}"

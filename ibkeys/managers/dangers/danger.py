"""A danger: a table row with its check, its consequence and its remedy. It never contains a key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ibkeys.managers.instance import Instance
from ibkeys.managers.opensm.effective_options import EffectiveOption


@dataclass(frozen=True, slots=True)
class Danger:
    """One row of a table of dangers. ``find``: yields a text about each time that the danger is present at an OpenSM.
    ``means``: the consequence. ``remedy``: the advice."""

    name: str
    find: Callable[[Instance], Iterable[str]]
    means: str
    remedy: str


@dataclass(frozen=True, slots=True)
class FoundDanger:
    """A danger that is present. ``subject``: the OpenSM or port that it concerns, in words, or "the fabric"; ``host``
    and ``pid`` where it concerns one OpenSM."""

    danger: str
    subject: str
    seen: str
    means: str
    remedy: str
    host: str | None = None
    pid: int | None = None


def danger_of(instance: Instance, danger: str, seen: str, means: str, remedy: str) -> FoundDanger:
    """Return a danger of one OpenSM."""
    return FoundDanger(danger, instance.name, seen, means, remedy, instance.host, instance.process.pid)


def doubt(setting: EffectiveOption) -> str:
    """Return the text that follows a value that may not be in force."""
    return "" if setting.is_certain else " as far as can be seen"


def holds_keys(instance: Instance, *names: str) -> bool:
    """Return whether one of the options *names* is set and not the default; without names, one of the keys of the
    subnet."""
    return any(instance.options.setting(name).shown == "set" for name in names or ("m_key", "sm_key", "sa_key"))

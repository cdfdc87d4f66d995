"""A danger: a row of a table, with a check, a consequence and a remedy. Its texts never contain a key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ibkeys.managers.instance import Instance
from ibkeys.managers.opensm.effective_options import EffectiveOption


@dataclass(frozen=True, slots=True)
class Danger:
    """A row of a table of dangers. ``find``: yields a text for each instance of the danger at an OpenSM. ``means``: the
    consequence, in words. ``remedy``: the advice."""

    name: str
    find: Callable[[Instance], Iterable[str]]
    means: str
    remedy: str


@dataclass(frozen=True, slots=True)
class FoundDanger:
    """A danger that was found. ``danger``: its name in the table. ``subject``: the OpenSM or port that it concerns, in
    words, or "the fabric". ``seen``: the evidence, in words. ``means``, ``remedy``: as in `Danger`. ``host``, ``pid``:
    host and process ID of the OpenSM that it concerns; None for another subject."""

    danger: str
    subject: str
    seen: str
    means: str
    remedy: str
    host: str | None = None
    pid: int | None = None


def danger_of(instance: Instance, danger: str, seen: str, means: str, remedy: str) -> FoundDanger:
    """Return a danger that was found at one OpenSM. The arguments are those of `FoundDanger`."""
    return FoundDanger(danger, instance.name, seen, means, remedy, instance.host, instance.process.pid)


def doubt_suffix(setting: EffectiveOption) -> str:
    """Return the text to add to an option's value if the value may not be in force; "" if it is certain."""
    return "" if setting.is_certain else " as far as can be seen"


def holds_keys(instance: Instance, *names: str) -> bool:
    """Return whether one of the keys with these option *names* is set to a value other than 0 and OpenSM's default.
    Without names: m_key, sm_key and sa_key."""
    return any(instance.options.setting(name).shown == "set" for name in names or ("m_key", "sm_key", "sa_key"))

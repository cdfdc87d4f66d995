"""Checks of keys of other management classes. No query is sent without a key where that may count a violation."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from ibkeys.classkeys.reading import ClassKeyReading
from ibkeys.hardware.check import CheckAnswer, DeviceCheck, not_checked, seen
from ibkeys.hardware.reading import FabricReading
from ibkeys.mad.classes.gmp import KEY_CLASSES, KeyClass
from ibkeys.topology.nodes import Port

_ASSUMED: Final = {
    "b": "a port without B_Key support answers status 0x000c or not at all",
    "cc": "KeyInfo of class 0x21 has the fields that libibmad names; its protect bit hides the key",
    "vs": "KeyInfo of class 0x0A has the fields of NVIDIA's header; its protect bit hides the key",
    "n2n": "class 0x0C has class version 1",
}


def _check(key_class: KeyClass) -> DeviceCheck:
    return DeviceCheck(
        f"class-keys.{key_class.name}", "guess", _ASSUMED[key_class.name], partial(_read_keys, key_class)
    )


def _read_keys(key_class: KeyClass, reading: FabricReading) -> CheckAnswer:
    """Query the local port and its neighbour for their key of *key_class*."""
    ports = dict(_ports(reading))
    questions = reading.fabric.class_key_questions(ports.values(), [key_class])
    readings = reading.fabric.ask_class_keys(questions)
    reading.shown_keys.update(each.settings.key for each in readings if each.settings is not None)
    states = {
        name: _in_words(key_reading)
        for name, key_reading in zip(ports, readings, strict=True)
        if key_reading.state != "not-asked"
    }
    if not states:
        why = questions[0].why_not if questions else "no port to ask was found"
        return not_checked(str(why or "no port could be asked"))
    return seen(", ".join(f"{name}: {text}" for name, text in states.items()), states=states)


def _ports(reading: FabricReading) -> Iterator[tuple[str, Port]]:
    if reading.swept_port is not None:
        yield "local port", reading.swept_port
    if reading.neighbour is not None:
        yield "neighbour", reading.neighbour.end_port


def _in_words(key_reading: ClassKeyReading) -> str:
    settings = key_reading.settings
    if settings is None:
        return key_reading.state
    return f"{key_reading.state}, protect {settings.protect_bit}, lease {settings.lease_period} s"


CHECKS: Final = tuple(map(_check, KEY_CLASSES.values()))

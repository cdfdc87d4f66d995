"""The names that smpquery prints."""

from __future__ import annotations

import json
from typing import Any

from tests import corpus

NAMES: dict[str, dict[str, str]] = corpus.load(corpus.DATA / "field-names.json")


ATTRIBUTES = ("NodeInfo", "SwitchInfo", "PortInfo")


IBA_NAMES: dict[str, dict[str, str]] = {
    name: corpus.load(corpus.DATA / "vectors" / f"fields_{name.lower()}.json")["iba_names"] for name in ATTRIBUTES
}


# How libibmad's dump writes fields that it does not write as numbers.
WIDTHS = {1: "1X", 2: "4X", 4: "8X", 8: "12X", 16: "2X"}


SPEEDS = {1: "2.5 Gbps", 2: "5.0 Gbps", 4: "10.0 Gbps"}


EXTENDED_SPEEDS = {1: "14.0625 Gbps", 2: "25.78125 Gbps", 4: "53.125 Gbps", 8: "106.25 Gbps"}


VLS = {1: "VL0", 2: "VL0-1", 3: "VL0-3", 4: "VL0-7", 5: "VL0-14"}


MTUS = {1: "256", 2: "512", 3: "1024", 4: "2048", 5: "4096"}


PHYSICAL_STATES = {1: "Sleep", 2: "Polling", 3: "Disabled", 4: "PortConfigurationTraining", 5: "LinkUp"}


WORDS: dict[str, dict[int, str]] = {
    "NodeType": {1: "Channel Adapter", 2: "Switch", 3: "Router"},
    "PortState": {1: "Down", 2: "Initialize", 3: "Armed", 4: "Active"},
    "PortPhysicalState": PHYSICAL_STATES,
    "LinkDownDefaultState": PHYSICAL_STATES,
    "LinkWidthActive": WIDTHS,
    "LinkSpeedActive": SPEEDS,
    "LinkSpeedExtActive": {0: "No Extended Speed", **EXTENDED_SPEEDS},
    "NeighborMTU": MTUS,
    "MTUCap": MTUS,
    "VLCap": VLS,
    "OperationalVLs": VLS,
}


SETS = {
    "LinkWidthSupported": WIDTHS,
    "LinkWidthEnabled": WIDTHS,
    "LinkSpeedSupported": SPEEDS,
    "LinkSpeedEnabled": SPEEDS,
    "LinkSpeedExtSupported": EXTENDED_SPEEDS,
    "LinkSpeedExtEnabled": EXTENDED_SPEEDS,
}


def decode(attribute: str, payload: str) -> str:
    """Return the fields that ``ibkeys decode`` prints; one process for each attribute would take minutes."""
    from ibkeys.mad.decode import decode as decode_mad

    return json.dumps(decode_mad(bytes.fromhex(payload), attribute, True)["fields"])


def in_words(name: str, value: int) -> str:
    """Return a field as libibmad's dump writes it."""
    if name in WORDS:
        return WORDS[name][value]
    if name in SETS:
        return " or ".join(word for bit, word in SETS[name].items() if value & bit) or "0"
    return str(value)


def same(name: str, printed: str, value: Any) -> bool:
    """Compare a printed field with a decoded one, a number or a hex string of full width."""
    if isinstance(value, str):
        return printed == value
    return int(printed, 0) == value if printed.startswith("0x") else printed == in_words(name, value)

"""The states of the keys in UFM's settings of the subnet manager: unset, OpenSM's default, set, or unknown. The keys
themselves do not leave this module.

Source: NVIDIA UFM REST guide, GET /app/smconf, which returns m_key, sm_key and sa_key in clear; opensm osm_subnet.c for
the defaults.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from ibkeys.managers.ufm.rest import Ufm

SettingState = Literal["unset", "default", "set", "unknown"]
_NUMBER: Final = re.compile(r"0[xX][0-9a-fA-F]{1,32}|[0-9]{1,40}")
_DEFAULT_KEY: Final = 1
"""OpenSM's default of sm_key and sa_key."""


@dataclass(frozen=True, slots=True)
class UfmSmSettings:
    """The states of UFM's settings of its subnet manager. ``url``: the UFM's. ``m_key``: the state of the M_Key of all
    ports, or of the seed from which each port's key is made. ``m_key_per_port``: whether each port has its own key;
    None if the answer does not say so."""

    url: str
    m_key: SettingState = "unknown"
    sm_key: SettingState = "unknown"
    sa_key: SettingState = "unknown"
    m_key_per_port: bool | None = None


def read_sm_settings(ufm: Ufm) -> UfmSmSettings:
    """Return the states of the settings of *ufm*, which is asked for them. Raises UfmNotReached, UfmRefused."""
    return states_of(ufm.url, ufm.sm_settings())


def states_of(url: str, settings: Mapping[str, Any]) -> UfmSmSettings:
    """Return the states of *settings*, the answer of the UFM at *url*. A key that is missing or not a number is
    "unknown"."""
    return UfmSmSettings(
        url,
        _key_state(settings.get("m_key"), None),
        _key_state(settings.get("sm_key"), _DEFAULT_KEY),
        _key_state(settings.get("sa_key"), _DEFAULT_KEY),
        _parse_truth(settings.get("m_key_per_port")),
    )


def _key_state(value: object, default: int | None) -> SettingState:
    text = str(value).strip() if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
    if not _NUMBER.fullmatch(text):
        return "unknown"
    number = int(text, 16 if text[:2].lower() == "0x" else 10)
    if number == 0:
        return "unset"
    return "default" if number == default else "set"


def _parse_truth(value: object) -> bool | None:
    text = str(value).strip().lower()
    return {"true": True, "false": False, "1": True, "0": False}.get(text)

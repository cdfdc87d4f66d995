"""The documents about the M_Key of a port: mkey-show, mkey-set."""

from __future__ import annotations

from operator import itemgetter
from typing import Final

from ibkeys.cli.documents.field import (
    NUMBER,
    TEXT,
    CsvRows,
    Document,
    Field,
    JsonRow,
    list_field,
    or_null,
)
from ibkeys.cli.documents.shared import ERRORS, M_KEY_STATE, PORT, UNREACHED, changed_ports
from ibkeys.cli.screen.colour import ColouredValue
from ibkeys.keys.mkey import PROTECTION_TEXT

_STATE_TEXT: Final = {
    "zero": "not set (0): the port is not protected",
    "set": "set",
    "hidden": "hidden: the port shows it only to requests with the key",
    "unreadable": "not readable",
}
_ROLES: Final = {"zero": "doubtful"}


def _key(row: JsonRow) -> ColouredValue:
    state = str(row["m_key_state"])
    return ColouredValue(row["m_key"] or state, _ROLES.get(state, ""))


def _key_in_words(row: JsonRow) -> ColouredValue:
    state = row["m_key_state"]
    text = _STATE_TEXT[state]
    return ColouredValue(f"{text}, {row['m_key']}" if row["m_key"] else text, _ROLES.get(state, ""))


def _protection(row: JsonRow) -> str | None:
    bits = row["m_key_protect_bits"]
    if bits is None:
        return None
    if row["m_key_state"] == "zero":
        return f"{bits} (no effect while M_Key is 0)"
    return f"{bits} ({PROTECTION_TEXT[bits]})"


def _lease(row: JsonRow) -> str | None:
    seconds = row["m_key_lease_period"]
    if seconds is None:
        return None
    return "0 (never expires)" if seconds == 0 else f"{seconds} s"


_PROTECT_BITS: Final = "m_key_protect_bits"
_LEASE_PERIOD: Final = "m_key_lease_period"
M_KEY_VALUES: Final = (
    Field(
        "m_key_state",
        M_KEY_STATE,
        "Whether the port has an M_Key, and shows it.",
        title="M_Key",
        text=_key_in_words,
        brief=_key,
    ),
    Field(
        "m_key",
        or_null(TEXT),
        "The M_Key, 0x and 16 digits. Null: without -K, of a snapshot that was taken without it, or the port did not "
        "show it.",
    ),
    Field(
        _PROTECT_BITS,
        or_null(NUMBER),
        "M_KeyProtectBits, the level, 0 to 3. Null: not read.",
        title="ProtectBits",
        text=_protection,
        brief=itemgetter(_PROTECT_BITS),
    ),
    Field(
        _LEASE_PERIOD,
        or_null(NUMBER),
        "M_KeyLeasePeriod in seconds; 0: the lease never expires. Null: not read.",
        title="LeasePeriod",
        text=_lease,
        short="Lease (s)",
        brief=itemgetter(_LEASE_PERIOD),
    ),
    Field(
        "m_key_violations",
        or_null(NUMBER),
        "M_KeyViolations: how many SMPs with a wrong M_Key the port has counted, up to 65535. Null: not read.",
        title="Violations",
    ),
)

MKEY_SHOW: Final = Document(
    "mkey-show",
    2,
    (
        list_field("ports", "The ports that were asked for.", *PORT, *M_KEY_VALUES),
        ERRORS,
        UNREACHED,
    ),
    CsvRows("port", (*PORT, *M_KEY_VALUES)),
)
MKEY_SET: Final = changed_ports("mkey-set", 2)

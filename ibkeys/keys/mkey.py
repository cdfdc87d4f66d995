"""M_Keys: the secret itself, and the check that protects a port (IBA 14.2.4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, final

from ibkeys.keys.secret import Secret64
from ibkeys.mad.const import AttributeID, Method
from ibkeys.printable import Detail


@final
class MKey(Secret64):
    """A 64-bit M_Key. 0 is not a key: the port is not protected at all."""

    __slots__ = ()
    name = "M_Key"


NO_MKEY: Final = MKey(0)

CHECKED_METHODS: Final = frozenset({Method.GET, Method.SET, Method.TRAP_REPRESS})


@dataclass(frozen=True, slots=True)
class MKeyVerdict:
    """The reaction of a port to one SMP.

    ``accepted``: the port processes the SMP, and answers a Get or Set. ``m_key_shown``: the number in the M_Key field
    of GetResp(PortInfo); None for any other attribute, and if the SMP is dropped. ``count_violation``: the port adds 1
    to M_KeyViolations and sends trap 256. ``start_lease``: the port starts the lease timer unless the timer runs.
    ``stop_lease``: the port stops the lease timer if the timer runs.
    """

    accepted: bool
    m_key_shown: int | None
    count_violation: bool
    start_lease: bool
    stop_lease: bool


def check_m_key(
    method: int, attribute_id: int, protect_bits: int, port_m_key: int, request_m_key: int, lease_period: int = 0
) -> MKeyVerdict:
    """Return the reaction of a port to one SMP by the M_Key check.

    Only Get, Set and TrapRepress are checked. *protect_bits*: the level in force: 0 after the lease has expired.
    *lease_period*: M_KeyLeasePeriod in seconds; 0: a wrong key starts no lease timer. For a Set(PortInfo),
    ``m_key_shown`` is the number before the Set; the reply shows the newly stored key. Source: IBA 14.2.4; Linux qib
    and hfi1 SMAs, which agree.
    """
    is_port_info = attribute_id == AttributeID.PORT_INFO
    good = port_m_key in (0, request_m_key)
    checked = method in CHECKED_METHODS
    if good or not checked:
        return MKeyVerdict(True, port_m_key if is_port_info else None, False, False, good and checked)
    if method == Method.GET and protect_bits < 2:
        shown = port_m_key if protect_bits == 0 else 0
        return MKeyVerdict(True, shown if is_port_info else None, False, False, False)
    return MKeyVerdict(False, None, True, lease_period != 0, False)


PROTECTION_TEXT: Final = {
    0: "Get answered and shows the key to everybody; Set needs the key",
    1: "Get answered but hides the key; Set needs the key",
    2: "Get and Set need the key",
    3: "Get and Set need the key",
}


def notes_on_levels(levels: Iterable[int]) -> list[str]:
    """Return a note on each of the M_KeyProtectBits *levels* that ports get. Only level 0 gives the key away; of the
    others it is a `Detail`."""
    texts = [(level, f"level {level}: {PROTECTION_TEXT[level]}") for level in levels]
    return [Detail(text) if level else text for level, text in texts]

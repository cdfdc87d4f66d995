"""M_Keys: the secret itself, and the check that guards a port (IBA 14.2.4)."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Final, Self, final

from ibkeys.errors import EncodeError
from ibkeys.keys.number import parse_secret_number
from ibkeys.mad.const import AttributeID, Method

MASK: Final = "<M_Key not shown>"


@final
class MKey:
    """A 64-bit M_Key. It masks itself in ``str``, ``repr``, ``format`` and pickles; only `reveal` gives the number.

    Comparable and hashable, so that two ports can be seen to share a key without either being shown.
    """

    __slots__ = ("__value",)

    def __init__(self, value: int) -> None:
        """Raises EncodeError for a value outside 64 bits; the message does not show it."""
        if not 0 <= value < 1 << 64:
            raise EncodeError("M_Key does not fit 64 bits (value not shown)")
        self.__value = value

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``0x...`` or decimal. Raises EncodeError; the message does not show the text."""
        return cls(parse_secret_number(text, "M_Key", 64))

    @classmethod
    def generate(cls) -> Self:
        """Return a new non-zero key from the system's cryptographic random source."""
        return cls(1 + secrets.randbelow((1 << 64) - 1))

    def reveal(self) -> int:
        """Return the number. Every caller of this is a place where a key can leak: keep them few."""
        return self.__value

    @property
    def is_zero(self) -> bool:
        """Whether this is the key 0, which means no protection at all."""
        return self.__value == 0

    def hex(self) -> str:
        """Return ``0x`` and 16 digits: for files of mode 0600 and for output that was asked to show keys."""
        return f"0x{self.__value:016x}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MKey) and other.__value == self.__value

    def __hash__(self) -> int:
        return hash((MKey, self.__value))

    def __repr__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("an M_Key is not pickled")


NO_MKEY: Final = MKey(0)

CHECKED_METHODS: Final = frozenset({Method.GET, Method.SET, Method.TRAP_REPRESS})


@dataclass(frozen=True, slots=True)
class MKeyVerdict:
    """What a port does with one SMP.

    ``accepted``: process it (a reply follows for Get and Set). ``m_key_shown``: the number that GetResp(PortInfo) shows
    as M_Key, None for any other attribute or when dropped. ``count_violation``: M_KeyViolations + 1 and trap 256.
    ``start_lease``: start the lease timer unless it runs. ``stop_lease``: stop it if it runs.
    """

    accepted: bool
    m_key_shown: int | None
    count_violation: bool
    start_lease: bool
    stop_lease: bool


def check_m_key(
    method: int, attribute_id: int, protect_bits: int, port_m_key: int, request_m_key: int, lease_period: int = 0
) -> MKeyVerdict:
    """Decide one SMP by the M_Key check, after lease expiry has been applied to *protect_bits*.

    *m_key_shown* of a Set(PortInfo) is that before the Set; its reply shows the newly stored key.
    Only Get, Set and TrapRepress are checked. Source: IBA 14.2.4; Linux qib and hfi1 SMAs, which agree.
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

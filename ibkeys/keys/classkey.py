"""Keys of management classes other than subnet management: the secrets, and the check that protects a port.

The check of the B_Key is that of opa-ff's baseboard agent. For the other classes no device was observed. Their checks
are assumed to be like that of the B_Key or that of the M_Key, and the caller chooses which.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from ibkeys.keys.secret import Secret64
from ibkeys.mad.const import Method


@final
class ClassKey(Secret64):
    """A 64-bit key of one management class at one port. 0 is not a key: the class is not protected there."""

    __slots__ = ()
    name = "class key"


NO_CLASS_KEY: Final = ClassKey(0)


@dataclass(frozen=True, slots=True)
class ClassKeyVerdict:
    """The reaction of a port to one MAD of a class with a key.

    ``accepted``: the port processes the MAD. ``key_hidden``: a Get of the KeyInfo returns 0 in place of the key.
    ``counted``: the port counts a violation, sends a trap, and starts the lease timer unless the lease is 0.
    ``is_right``: the MAD carries the key of the port, or the port has none.
    """

    accepted: bool
    key_hidden: bool
    counted: bool
    is_right: bool


def check_class_key(
    method: int, port_key: int, protect_bit: int, request_key: int, *, drops_gets: bool
) -> ClassKeyVerdict:
    """Return the reaction of a port with *port_key* to one MAD that carries *request_key*.

    *drops_gets*: the port with a protect bit drops and counts a Get without its key, as at M_Key level 2. Otherwise it
    answers such a Get, and hides the key. The behaviour of devices is known only for the B_Key: they answer such a Get.
    """
    if port_key in (0, request_key):
        return ClassKeyVerdict(True, False, False, True)
    if method != Method.GET:
        return ClassKeyVerdict(False, False, True, False)
    if protect_bit and drops_gets:
        return ClassKeyVerdict(False, False, True, False)
    return ClassKeyVerdict(True, bool(protect_bit), False, False)
